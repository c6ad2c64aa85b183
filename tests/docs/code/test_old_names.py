"""scripts/old_names.py finds names that were renamed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "scripts"))

import old_names  # noqa: E402


@pytest.mark.parametrize(
    "old", ["StatefulFunctionExec", f"import {old_names.SPARK}.exec.WindowExec", "from mullion._jvm import x"]
)
def test_an_old_name_is_found(old: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "code.py").write_text(f"# {old}\n")
    monkeypatch.setattr(old_names, "ROOT", tmp_path)
    assert old_names.main("code.py") == 1


def test_the_sources_have_none() -> None:
    assert old_names.main() == 0
