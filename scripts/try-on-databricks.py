"""Tests Mullion on a live cluster, Databricks or any other Spark, and writes a report to send to us.

    python scripts/try-on-databricks.py --folder /Volumes/catalog/schema/volume/mullion

The cluster has Mullion's wheel and JAR as libraries (docs/platforms/databricks.md). The script runs in a checkout of
the project, because it runs its test cases. ``--folder`` is a path that the driver's Python and all executors can
access. It runs a random part of the test cases, another part with another ``--seed``; they leave nothing behind.

The report contains versions, the settings in ``SETTINGS``, the APIs that Spark lacks and the JAR calls, a plan, and the
result of each test case. No data, no other settings, no environment.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pyarrow
import pyspark
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from tests.support.transcripts.scenario import Scenario, scenarios
from tests.support.transcripts.scenario_run import Run, play

import mullion
from mullion import MullionError, Tumbling, windowed

SETTINGS = (
    "spark.master",
    "spark.sql.extensions",
    "spark.sql.streaming.stateStore.providerClass",
    "spark.sql.streaming.stateStore.checkpointFormatVersion",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled",
    "spark.sql.streaming.checkpointFileManagerClass",
    "spark.sql.ansi.enabled",
    "spark.databricks.clusterUsageTags.sparkVersion",
    "spark.databricks.clusterUsageTags.runtimeEngine",
)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parsed(arguments)
    spark = mullion.configure(SparkSession.builder).getOrCreate()
    report: dict[str, Any] = {"mullion": mullion.__version__, "about": about(spark)}
    report["error"] = first_error(spark)
    # Continues after an error, because the report must contain all of them.
    spark.conf.set("spark.mullion.checkRuntime", "false")
    report["lacks"] = tried(lambda: lacks(spark))
    report["plan"] = tried(lambda: plan(spark))
    report["scenarios"] = results = run_some(spark, options.folder, options.scenarios, options.seed)
    report["counted"] = dict(Counter(scenario["result"] for scenario in results))
    options.report.write_text(json.dumps(report, indent=1), "utf-8")
    for scenario in results:
        if scenario["result"] != "right":
            print(f"{scenario['name']}: {scenario['result']}: {scenario['why'].splitlines()[-1]}")
    print(f"Error of the first call: {report['error'] or 'none'}")
    print(f"Missing classes and methods: {report['lacks'] or 'none'}")
    print(f"Test cases: {report['counted']}")
    print(f"Please send us {options.report}")
    return 0 if set(report["counted"]) <= {"right"} and report["error"] is None else 1


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir(), "mullion-try"))
    parser.add_argument("--report", type=Path, default=Path("mullion-report.json"))
    parser.add_argument("--scenarios", type=int, default=40, help="the number of test cases")
    parser.add_argument("--seed", type=int, default=1, help="selects the test cases")
    return parser.parse_args(arguments)


def about(spark: SparkSession) -> dict[str, Any]:
    settings = {name: spark.conf.get(name, None) for name in SETTINGS}
    return {
        "spark": spark.version,
        "pyspark": pyspark.__version__,
        "runtime": os.environ.get("DATABRICKS_RUNTIME_VERSION"),
        "python": platform.python_version(),
        "pyarrow": pyarrow.__version__,
        "session": type(spark).__module__,
        "java": tried(lambda: jvm(spark).java.lang.System.getProperty("java.version")),
        "settings": {name: value for name, value in settings.items() if value is not None},
    }


def jvm(spark: SparkSession) -> Any:
    return spark._jvm


def tried(call: Any) -> Any:
    """Returns the result of a call, or the traceback of its error."""
    try:
        return call()
    except Exception:
        return traceback.format_exc()


def first_error(spark: SparkSession) -> str | None:
    """Returns the error of the first call, if there is one."""
    try:
        windowed(minutes(spark), Tumbling("1 minute"), time="ts").agg(F.count("*").alias("n"))
    except MullionError as error:
        return str(error)
    return None


def lacks(spark: SparkSession) -> str:
    return str(jvm(spark).dev.mullion.Facade.lacks())


def minutes(spark: SparkSession) -> Any:
    return spark.range(120).select(F.timestamp_seconds("id").alias("ts"))


def plan(spark: SparkSession) -> str:
    panes: Any = windowed(minutes(spark), Tumbling("1 minute"), time="ts").agg(F.count("*").alias("n"))
    return str(panes._jdf.queryExecution().executedPlan().toString())


def run_some(spark: SparkSession, folder: Path, number: int, seed: int) -> list[dict[str, Any]]:
    own = spark.newSession()
    # As in the project's tests.
    own.conf.set("spark.mullion.checkRuntime", "false")
    own.conf.set("spark.sql.shuffle.partitions", "2")
    own.conf.set("spark.sql.session.timeZone", "UTC")
    chosen = random.Random(seed).sample(scenarios(), min(number, len(scenarios())))
    return [run(own, scenario, folder / str(i)) for i, scenario in enumerate(chosen)]


def run(spark: SparkSession, scenario: Scenario, folder: Path) -> dict[str, Any]:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    began = time.monotonic()
    result, why = "right", ""
    try:
        if scenario.refused is None:
            scenario_run = Run(spark, scenario, folder)
            try:
                play(scenario_run)
            finally:
                scenario_run.query.stop()
        else:
            try:
                Run(spark, scenario, folder).start()
                result, why = "wrong", "it raised no error"
            except MullionError:
                pass
    except AssertionError:
        result, why = "wrong", traceback.format_exc()
    except Exception:
        result, why = "failed", traceback.format_exc()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    seconds = round(time.monotonic() - began, 1)
    return {"name": scenario.name, "result": result, "why": why, "seconds": seconds}


if __name__ == "__main__":
    sys.exit(main())
