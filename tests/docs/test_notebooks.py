"""The notebooks of the examples run, and their outputs equal those of their files."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

import notebooks


def texts(notebook: dict[str, Any]) -> list[Any]:
    """The outputs of its cells. Only the presence of pictures is compared, because fonts differ between machines."""
    outputs: list[Any] = []
    for cell in notebook["cells"]:
        for output in cell.get("outputs", ()):
            is_fixed = "varies" not in cell["metadata"].get("tags", ())
            data = {kind: output["data"][kind] for kind in output.get("data", ()) if kind != "image/png"}
            has_picture = "image/png" in output.get("data", ())
            if has_picture:
                # The text contains the position of the axes.
                del data["text/plain"]
            outputs.append((output.get("text") if is_fixed else None, data if is_fixed else sorted(data), has_picture))
    return json.loads(re.sub(r"0x[0-9a-f]+", "0x", json.dumps(outputs)))  # type: ignore[no-any-return]


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    "file",
    [pytest.param(file, marks=pytest.mark.always if file.stem == "tour" else ()) for file in notebooks.NOTEBOOKS],
    ids=lambda file: str(file.stem),
)
def test_a_notebook_has_the_outputs_of_its_cells(file: Path) -> None:
    stored = json.loads(file.read_text("utf-8"))
    assert (stored["nbformat"], stored["nbformat_minor"]) == (4, 5)
    fresh = notebooks.executed(stored, file.stem)
    assert texts(fresh) == texts(stored), "run scripts/notebooks.py"
    assert [cell["id"] for cell in stored["cells"]] == [f"cell-{n}" for n in range(len(stored["cells"]))]


def test_a_cell_shows_what_it_prints_and_the_result_of_its_last_line(spark: SparkSession) -> None:
    names: dict[str, Any] = {"spark": spark}
    outputs = notebooks.outputs_of("print('one')\nclass A:\n  def _repr_html_(self): return '<b>'\nA()", "x", names, 3)
    assert outputs[0]["text"] == ["one\n"]
    assert outputs[1]["data"]["text/html"] == ["<b>"]
    assert outputs[1]["execution_count"] == 3
    assert notebooks.outputs_of("x = 1", "x", names, 4) == []
    assert notebooks.outputs_of("None", "x", names, 5) == []
