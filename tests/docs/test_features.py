"""docs/reference/features.md lists every test case of the transcripts once, and nothing else."""

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


def test_every_case_is_in_the_row_of_a_feature_and_every_link_is_a_case(features: ModuleType) -> None:
    page = features.PAGE.read_text("utf-8")
    should, wrong = features.filled_in(page, features.read_cases())
    assert wrong == []
    assert page == should, "run python scripts/features.py"


def test_every_link_leads_to_the_file_of_its_case(features: ModuleType) -> None:
    links = [
        (name, file)
        for line in features.PAGE.read_text("utf-8").splitlines()
        if line.startswith("| ")
        for name, file in features.re.findall(r"\[([^\[\]]+)\]\(\.\./\.\./tests/transcripts/([\w/]+\.yaml)\)", line)
        if name != file.removesuffix(".yaml")
    ]
    files = {case.name: case.file for case in features.read_cases()}
    assert len(links) >= len(files)
    assert all(files[name] == file for name, file in links)


def test_a_case_without_a_row_and_a_row_without_a_case_are_reported(features: ModuleType) -> None:
    rules = "| rule | meaning | page | begin with |\n| 1 | . |  | [one]() |\n"
    page = f"{rules}{features.FEATURES}\n| a | b |  | [three]() |\n"
    cases = [features.Case("x.yaml", "one", frozenset({1, 2})), features.Case("y.yaml", "two", frozenset({1}))]
    filled, wrong = features.filled_in(page, cases)
    assert "| 1 | . | [x](../../tests/transcripts/x.yaml), [y](../../tests/transcripts/y.yaml) | [one]" in filled
    reported = "\n".join(wrong)
    assert "no test case is called 'three'" in reported
    assert "the test case 'one' (x.yaml) is in no row" in reported
    assert "the test case 'two' (y.yaml) is in no row" in reported
    assert "rule 2 is in no row" in reported
