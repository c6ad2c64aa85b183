"""A checkpoint in an object store: S3, by a server on this machine with the same protocol."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from mullion import Session, read_panes, windowed
from tests.support.campaigns.standalone import wait_until
from tests.support.kafka.kafka_server import free_ports
from tests.support.killing import kill_after, session_of_its_own
from tests.support.seeds import SEED
from tests.support.streams import FLOOD, SECOND, Feed

pytestmark = pytest.mark.slow

GOT = Path(__file__).parents[2] / ".build" / "s3"
CHECKPOINT = "s3a://panes/checkpoint"
COLUMNS = "k string, id bigint"


@pytest.fixture
def s3(tmp_path: Path) -> Iterator[str]:
    """The server, with an empty bucket."""
    program = GOT / "venv" / "bin" / "moto_server"
    assert program.is_file(), "The server is not there. Get it: make s3"
    port, _ = free_ports()
    url = f"http://localhost:{port}"
    with (tmp_path / "s3.log").open("wb") as log:
        server = subprocess.Popen([str(program), "-p", str(port)], stdout=log, stderr=log)
    try:
        wait_until("the server of S3 answers", lambda: _makes_bucket(url))
        yield url
    finally:
        server.kill()
        server.wait()


def _makes_bucket(url: str) -> bool:
    try:
        with urllib.request.urlopen(urllib.request.Request(f"{url}/panes", method="PUT"), timeout=5):
            return True
    except urllib.error.URLError:
        return False


def session_with(home: Path, url: str) -> SparkSession:
    jars = sorted((GOT / "jars").glob("*.jar"))
    assert jars, "Hadoop's S3A is not there. Get it: make s3"
    hadoop = {
        "fs.s3a.endpoint": url,
        "fs.s3a.endpoint.region": "us-east-1",
        "fs.s3a.path.style.access": "true",
        # The server sends 100 Continue twice, and the client that copies files takes the second one for the answer.
        "fs.s3a.optimized.copy.from.local.enabled": "false",
        "fs.s3a.access.key": "anyone",
        "fs.s3a.secret.key": "anything",
    }
    conf = {f"spark.hadoop.{name}": value for name, value in hadoop.items()}
    return session_of_its_own(home, jars=jars, conf=conf)


def run(spark: SparkSession, home: Path) -> None:
    """Runs sessions over all available rows. Each batch replaces the output of an earlier attempt."""

    def write(batch: DataFrame, number: int) -> None:
        batch.write.mode("overwrite").parquet(str(home / "out" / f"batch={number}"))

    rows = Feed(home / "in", COLUMNS).stream(spark, "20 seconds")
    panes = windowed(rows, Session("4 seconds"), by="k", time="ts").agg(F.sort_array(F.collect_list("id")).alias("ids"))
    writer = panes.writeStream.foreachBatch(write).option("checkpointLocation", CHECKPOINT)
    writer.trigger(availableNow=True).start().awaitTermination()


def somewhere(home: Path, more: int, rng: random.Random) -> Iterator[float]:
    """Ends within a batch, some hundredths of a second after the output of another batch."""
    until = len(written(home)) + more
    while len(written(home)) < until:
        yield 0.02
    for _ in range(rng.randrange(40)):
        yield 0.02


def written(home: Path) -> list[Path]:
    return list(home.glob("out/batch=*/_SUCCESS"))


def shown(panes: DataFrame) -> Counter[Row]:
    return Counter(panes.select("k", "window.start", F.col("ids").cast("string")).collect())


def test_a_query_with_a_checkpoint_on_s3_is_killed_and_continues(spark: SparkSession, tmp_path: Path, s3: str) -> None:
    rng = random.Random(SEED)
    feed = Feed(tmp_path / "in", COLUMNS)
    batches = 0
    for life in range(3):
        for _ in range(7):
            at = 20 * batches
            feed.write(
                (max(0, at + rng.randrange(-10, 5)) * SECOND, f"key {i % 7}", 100 * batches + i) for i in range(30)
            )
            batches += 1
        if life < 2:
            kill_after(tmp_path, somewhere(tmp_path, 6, rng), __file__, s3, "run")
    feed.flood()
    checked = [sys.executable, __file__, str(tmp_path), s3, "check"]
    path = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(checked, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"MULLION_SEED={SEED}\n{done.stderr[-4000:]}"


def check(spark: SparkSession, home: Path) -> None:
    """Compares the output with the panes of Spark's sessions."""
    out = shown(spark.read.parquet(str(home / "out")))
    rows = Feed(home / "in", COLUMNS).batch(spark).where(F.col("t") != FLOOD)
    sessions = rows.groupBy("k", F.session_window("ts", "4 seconds").alias("window"))
    expected = shown(sessions.agg(F.sort_array(F.collect_list("id")).alias("ids")))
    assert set(out) == set(expected)
    assert len(out) > 20
    assert out == expected
    assert read_panes(CHECKPOINT).count() == 0, "the state can be read, and all its panes have closed"


def main(home: Path, url: str, how: str) -> None:
    spark = session_with(home, url)
    run(spark, home)
    if how == "check":
        check(spark, home)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
