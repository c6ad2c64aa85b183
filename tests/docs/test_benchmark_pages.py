"""Tests that the README and the page of results have the stored figures, as the report writes them."""

from __future__ import annotations

import pytest

from harness import report


def test_the_tables_of_the_pages_are_those_of_the_stored_runs() -> None:
    everywhere = report.stored_runs()
    assert everywhere
    for page, produced in (
        (report.README, report.readme_tables(everywhere)),
        (report.PAGE, report.page_tables(everywhere)),
    ):
        _, rest = page.read_text("utf-8").split(report.BEGIN)
        assert rest.split(report.END)[0].strip() == produced, f"{page.name}: benchmarks/run.py --keep writes it"


def test_the_readme_shows_ten_comparisons_at_most_from_the_greatest_ratio_to_the_least() -> None:
    tables: list[list[float]] = []
    for line in report.readme_tables(report.stored_runs()).splitlines():
        if line.startswith("| windows"):
            tables.append([])
        elif line.startswith("| ") and not line.startswith("| ---"):
            tables[-1].append(float(line.split(" | ")[-1].strip(" |").replace(",", "")))
    ratios = [ratio for table in tables for ratio in table]
    assert 0 < len(ratios) <= 10
    assert all(table == sorted(table, reverse=True) for table in tables), "of each run"
    assert min(ratios) < 1, "a ratio below 1 is shown too"


@pytest.mark.parametrize(
    ("ratio", "shown"), [(0.866, "0.87"), (3.736, "3.7"), (21.394, "21"), (151550.808, "150,000"), (9.99, "10")]
)
def test_a_ratio_is_shown_with_the_digits_that_count(ratio: float, shown: str) -> None:
    assert report.two_digits(ratio) == shown
