"""The list of what was tried on the page and the library names tests that are there."""

import re

from server import ROOT


def test_the_list_of_the_page_and_the_library_names_what_there_is(s):
    rows = [row.split("|") for row in (ROOT / "docs" / "develop" / "faces.md").read_text().splitlines() if row.startswith("| ")]
    files = [*(ROOT / "Tests" / "EndToEnd" / "page").glob("*_test.py"), ROOT / "Tests" / "Library" / "run.py"]
    source = "\n".join(path.read_text() for path in files)
    tests = re.findall(r"def test_(\w+)", source) + [f"in_c_{name}" for name in re.findall(r'in_c\("(\w+)"', source)]
    tests += [path.stem for path in files]
    named = [name for row in rows for name in re.findall(r"`([a-z_]+)`", row[2])]
    lost = [name for name in named if not any(test.startswith(name) for test in tests)]
    assert not lost and len(rows) > 100 and len(named) > 100, (lost, len(rows), len(named))
    return f"{len(rows)} rows"
