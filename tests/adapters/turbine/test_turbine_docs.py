"""docs/adapters/turbine-conformance.md names a test for each line, and each of them exists."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "adapters" / "turbine-conformance.md").read_text("utf-8")
TESTS = {
    name
    for file in (ROOT / "tests").rglob("test_*.py")
    for name in re.findall(r"^def (test_\w+)\(", file.read_text("utf-8"), re.MULTILINE)
}


def test_each_line_of_the_tables_of_turbine_names_a_test_that_there_is() -> None:
    for head, cells in (("| the document | Mullion | test |", 3), ("| rule | test |", 2)):
        table = PAGE.split(head, 1)[1].split("\n\n", 1)[0].splitlines()[2:]
        assert len(table) >= 5
        for line in table:
            parts = line.strip("| ").split(" | ")
            assert len(parts) == cells, line
            named = re.findall(r"`(test_\w+)`", parts[-1])
            assert named or "tests/transcripts/" in parts[-1], line
            assert set(named) <= TESTS, line
