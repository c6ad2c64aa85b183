"""Mistakes that mypy and pyright must find in a user's program, and calls that it must accept."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

PROGRAM = """
from pyspark.sql import DataFrame, functions as F
from mullion import Early, Session, Sliding, Tumbling, windowed

def panes(df: DataFrame) -> DataFrame:
    hours = windowed(df, Tumbling("1 hour"), time="ts", early=Early(every="5 minutes"))
    hours.agg(F.count("*").alias("n"))
    hours.agg(F.sum("v"), n=F.count("*"))
    hours.agg(n="count")  # mistake
    hours.aggregate(F.count("*"))  # mistake
    hours.select("n")  # mistake
    hours["n"]  # mistake
    windowed(df, "1 hour", time="ts")  # mistake
    windowed(df, Sliding(size="1 hour", slide="5 minutes"), time="ts", late="keep")  # mistake
    windowed(df, Session("1 hour"), tiem="ts")  # mistake
    return hours.collect(order="time")
"""


CHECKERS = {
    "mypy": ["--config-file", str(ROOT / "pyproject.toml"), "--no-error-summary", "--hide-error-context"],
    # Pyright as a package that needs no download when it runs. The settings of the program's folder are pyright's own.
    "basedpyright": ["--pythonpath", sys.executable],
}


@pytest.mark.parametrize("checker", CHECKERS)
def test_a_type_checker_finds_each_mistake_and_nothing_else(checker: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM, "utf-8")
    (tmp_path / "pyrightconfig.json").write_text('{"typeCheckingMode": "standard"}', "utf-8")
    folder = ["--project", str(tmp_path)] if checker == "basedpyright" else [str(program)]
    done = subprocess.run(
        [sys.executable, "-m", checker, *CHECKERS[checker], *folder],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    reported = {int(line) for line in re.findall(r"program\.py:(\d+)(?::\d+)?(?: -|:) error", done.stdout)}
    expected = {number for number, line in enumerate(PROGRAM.splitlines(), 1) if line.endswith("# mistake")}
    assert reported == expected, done.stdout + done.stderr
