"""``scripts/try-on-databricks.py`` on a Spark that appears to be a Databricks Runtime."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from mullion._util import jars
from tests.support.killing import environment

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).parents[2] / "scripts" / "try-on-databricks.py"


def test_a_complete_runtime_is_accepted_and_its_test_cases_pass(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    options = ["--folder", str(tmp_path / "try"), "--report", str(report), "--scenarios", "6"]
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *options],
        env={**environment(), "DATABRICKS_RUNTIME_VERSION": "18.1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    results = json.loads(report.read_text("utf-8"))
    assert results["about"]["runtime"] == "18.1"
    assert (results["error"], results["lacks"]) == (None, "")
    assert "AdaptiveSparkPlan" in results["plan"]
    assert results["counted"] == {"right": 6}
    assert "Please send us" in done.stdout


def test_a_runtime_with_photon_is_rejected_before_a_query_starts(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "from pyspark.sql import SparkSession, functions as F\n"
        "import mullion\n"
        "builder = SparkSession.builder.master('local[1]').config('spark.ui.enabled', False)\n"
        "builder.config('spark.databricks.clusterUsageTags.sparkVersion', '18.1.x-photon-scala2.13')\n"
        "spark = mullion.configure(builder).getOrCreate()\n"
        "rows = spark.sql('SELECT timestamp_seconds(id) AS ts FROM range(9)')\n"
        "try:\n"
        "    mullion.windowed(rows, mullion.Tumbling('1 minute'), time='ts').agg(F.count('*').alias('n'))\n"
        "except mullion.UnsupportedError as error:\n"
        "    print('rejected:', error)\n"
    )
    done = subprocess.run(
        [sys.executable, str(program)],
        env={**environment(), "DATABRICKS_RUNTIME_VERSION": "18.1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "rejected: This is Databricks Runtime 18.1" in done.stdout, done.stderr[-3000:]
    assert "without Photon" in done.stdout
    assert "spark.mullion.checkRuntime=false" in done.stdout


PLAIN = """
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", False).getOrCreate()
print("rows:", spark.range(3).count(), spark.newSession().range(4).count())
for text in ("SELECT * FROM mullion_recover('x')", "SELECT mullion_window_start(timestamp'2024-01-01', '1 hour')"):
    try:
        spark.sql(text).collect()
    except Exception as error:
        print("refused:", error)
"""


def test_a_session_without_mullion_calls_starts_on_a_rejected_runtime(tmp_path: Path) -> None:
    message = "Databricks Runtime 18.1"
    photon = "spark.databricks.clusterUsageTags.sparkVersion=18.1.x-photon-scala2.13"
    program = tmp_path / "program.py"
    program.write_text(PLAIN)
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    done = subprocess.run(
        [
            *("bash", str(submit), "--jars", str(jars.carried(jars.running_line())), "--conf", photon),
            *("--conf", "spark.sql.extensions=dev.mullion.MullionExtensions", str(program)),
        ],
        env={**environment(), "DATABRICKS_RUNTIME_VERSION": "18.1", "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "rows: 3 4" in done.stdout
    assert done.stdout.count("refused: ") == 2
    assert done.stdout.count(message) == 2
    warnings = [line for line in done.stderr.splitlines() if "Mullion rejects every call" in line]
    assert len(warnings) == 1
    assert message in warnings[0]
