"""The objects on the heap of the JVM."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession


def live(spark: SparkSession) -> Counter[str]:
    """The number of reachable objects of each of Mullion's classes."""
    jvm: Any = spark._jvm
    process = jvm.java.lang.ProcessHandle.current()
    jcmd = Path(jvm.java.lang.System.getProperty("java.home"), "bin", "jcmd")
    command = [str(jcmd), str(process.pid()), "GC.class_histogram"]
    # Two collections: the first one only enqueues weakly referenced objects.
    subprocess.run(command, capture_output=True, check=True)
    histogram = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    lines = [line.split() for line in histogram.splitlines()]
    ours = ("dev.mullion.", "org.apache.spark.sql.mullion.")
    return Counter({line[3]: int(line[1]) for line in lines if len(line) > 3 and line[3].startswith(ours)})
