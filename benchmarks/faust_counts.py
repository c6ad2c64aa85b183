"""The same counts with faust-streaming and with Mullion, in the JVM and in Python: ``faust_counts.py [ROWS] [KEYS]``.

All sides read the same topic of a Kafka broker, which is started for it, and count each key in ranges of 10 seconds;
the counts of each are compared with counts of the rows. faust-streaming is measured from its first event on, in one
worker. Mullion is measured from the call of ``run`` until it returns, after a first run; the program in the JVM also
over ten times the rows, where the start of the query matters less. Needs ``make kafka``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from pyspark.sql import SparkSession
from tests.support.kafka.kafka_connector import connector_jars
from tests.support.kafka.kafka_server import KafkaServer, free_ports

import mullion.faust as faust
from harness.workloads import CORES
from mullion import configure
from mullion.topics._kafka.client import make, produce

SIZE = 10
FIRST = 1_700_000_000

Counts = dict[tuple[str, int], int]


def feed(servers: str, topic: str, rows: int, keys: int) -> Counts:
    """Rows of a hundred seconds, in order of time, by key in the topic's partitions; returns the counts."""
    rng = np.random.default_rng(1)
    key_names = [f"k{key}" for key in rng.integers(0, keys, rows)]
    times = FIRST + np.arange(rows) * 100 // rows
    make(servers, topic)
    # Whole seconds, for at the last instants of a range faust-streaming has none.
    events = zip(key_names, times, strict=True)
    produce(servers, topic, ((k, f'{{"k":"{k}"}}'.encode(), int(at) * 1_000_000) for k, at in events))
    return Counter((k, int(at) // SIZE * SIZE) for k, at in zip(key_names, times, strict=True))


def original(servers: str, topic: str, rows: int, folder: Path) -> tuple[float, Counts]:
    answers = folder / "original.json"
    here = Path(__file__).with_name("systems") / "faust_original.py"
    # Without this folder and that of the tests on its path.
    command = [sys.executable, "-P", str(here), servers, topic, str(rows), str(answers), str(free_ports()[0])]
    subprocess.run(command, check=True, timeout=3600, stdout=subprocess.DEVNULL)
    report = json.loads(answers.read_text())
    return report["seconds"], {(key, round(start)): n for key, start, n in report["counts"]}


def ours(spark: SparkSession, url: str, topic: str, home: Path, compiled: bool) -> tuple[float, Counts]:
    app = faust.App("ours", broker=url, checkpoint=home, spark=spark, compiled=compiled)
    counts = app.Table("counts", default=int).tumbling(SIZE, expires=365 * 86_400)

    @app.agent(app.topic(topic, value_type=dict))
    async def count(events: Any) -> None:
        async for event in events:
            counts[event["k"]] += 1

    begun = time.perf_counter()
    app.run(until="drained")
    took = time.perf_counter() - begun
    assert app.explain().parts[0].runs == ("JVM" if compiled else "Python")
    results = app.table("counts").read().collect()
    return took, {(json.loads(r.key), round(r.window.start.timestamp())): int(r.value) for r in results}


def session() -> SparkSession:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = (
        SparkSession.builder.master(f"local[{CORES}]")
        .config("spark.driver.memory", "4g")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", CORES)
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.jars", ",".join(jar.as_uri() for jar in connector_jars()))
    )
    spark = configure(builder).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def rounds(rows: int) -> Iterable[tuple[str, int]]:
    yield "faust-streaming", rows
    yield "Mullion, in Python", rows
    yield "Mullion, in the JVM", rows
    yield "Mullion, in the JVM", rows * 10


def main(rows: int, keys: int) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        server = KafkaServer(folder)
        server.start()
        try:
            expected = {n: feed(server.servers, f"events-{n}", n, keys) for n in (rows, rows * 10)}
            spark = session()
            for compiled in (True, False):
                ours(spark, server.url, f"events-{rows}", folder / f"first-{compiled}", compiled)
            print(f"{keys:,} keys, ranges of {SIZE} s, {CORES} cores, Kafka and all; Spark {spark.version}")
            faust_rate = 0.0
            for number, (side, n) in enumerate(rounds(rows)):
                topic = f"events-{n}"
                if side == "faust-streaming":
                    took, counts = original(server.servers, topic, n, folder)
                else:
                    took, counts = ours(spark, server.url, topic, folder / str(number), side.endswith("JVM"))
                assert counts == expected[n], f"{side} has other counts"
                figure = n / took
                faust_rate = faust_rate or figure
                print(
                    f"{side:<20} {n:>10,} rows  {figure:>9,.0f} rows/s  {figure / faust_rate:>6.1f} of faust-streaming"
                )
            print("All sides counted the same.")
        finally:
            server.kill()


if __name__ == "__main__":
    numbers = [int(argument) for argument in sys.argv[1:]]
    main(*(numbers + [100_000, 1_000][len(numbers) :]))
