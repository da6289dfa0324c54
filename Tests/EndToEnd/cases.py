"""Tables of the cases of a specification: which test shows each of them."""


def lost(root, files, cases):
    """What a table says wrongly: (case, file, name) where the file has no such name.

    `files` gives paths below Tests by their short names, `cases` pairs of a case and (short name, what stands in the file)."""
    texts = {}

    def text(file):
        if file not in texts:
            path = root / "Tests" / files[file]
            texts[file] = path.read_text() if path.exists() else ""
        return texts[file]

    return [(case, files[file], name) for case, (file, name) in cases if name not in text(file)]
