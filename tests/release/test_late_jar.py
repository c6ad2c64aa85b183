"""A JAR that is added after an application's start, by ``ADD JAR`` or ``addArtifacts``: docs/platforms/cluster.md."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mullion._util import jars
from tests.support.killing import environment

pytestmark = pytest.mark.slow

PROGRAM = """
import sys
from pyspark.sql import SparkSession, functions as F
import mullion

how, jar, checked = sys.argv[1:]
builder = SparkSession.builder.config("spark.ui.enabled", False).config("spark.mullion.checkRuntime", checked)
builder = builder.remote("local[1]") if how == "remote" else builder.master("local[1]")
spark = builder.getOrCreate()
if how == "sql":
    spark.sql(f"ADD JAR '{jar}'").collect()
else:
    spark.addArtifacts(jar)
rows = spark.sql("SELECT timestamp_seconds(id) AS ts FROM range(120)")
try:
    panes = mullion.windowed(rows, mullion.Tumbling("1 minute"), time="ts").agg(F.count("*").alias("n"))
    print("panes:", sorted(row.n for row in panes.collect()))
except mullion.MullionError as error:
    print("refused:", error)
print("rows:", rows.count())
spark.stop()
"""


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("sql", "Mullion's JAR was added to this application after it had started"),
        ("artifact", "Mullion's JAR is not on the class path"),
        ("remote", "The Spark Connect server (Spark"),
    ],
)
def test_it_is_rejected_by_name_and_the_session_continues(tmp_path: Path, how: str, message: str) -> None:
    output = output_of(tmp_path, how)
    assert f"refused: {message}" in output, output
    assert "rows: 120" in output


def test_where_the_runtime_is_not_checked_a_batch_runs(tmp_path: Path) -> None:
    output = output_of(tmp_path, "sql", checked="false")
    assert "panes: [60, 60]" in output, output


def output_of(folder: Path, how: str, checked: str = "true") -> str:
    """Runs the program. Returns its output."""
    program = folder / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, str(program), how, str(jars.carried(jars.running_line())), checked],
        # The program's server uses any free port.
        env={**environment(), "SPARK_TESTING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout
