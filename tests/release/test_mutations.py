"""``scripts/mutations.py`` breaks rules in the sources as they are."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_each_broken_rule_has_its_line_once_in_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    script = runpy.run_path("scripts/mutations.py", run_name="mutations")
    assert len(script["MUTATIONS"]) >= 11
    assert script["misplaced"]() == []
