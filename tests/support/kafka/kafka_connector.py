"""The JARs of Spark's connector to Kafka, which ``make kafka`` downloads."""

from __future__ import annotations

from pathlib import Path

from mullion._util.jars import running_line
from tests.support.kafka.kafka_server import JARS


def connector_jars() -> list[Path]:
    """The JARs for the installed Spark version."""
    of_line = JARS / f"connector-{running_line()}"
    return sorted((of_line if of_line.is_dir() else JARS / "connector").glob("*.jar"))
