"""docs/features.md names every story of the transcripts, once, and links to nothing else."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "features.py"


@pytest.fixture(scope="module")
def features() -> ModuleType:
    spec = importlib.util.spec_from_file_location("features", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_story_is_in_the_row_of_a_feature_and_every_link_is_a_story(features: ModuleType) -> None:
    page = features.PAGE.read_text("utf-8")
    should, wrong = features.filled_in(page, features.stories())
    assert wrong == []
    assert page == should, "run python scripts/features.py"


def test_every_story_that_is_linked_is_told_in_the_file_that_the_link_names(features: ModuleType) -> None:
    links = [
        (name, file)
        for line in features.PAGE.read_text("utf-8").splitlines()
        if line.startswith("| ")
        for name, file in features.re.findall(r"\[([^\[\]]+)\]\(\.\./tests/transcripts/(\w+\.yaml)\)", line)
        if name != file.removesuffix(".yaml")
    ]
    told = {story.name: story.file for story in features.stories()}
    assert len(links) >= len(told)
    assert all(told[name] == file for name, file in links)


def test_a_story_without_a_row_and_a_row_without_a_story_are_told(features: ModuleType) -> None:
    rules = "| rule | says | told in | begin with |\n| 1 | . |  | [one]() |\n"
    page = f"{rules}{features.FEATURES}\n| a | b |  | [three]() |\n"
    told = [features.Story("x.yaml", "one", frozenset({1, 2})), features.Story("y.yaml", "two", frozenset({1}))]
    filled, wrong = features.filled_in(page, told)
    assert "| 1 | . | [x](../tests/transcripts/x.yaml), [y](../tests/transcripts/y.yaml) | [one]" in filled
    told_wrong = "\n".join(wrong)
    assert "no story is called 'three'" in told_wrong
    assert "the story 'one' (x.yaml) is in no row" in told_wrong
    assert "the story 'two' (y.yaml) is in no row" in told_wrong
    assert "rule 2 is in no row" in told_wrong
