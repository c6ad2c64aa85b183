"""The pages of settings and of errors are complete."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mullion import errors

ROOT = Path(__file__).parents[2]
SETTING = re.compile(r"spark\.sql\.streaming\.stateStore\.mullion\.(\w+)")
# Tests set the first; each run sets its number `run`; Turbine's programs set `unbegun` for their queries.
NOT_FOR_USERS = {"expireRows", "run", "unbegun"}


def rows_of(page: str) -> dict[str, list[str]]:
    """The rows of the tables of a page, by the names in their first cells."""
    lines = (ROOT / "docs" / "reference" / page).read_text("utf-8").splitlines()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("| `")]
    return {row[0].strip("`"): row[1:] for row in rows}


def test_every_setting_of_the_jar_is_on_the_page_of_settings() -> None:
    sources = (ROOT / "jvm").rglob("src/main/**/*.scala")
    in_sources = {name for source in sources for name in SETTING.findall(source.read_text("utf-8"))}
    assert in_sources >= NOT_FOR_USERS
    documented = {match[1] for row in rows_of("settings.md") if (match := SETTING.fullmatch(row))}
    assert documented == in_sources - NOT_FOR_USERS


ERRORS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, Exception) and kind.__module__ == errors.__name__
]


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__name__)
def test_every_error_is_on_the_page_of_errors_with_its_condition(kind: type[Exception]) -> None:
    if kind in (errors.MullionError, errors.NewWindowsError):
        assert f"`{kind.__name__}`" in (ROOT / "docs" / "reference" / "errors.md").read_text("utf-8")
        return
    condition = rows_of("errors.md")[kind.__name__][0]
    assert condition == (f"`{kind.condition}`" if issubclass(kind, errors.MullionError) else "")
