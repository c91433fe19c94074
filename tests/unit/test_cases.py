"""Every public acceptance case has a test that is named after it and carries its marker."""

import re
from pathlib import Path

CASES = Path(__file__).parent.parent / "cases"
TEST = re.compile(r"^((?:@.*\n|    .*\n|\)\n)*)def (test_p(\d\d)_\w+)\(", re.MULTILINE)
MARKER = re.compile(r'^@pytest\.mark\.case\("P-(\d\d)"\)$', re.MULTILINE)


def found() -> list[tuple[str, str, list[str]]]:
    """Name, number and markers of each test of a case."""
    return [
        (match[2], match[3], MARKER.findall(match[1]))
        for path in sorted(CASES.glob("test_*.py"))
        for match in TEST.finditer(path.read_text())
    ]


def test_every_case_has_a_test() -> None:
    numbers = {number for _, number, _ in found()}
    assert {f"{n:02}" for n in range(1, 74)} - numbers == set()


def test_names_and_markers_agree() -> None:
    assert [one for one in found() if one[2] != [one[1]]] == []
