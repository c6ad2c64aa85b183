"""The default Spark session of a program or a command."""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession

from mullion._bridge import jvm
from mullion._bridge.connect import is_remote
from mullion._native.configure import configure
from mullion.errors import UnsupportedError
from mullion.topics import Broker


def require_driver(spark: SparkSession, what: str) -> None:
    """Raises :class:`UnsupportedError` for a session of Spark Connect: programs run in Spark's driver."""
    if is_remote(spark):
        raise UnsupportedError(
            f"{what} was given a session of Spark Connect, and it runs functions in the process of Spark's driver: "
            "what it publishes, its timers, and what it asks of a running query. Run the program where the driver "
            "runs, with spark-submit or as a job of the cluster (on Databricks with dedicated access mode), without "
            "SPARK_REMOTE. Over Spark Connect, mullion.windowed(...) gives the same panes as a DataFrame."
        )


def session_for(name: str, broker: Broker) -> SparkSession:
    """The active session, or a local one; under ``spark-submit``, the one that it configures."""
    active = SparkSession.getActiveSession()
    if active is not None:
        require_driver(active, f"{name!r}")
        return active
    # Workers need this program's packages: on this machine; a cluster has its own setting.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    defaults = {
        "spark.master": "local[*]",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        # For small state and small batches more partitions than cores only cost time.
        "spark.sql.shuffle.partitions": "4",
        **broker.session_options(),
    }
    for key, value in defaults.items():
        # Settings of spark-submit have priority.
        if key not in builder._options and not (jvm.is_running() and jvm.running_conf(key)):
            builder = builder.config(key, value)
    return configure(builder).getOrCreate()


def session_of_command(name: str) -> SparkSession:
    """The active session, or one for a command of ``mullion`` that reads checkpoints, with Spark's default settings."""
    active = SparkSession.getActiveSession()
    builder = SparkSession.builder.appName(f"mullion {name}").config("spark.ui.showConsoleProgress", "false")
    return active if active is not None else configure(builder).getOrCreate()
