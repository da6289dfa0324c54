"""Every case of the specification of surfaces has a test."""

import surface_cases
from server import ROOT


def test_every_case_of_the_specification_is_somewhere(s):
    missing = surface_cases.missing(ROOT)
    assert not missing, missing
    return f"{sum(map(len, surface_cases.CASES.values()))} cases"
