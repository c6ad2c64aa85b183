"""The page on KX names a test for each of its lines."""

import re
from pathlib import Path

HERE = Path(__file__).parent
PAGE = (HERE.parents[1] / "docs" / "kx-conformance.md").read_text("utf-8")


def test_each_line_of_the_page_names_a_test_that_is_there() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| line")]
    files = [file.read_text("utf-8") for file in HERE.glob("test_kx_*.py")]
    tests = {name for text in files for name in re.findall(r"def (test_\w+)", text)}
    assert rows
    for row in rows:
        named = re.findall(r"`(test_\w+)`", row)
        assert named, row
        assert set(named) <= tests, row
