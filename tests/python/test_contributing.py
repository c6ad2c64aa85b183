"""What ``CONTRIBUTING.md`` names is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`([\w/.-]+/[\w.-]+\.(?:scala|py))`", TEXT)))
SOURCES = [
    file.as_posix()
    for folder in ("jvm/src/main/scala", "python/mullion", "scripts", "tests/python", "examples")
    for file in (ROOT / folder).rglob("*.*")
]


@pytest.mark.parametrize("name", NAMED)
def test_a_file_of_the_map_is_there(name: str) -> None:
    assert [file for file in SOURCES if file.endswith("/" + name)]


def test_the_map_names_files() -> None:
    assert len(NAMED) > 30
