"""Turns a judged collection in SMART's format (Cranfield, CISI, MED) into notes and questions for `mlxserve search --evaluate`.

smart_notes.py FOLDER OUT writes OUT/notes/NNNN.txt, a note for each document, and OUT/judgements.jsonl, a line for each
question that has a relevant document. FOLDER has the files as they are published: *.ALL or cran.all.1400, *.QRY or cran.qry,
*.REL or cranqrel."""

import json
import pathlib
import sys

# Of a document what a reader would read: its title and its text. Authors, places and references are left out.
READ = ("T", "W")


def records(path):
    """Each record of a file: its number, and its fields by their letters."""
    number, fields, field = None, {}, None
    for line in path.read_text("latin-1").splitlines():
        if line.startswith(".I"):
            if number is not None:
                yield number, fields
            number, fields, field = int(line.split()[1]), {}, None
        elif len(line.strip()) == 2 and line[0] == "." and line[1].isupper():
            field = line[1]
            fields.setdefault(field, [])
        elif field is not None:
            fields[field].append(line)
    if number is not None:
        yield number, fields


def text(fields):
    title = " ".join(" ".join(fields.get("T", [])).split())
    body = "\n".join(fields.get("W", [])).strip()
    # Cranfield's texts begin with their titles.
    if title and " ".join(body.split()).startswith(title):
        title = ""
    return (title + "\n\n" + body).strip() + "\n"


def judgements(path):
    """Relevant documents of each question. Cranfield numbers questions by their place, and has 1 for the best and 4 for the
    least; all are relevant."""
    relevant = {}
    for line in path.read_text("latin-1").splitlines():
        columns = line.split()
        if len(columns) < 2:
            continue
        relevant.setdefault(int(columns[0]), set()).add(int(columns[1]))
    return relevant


def one(folder, *patterns):
    for pattern in patterns:
        found = sorted(folder.glob(pattern))
        if found:
            return found[0]
    raise SystemExit(f"{folder} has none of {', '.join(patterns)}: it is no collection in SMART's format")


def main():
    folder, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    notes = out / "notes"
    notes.mkdir(parents=True, exist_ok=True)
    documents = {}
    for number, fields in records(one(folder, "*.ALL", "*.all.*")):
        documents[number] = text(fields)
        (notes / f"{number:04}.txt").write_text(documents[number])
    relevant = judgements(one(folder, "*.REL", "*qrel"))
    questions = one(folder, "*.QRY", "*.qry")
    isByPlace = questions.name.startswith("cran")
    lines = []
    for place, (number, fields) in enumerate(records(questions), 1):
        question = " ".join(text(fields).split())
        found = relevant.get(place if isByPlace else number, set())
        grades = {f"{d:04}.txt": 1 for d in sorted(found) if documents.get(d, "").strip()}
        if grades:
            lines.append(json.dumps({"query": question, "relevant": grades}))
    (out / "judgements.jsonl").write_text("\n".join(lines) + "\n")
    print(f"{len(documents)} notes, {len(lines)} questions")


if __name__ == "__main__":
    main()
