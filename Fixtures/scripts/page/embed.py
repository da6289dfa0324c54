"""Packs the files of the chat page into Sources/Server/Page/PageFiles.swift: `make page`.

A string literal compiles at once; SwiftPM's own `.embedInCode` writes a list of numbers, which takes the compiler half a
minute (docs/decisions/023-the-page-in-the-binary.md)."""

import base64
import gzip
import hashlib
import pathlib
import sys

PAGE = pathlib.Path(__file__).resolve().parents[3] / "Sources" / "Server" / "Page"
TYPES = {
    ".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
    ".json": "application/json", ".svg": "image/svg+xml", ".webmanifest": "application/manifest+json"}
HEAD = """\
// Written by Fixtures/scripts/page/embed.py (`make page`) from the files in ui/; a test compares them.
// swift-format-ignore-file

extension PageFile {
  static let all: [PageFile] = [
"""


def packed_text(text):
    """The same without indentation and without lines that are comments: a browser reads neither."""
    lines = (line.strip() for line in text.splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("//") and not (
        line.startswith("/*") and line.endswith("*/"))) + "\n"


def entry(path):
    data = packed_text(path.read_text()).encode()
    name = "" if path.name == "index.html" else path.relative_to(PAGE).as_posix()
    # The digest is of the content, so a tag holds for both of its encodings.
    tag = f'W/"{hashlib.sha256(data).hexdigest()[:16]}"'
    packed = base64.b64encode(gzip.compress(data, 9, mtime=0)).decode()
    lines = "\\\n".join(packed[at : at + 116] for at in range(0, len(packed), 116))
    return (f'    PageFile(path: "{name}", contentType: "{TYPES[path.suffix]}", tag: #"{tag}"#,\n'
            f'      byteCount: {len(data)}, packed: """\n{lines}\n""",\n'.replace('""",', '"""),'), len(data), len(packed))


def main():
    files = sorted(path for path in (PAGE / "ui").rglob("*") if path.is_file())
    entries = [entry(path) for path in files]
    (PAGE / "PageFiles.swift").write_text(HEAD + "".join(text for text, _, _ in entries) + "  ]\n}\n")
    print(f"{len(files)} files, {sum(size for _, size, _ in entries)} bytes")


if __name__ == "__main__":
    sys.exit(main())
