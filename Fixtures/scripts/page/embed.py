"""Packs the files of the chat page into Sources/Server/Page/PageFiles.swift: `make page`.

A string literal compiles at once; SwiftPM's own `.embedInCode` writes a list of numbers, which takes the compiler half a
minute (docs/decisions/023-the-page-in-the-binary.md)."""

import base64
import gzip
import hashlib
import pathlib
import re
import sys

PAGE = pathlib.Path(__file__).resolve().parents[3] / "Sources" / "Server" / "Page"
TYPES = {
    ".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
    ".txt": "text/plain; charset=utf-8", ".svg": "image/svg+xml", ".webmanifest": "application/manifest+json"}
HEAD = """\
// Written by Fixtures/scripts/page/embed.py (`make page`) from the files in ui/; a test compares their digests.
// swift-format-ignore-file

extension PageFile {
  /// Of the script and of the style sheet in the page itself, for its policy.
  static let scriptDigest = "SCRIPT"
  static let styleDigest = "STYLE"
  /// Of the script in the frame of previews.
  static let previewDigest = "PREVIEW"

  static let all: [PageFile] = [
"""
# Files that are sent in the page itself, for which the first paint then need not wait, by what they stand in for.
INSIDE = {
    '<script src="ui/early.js"></script>': ("script", PAGE / "ui" / "early.js"),
    '<link rel="stylesheet" href="ui/app.css">': ("style", PAGE / "ui" / "app.css")}


# What a blank means something in, longest first; a regular expression is one only where a value may begin.
PARTS = re.compile(r'''(?P<comment>//[^\n]*|/\*.*?\*/)|(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<template>`)
  |(?P<expression>/(?![*/])(?:[^/\\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/)|(?P<blank>\s+)|(?P<word>[\w$]+)|(?P<sign>.)''', re.S | re.X)
BEFORE_VALUES = {"return", "case", "of", "in", "typeof", "yield", "await", "else"}


def packed_script(text):
    """A script without comments and without blanks that mean nothing; names and order stay, and so do line ends that may
    end a statement."""
    out, at, last = [], 0, ""
    while at < len(text):
        found = PARTS.match(text, at)
        kind, part = found.lastgroup, found[0]
        may_begin = not last or last in BEFORE_VALUES or last[-1] in "(,=:[!&|?{};+-*%<>~^"
        if kind == "expression" and not may_begin:
            kind, part = "sign", "/"
        if kind == "template":
            part = template(text, at)
        at += len(part)
        if kind == "comment":
            continue
        if kind == "blank":
            out.append("\n" if "\n" in part else " ")
            continue
        # A blank stays between two words, between signs that would become another, and as the end of a statement.
        while len(out) > 1 and out[-1].isspace() and out[-2].isspace():
            out[-2:] = ["\n" if "\n" in out[-2] + out[-1] else " "]
        if out and out[-1].isspace():
            is_joined = (last[-1:].isalnum() or last[-1:] in "_$") and (part[0].isalnum() or part[0] in "_$")
            is_end = out[-1] == "\n" and last[-1:] not in "{};,([=&|?:+<>" and part[0] not in "});,].?:&|=<>" or (
                out[-1] == "\n" and last == "}" and part[0] in "([`/+-")
            if not (is_joined or is_end or (last[-1:] == part[0] and part[0] in "+-")):
                out.pop()
        if part in "})]" and last in ";," and out and not (part == ")" and last == ";"):
            out.pop()
        out.append(part)
        last = part
    return "".join(out).strip() + "\n"


def template(text, at):
    """A template from its first backtick to its last, with the expressions in it as they stand."""
    begin, at, braces = at, at + 1, []
    while True:
        char = text[at]
        if braces:
            braces[-1] += {"{": 1, "}": -1}.get(char, 0)
            if char == "`":
                at += len(template(text, at)) - 1
            elif char in "\"'":
                at += len(PARTS.match(text, at)[0]) - 1
            elif not braces[-1]:
                braces.pop()
        elif char == "\\":
            at += 1
        elif char == "`":
            return text[begin : at + 1]
        elif text.startswith("${", at):
            braces.append(1)
            at += 1
        at += 1


def packed_style(text):
    text = " ".join(re.sub(r"/\*.*?\*/", "", text, flags=re.S).split())
    return re.sub(r" ?([{};,]) ?|(:) ", r"\1\2", text).replace(";}", "}") + "\n"


def packed_text(path):
    """What a browser is sent of a file: without comments, and without blanks and lines that mean nothing."""
    text = path.read_text()
    if path.suffix == ".js":
        return packed_script(text)
    if path.suffix == ".css":
        return packed_style(text)
    if path.name == "preview.html":
        text = re.sub(r"(?<=<script>).*?(?=</script>)", lambda found: packed_script(found[0]), text, flags=re.S)
    text = "\n".join(line.strip() for line in text.splitlines() if line.strip()) + "\n"
    for link, (tag, file) in INSIDE.items() if path.name == "index.html" else ():
        inner = packed_text(file)
        if text.count(link) != 1 or "</" in inner or "<!--" in inner:
            raise ValueError(f"{file.name} cannot be put into {path.name}")
        text = text.replace(link, f"<{tag}>{inner}</{tag}>")
    return text


def digests():
    """What a content security policy calls the script and the style sheet in the page, and the script of the preview."""
    inner = {tag: packed_text(file) for tag, file in INSIDE.values()}
    inner["preview"] = re.search(r"<script>(.*)</script>", packed_text(PAGE / "ui" / "preview.html"), re.S)[1]
    return {tag: "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for tag, text in inner.items()}


def entry(path):
    data = packed_text(path).encode()
    name = "" if path.name == "index.html" else path.relative_to(PAGE).as_posix()
    # The digest is of the content, so a tag holds for both of its encodings.
    tag = f'W/"{hashlib.sha256(data).hexdigest()[:16]}"'
    inside = [file.read_bytes() for _, file in INSIDE.values()] if not name else []
    source = hashlib.sha256(b"".join([path.read_bytes(), *inside])).hexdigest()[:16]
    packed = base64.b64encode(gzip.compress(data, 9, mtime=0)).decode()
    lines = "\\\n".join(packed[at : at + 240] for at in range(0, len(packed), 240))
    return (f'    PageFile(path: "{name}", contentType: "{TYPES[path.suffix]}", tag: #"{tag}"#,\n'
            f'      source: "{source}", byteCount: {len(data)}, packed: """\n{lines}\n""",\n'.replace('""",', '"""),'), len(data), len(packed))


def main():
    inside = [file for _, file in INSIDE.values()]
    files = sorted(path for path in (PAGE / "ui").iterdir() if path.is_file() and path not in inside)
    entries = [entry(path) for path in files]
    known = digests()
    head = HEAD.replace("SCRIPT", known["script"]).replace("STYLE", known["style"]).replace("PREVIEW", known["preview"])
    (PAGE / "PageFiles.swift").write_text(head + "".join(text for text, _, _ in entries) + "  ]\n}\n")
    print(f"{len(files)} files, {sum(size for _, size, _ in entries)} bytes")


if __name__ == "__main__":
    sys.exit(main())
