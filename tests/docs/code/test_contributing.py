"""The files, names and commands of ``CONTRIBUTING.md`` and of its guides exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`([\w/.-]+/[\w.-]+\.(?:scala|py))`", TEXT)))
SOURCES = [
    file.as_posix()
    for folder in (
        "jvm/windows/src/main/scala",
        "jvm/spark/src/main/scala",
        "python/mullion",
        "scripts",
        "tests",
        "examples",
    )
    for file in (ROOT / folder).rglob("*.*")
]

GUIDES = sorted((ROOT / "docs" / "contributing").glob("*.md"))
PATH = re.compile(r"`((?:\.github|benchmarks|docs|examples|jvm|project|python|scripts|tests)/[\w/.-]+)`")
ROW = re.compile(r"^\| `([\w/.-]+\.(?:py|scala|yaml|toml|yml))` \| (.*) \|$", re.MULTILINE)
NAME = re.compile(r"`(?:\w+\.)*(\w+)`")


@pytest.mark.parametrize("name", NAMED)
def test_a_file_of_the_map_is_there(name: str) -> None:
    assert [file for file in SOURCES if file.endswith("/" + name)]


def test_the_map_names_files() -> None:
    assert len(NAMED) > 30


@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.stem)
def test_the_files_of_a_guide_exist(guide: Path) -> None:
    text = guide.read_text("utf-8")
    paths = set(PATH.findall(text))
    assert paths
    assert {path for path in paths if not (ROOT / path).exists()} == set()
    assert f"(docs/contributing/{guide.name})" in TEXT


@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.stem)
def test_the_names_in_a_row_of_a_guide_are_in_the_file_of_the_row(guide: Path) -> None:
    for path, cell in ROW.findall(guide.read_text("utf-8")):
        source = (ROOT / path).read_text("utf-8")
        missing = [name for name in NAME.findall(cell) if not re.search(rf"\b{name}\b", source)]
        assert missing == [], path


@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.stem)
def test_the_commands_of_a_guide_are_in_the_makefile(guide: Path) -> None:
    targets = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert targets is not None
    code = " ".join(re.findall(r"```sh\n.*?```|`[^`\n]*`", guide.read_text("utf-8"), re.DOTALL))
    assert set(re.findall(r"\bmake (?:--silent )?([a-z][a-z-]*)", code)) <= set(targets[1].split())
