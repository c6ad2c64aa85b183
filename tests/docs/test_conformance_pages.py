"""The pages that compare an adapter with its system name a test in each row."""

import re
from pathlib import Path

import pytest

HERE = Path(__file__).parents[1]
ADAPTERS = HERE.parent / "docs" / "adapters"


@pytest.mark.parametrize(
    ("page", "patterns"),
    [
        ("bytewax-conformance.md", ["test_bytewax*.py"]),
        ("faust-conformance.md", ["test_faust_*.py", "test_programs.py"]),
        ("kx-conformance.md", ["test_kx_*.py"]),
    ],
)
def test_each_line_of_the_page_names_a_test_that_is_there(page: str, patterns: list[str]) -> None:
    lines = (ADAPTERS / page).read_text("utf-8").splitlines()
    rows = [line for line in lines if line.startswith("| ") and not line.startswith("| line")]
    files = [file.read_text("utf-8") for pattern in patterns for file in HERE.rglob(pattern)]
    tests = {name for text in files for name in re.findall(r"def (test_\w+)", text)}
    assert rows
    for row in rows:
        named = re.findall(r"`(test_\w+)`", row)
        assert named, row
        assert set(named) <= tests, row
