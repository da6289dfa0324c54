"""Every case of the specification of surfaces has a test."""

import re

import surface_cases
from server import ROOT


def test_every_case_of_the_specification_is_somewhere(s):
    missing = surface_cases.missing(ROOT)
    assert not missing, missing
    return f"{sum(map(len, surface_cases.CASES.values()))} cases"


def test_the_list_of_the_page_and_the_library_is_whole_and_names_what_there_is(s):
    text = (ROOT / "docs" / "develop" / "faces.md").read_text()
    rows = [row for row in text.splitlines() if re.match(r"\| [PWC]\d", row)]
    named = set()
    for row in rows:
        cell = row.split("|")[1]
        for letter, first, _, last in re.findall(r"([PWC])(\d+)( to [PWC](\d+))?", cell):
            named |= {f"{letter}{number:02}" for number in range(int(first), int(last or first) + 1)}
    wanted = {f"{letter}{number:02}" for letter, last in (("P", 23), ("W", 50), ("C", 44)) for number in range(1, last + 1)}
    assert named == wanted, named ^ wanted
    files = [*(ROOT / "Tests" / "EndToEnd" / "page").glob("*_test.py"), ROOT / "Tests" / "Library" / "run.py"]
    source = "\n".join(path.read_text() for path in files)
    tests = re.findall(r"def test_(\w+)", source) + [f"in_c_{name}" for name in re.findall(r'in_c\("(\w+)"', source)]
    tests += [path.stem for path in files]
    lost = [name for row in rows for name in re.findall(r"`([a-z_]+)`", row.split("|")[3])
            if not any(test.startswith(name) for test in tests)]
    assert not lost, lost
    return f"{len(wanted)} cases"
