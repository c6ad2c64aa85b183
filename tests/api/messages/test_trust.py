"""Bytes from outside are data: what could run what it reads is in few places, which are named here."""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGE = Path(__file__).parents[3] / "python" / "mullion"
RUN_WHAT_THEY_READ = {"pickle", "marshal", "shelve", "dill", "cloudpickle"}


def loads_in(file: Path) -> list[str]:
    """Calls that read objects, or run text: ``pickle.loads``, ``eval``, ``exec`` and their like."""
    calls = []
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        if isinstance(called, ast.Name) and called.id in {"eval", "exec"}:
            calls.append(called.id)
        elif isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name):
            module, name = called.value.id, called.attr
            if module in RUN_WHAT_THEY_READ and name in {"load", "loads", "open", "Unpickler"}:
                calls.append(f"{module}.{name}")
    return calls


def test_only_the_listed_places_unpickle_or_evaluate() -> None:
    by_file = {str(file.relative_to(PACKAGE)): calls for file in PACKAGE.rglob("*.py") if (calls := loads_in(file))}
    # A copy of a subscription, pickled in the same line.
    assert by_file.pop("turbine/_plans/schema_probe.py") == ["pickle.loads"]
    # The classes of a dataflow's own script, in a folder that is trusted as a checkpoint is (SECURITY.md).
    assert by_file.pop("bytewax/_log/log.py") == ["cloudpickle.loads"]
    # Logics that the same run has signed.
    assert by_file.pop("bytewax/_query/logics.py") == ["cloudpickle.loads"]
    # Accumulators of a PythonAggregate, and the state of a PaneProcessor, that has pickle=True.
    assert by_file.pop("_util/codec/pickles.py") == ["pickle.loads"]
    assert "pickled" in (PACKAGE.parents[1] / "SECURITY.md").read_text("utf-8")
    assert by_file == {}
