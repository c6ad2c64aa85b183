"""Queries from Kafka to Kafka with injected faults, compared with the same queries without faults.

::

    topic -> windows of several kinds -> topics, exactly once        a driver, its Python workers, a broker, a disk
                    SIGKILL the driver | SIGKILL a Python worker | SIGKILL the broker | the disk is full, or read-only
                    the clock jumps | a file of state is cut or removed while no driver runs

All rows are in Kafka before the queries start, and each batch reads a fixed number of them. So the batches of both runs
have the same rows, and each firing of a pane must exist once, in order. Windows of processing time depend on the clock
and have other panes in each run: each row must be in one pane, and each pane must close once. ``make faults`` runs
this; ``KILLS=`` is the number of faults.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from mullion import Around, Count, Early, MullionError, Session, Sliding, Tumbling, together, topics, windowed
from mullion.topics._kafka import client
from tests.support.kafka.kafka_connector import connector_jars
from tests.support.kafka.kafka_server import ROOT, KafkaServer
from tests.support.killing import committed, environment, session_of_its_own

INPUT = "in"
ROWS_OF_BATCH = 60
NAMES = ("together", "count", "around")
"""The queries whose panes do not depend on the clock."""

BY_CLOCK = "by_clock"
FLOOD = 4_000_000
"""The time of the row that closes all panes, in seconds after the other rows."""

# A disk that fails on demand is a class of the Scala tests. Without these classes the fault is skipped.
TEST_CLASSES = ROOT / "jvm" / "target" / "scala-2.13" / "test-classes"


def panes_of(rows: DataFrame) -> dict[str, DataFrame]:
    """Windows of each kind, over one stream."""

    def counted(window: Any, **options: Any) -> DataFrame:
        panes = windowed(rows, window, by="k", **options)
        return panes.agg(F.count("*").alias("n"), F.sum("id").alias("ids"))

    many = together(
        hops=counted(Sliding("20 seconds", "5 seconds"), time="ts"),
        hours=counted(
            Tumbling("30 seconds"),
            time="ts",
            allowed_lateness="20 seconds",
            early=Early(count=4),
            on_time=True,
            late="emit",
        ),
        visits=counted(Session("4 seconds"), time="ts", late="reopen"),
    )
    return {
        "together": many,
        "count": counted(Count(7, 3), time=None),
        "around": counted(Around("5 seconds", "0 seconds"), time="ts"),
        BY_CLOCK: counted(Tumbling("20 seconds"), time=None, early=Early(every="5 seconds"), at_end="close"),
    }


def as_json(panes: DataFrame, topic: str) -> DataFrame:
    """Each row of a result as JSON, for the publisher."""

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                encoded = topics.encoded(pa.RecordBatch.from_pylist([{"row": row["row"]}]))
                yield pa.RecordBatch.from_pydict({"topic": [topic], "key": [row["k"]], "batch": [encoded]})

    return panes.select("k", F.to_json(F.struct("*")).alias("row")).mapInArrow(rows, topics.OUTPUTS)


def passed(rows: DataFrame) -> DataFrame:
    """The same rows, after a Python worker below the windows."""

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    return rows.mapInArrow(read, rows.schema)


def life(home: Path, servers: str, prefix: str) -> None:
    """Runs the queries to the end of the topic, and restarts failed ones, until it is killed."""
    conf = {"spark.python.worker.faulthandler.enabled": "false"}
    if TEST_CLASSES.is_dir():
        conf["spark.hadoop.fs.file.impl"] = "dev.mullion.files.FaultyFiles"
        conf["spark.hadoop.fs.AbstractFileSystem.file.impl"] = "dev.mullion.files.FaultyFilesContext"
        conf["spark.driver.extraClassPath"] = f"{mullion_jar()}{os.pathsep}{TEST_CLASSES}"
        os.environ["MULLION_TEST_DISK"] = str(home / "disk")
    # Spark retries a task whose worker was killed.
    spark = session_of_its_own(home / "life", "local[2,100]", connector_jars(), conf)
    spark.sparkContext.setLogLevel("ERROR")
    broker = topics.broker(f"kafka://{servers}")
    while True:
        try:
            run(spark, home, broker, servers, prefix)
            return
        # A publisher raises this itself if the broker was down for long.
        except (StreamingQueryException, MullionError) as failed:
            with (home / "failures").open("a") as note:
                note.write(f"{failed}\n\n")
            time.sleep(0.5)


class Clock:
    """A clock for queries: the machine's clock plus a number of seconds that a file contains."""

    def __init__(self, spark: SparkSession, says: Path) -> None:
        self._says = says
        self._spark = spark
        jvm: Any = spark._jvm
        self._clock = jvm.org.apache.spark.util.ManualClock(self._now())
        threading.Thread(target=self._go_on, daemon=True).start()

    def give_to(self, query: Any) -> None:
        """Sets the clock of a query. Reflection is the only way for a query with ``foreachBatch``."""
        execution = query._jsq.streamingQuery()
        kind = execution.getClass()
        while kind is not None:
            for member in kind.getDeclaredFields():
                if member.getName() == "triggerClock":
                    member.setAccessible(True)
                    member.set(execution, self._clock)
            kind = kind.getSuperclass()

    def _go_on(self) -> None:
        while True:
            self._clock.setTime(self._now())
            time.sleep(0.05)

    def _now(self) -> int:
        ahead = float(self._says.read_text() or 0) if self._says.exists() else 0.0
        return int(1000 * (time.time() + ahead))


def mullion_jar() -> Path:
    from mullion._util import jars

    return jars.carried(jars.running_line())


def run(spark: SparkSession, home: Path, broker: topics.Broker, servers: str, prefix: str) -> None:
    source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers)
    records = source.options(subscribe=INPUT, startingOffsets="earliest", maxOffsetsPerTrigger=ROWS_OF_BATCH).load()
    value = F.from_json(F.col("value").cast("string"), "k string, t bigint, id bigint")
    rows = passed(records.select(value.alias("v")).select("v.*"))
    timed = rows.withColumn("ts", F.timestamp_seconds("t")).withWatermark("ts", "10 seconds").where("k is not null")
    started: list[Any] = []
    publishers: list[Any] = []
    clock = Clock(spark, home / "clock")
    try:
        for name, panes in panes_of(timed).items():
            publishers.append(broker.publisher())
            writer = as_json(panes, f"{prefix}-{name}").writeStream.foreachBatch(publishers[-1].publish)
            place = str(home / f"{prefix}-{name}")
            started.append(writer.option("checkpointLocation", place).trigger(availableNow=True).start())
            clock.give_to(started[-1])
        for query in started:
            query.awaitTermination()
    finally:
        for query in started:
            query.stop()
        for publisher in publishers:
            publisher.close()


def produced(servers: str, batches: int, rng: random.Random) -> None:
    client.make(servers, INPUT, partitions=1)
    rows = []
    for number in range(batches * ROWS_OF_BATCH):
        time_of = max(0, 3 * number // ROWS_OF_BATCH + rng.randrange(-25, 6))
        rows.append({"k": f"key {rng.randrange(8)}", "t": time_of, "id": number})
    rows.append({"k": None, "t": FLOOD, "id": -1})
    texts = [(None, json.dumps(row).encode(), 1_000_000) for row in rows]
    client.produce(servers, INPUT, texts)


@dataclass
class Outcome:
    """The faults that queries had, and the differences of their panes."""

    workers: int = 0
    drivers: int = 0
    brokers: int = 0
    disks: int = 0
    files: int = 0
    jumps_ahead: int = 0
    jumps_back: int = 0
    panes: int = 0
    panes_by_clock: int = 0
    firings: int = 0
    lost: int = 0
    repeated: int = 0
    disordered: int = 0
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def kills(self) -> int:
        return self.workers + self.drivers + self.brokers

    def __str__(self) -> str:
        return (
            f"Python workers killed {self.workers}, drivers {self.drivers}, brokers {self.brokers}; disks full or "
            f"read-only {self.disks}, files of state cut or gone {self.files}; the clock set ahead "
            f"{self.jumps_ahead}, back {self.jumps_back}\n"
            f"firings {self.firings}, out of order {self.disordered}; panes of processing time {self.panes_by_clock}\n"
            f"kills {self.kills}, panes {self.panes}, lost {self.lost}, repeated {self.repeated}"
        )


def of_session(leader: int) -> dict[int, tuple[int, str]]:
    """The processes of a session, with their parents and command lines."""
    processes = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                numbers = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(numbers[3]) == leader:
                    processes[int(entry.name)] = (int(numbers[1]), (entry / "cmdline").read_text())
            except OSError:
                continue
    return processes


def killed(process: int) -> bool:
    """Kills a process, unless it has ended meanwhile."""
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def end(driver: subprocess.Popen[bytes]) -> None:
    """Kills a driver, with its JVM and its workers."""
    for process in of_session(driver.pid):
        killed(process)
    driver.wait()


class Campaign:
    def __init__(self, home: Path, kafka: KafkaServer, batches: int, kills: int, seed: int) -> None:
        self.home, self.kafka, self.batches, self.kills = home, kafka, batches, kills
        self.rng = random.Random(seed)
        self.outcome = Outcome()
        self.disk = home / "disk"
        self.ahead = 0.0

    def run(self) -> Outcome:
        produced(self.kafka.servers, self.batches, self.rng)
        for prefix, disturbed in (("plain", False), ("killed", True)):
            began = time.monotonic()
            self.lives(prefix, disturbed)
            self.outcome.seconds[prefix] = time.monotonic() - began
        self.compare()
        return self.outcome

    def lives(self, prefix: str, disturbed: bool) -> None:
        while True:
            driver = self.driver(prefix)
            ended = False
            try:
                while not ended and driver.poll() is None:
                    time.sleep(self.rng.uniform(0.1, 0.6))
                    ended = disturbed and self.disturb(driver, prefix)
            finally:
                end(driver)
            if not ended:
                assert driver.returncode == 0, (self.home / f"{prefix}-log").read_text()[-4000:]
                return
            if self.rng.random() < 0.3:
                self.damage(prefix)

    def driver(self, prefix: str) -> subprocess.Popen[bytes]:
        """Starts the driver in a new session of processes."""
        with (self.home / f"{prefix}-log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, __file__, "life", str(self.home), self.kafka.servers, prefix],
                env=environment(),
                stdout=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,
            )

    def progress(self, prefix: str) -> float:
        done = [committed(self.home / f"{prefix}-{name}") for name in NAMES]
        return sum(done) / (len(NAMES) * self.batches)

    def disturb(self, driver: subprocess.Popen[bytes], prefix: str) -> bool:
        """Injects the next fault if it is due. Returns True if the driver is dead."""
        outcome, rng = self.outcome, self.rng
        if outcome.kills >= self.kills * min(1.0, self.progress(prefix) * 1.1):
            return False
        number = outcome.kills + 1
        if rng.random() < 0.3:
            self.set_clock()
        if number % 10 == 0:
            outcome.drivers += 1
            return True
        if number % 25 == 0 or number == self.kills // 2:
            outcome.brokers += 1
            self.kafka.kill()
            time.sleep(rng.uniform(0, 2))
            self.kafka.start()
            return False
        if number % 10 == 5 and TEST_CLASSES.is_dir() and outcome.disks < number / 10:
            outcome.disks += 1
            self.disk.write_text(rng.choice(["No space left on device", "Read-only file system"]))
            time.sleep(rng.uniform(0.2, 2))
            self.disk.unlink()
        running = of_session(driver.pid)
        daemons = {
            process for process, (_, runs) in running.items() if "pyspark.daemon" in runs or "pyspark/daemon" in runs
        }
        workers = [process for process in daemons if running[process][0] in daemons]
        if workers:
            outcome.workers += killed(rng.choice(workers))
        return False

    def set_clock(self) -> None:
        before, self.ahead = self.ahead, self.rng.uniform(-90, 90)
        self.outcome.jumps_ahead += self.ahead > before
        self.outcome.jumps_back += self.ahead < before
        # A driver reads the file meanwhile, so it is replaced atomically.
        temporary = self.home / "clock-made"
        temporary.write_text(str(self.ahead))
        temporary.replace(self.home / "clock")

    def damage(self, prefix: str) -> None:
        """Cuts or hides a file of state: queries report it or do without it. Then restores the file."""
        written = [
            file
            for file in self.home.glob(f"{prefix}-*/state/*/[0-9]*/*")
            if file.suffix in (".changelog", ".zip") and not file.name.startswith(".")
        ]
        if not written:
            return
        self.outcome.files += 1
        file = self.rng.choice(sorted(written, key=lambda f: f.stat().st_mtime)[-6:])
        aside = self.home / "aside"
        shutil.copy2(file, aside)
        if self.rng.random() < 0.5:
            os.truncate(file, file.stat().st_size // 2)
        else:
            file.unlink()
        driver = self.driver(prefix)
        try:
            driver.wait(timeout=15)
        except subprocess.TimeoutExpired:
            pass
        finally:
            end(driver)
        shutil.copy2(aside, file)

    def texts(self, topic: str) -> list[str]:
        """The rows of a topic, each partition's in order."""
        records = sorted(client.read(self.kafka.servers, topic), key=lambda record: (record.partition, record.offset))
        return [json.loads(record.value or b"")["row"] for record in records]

    def firings(self, prefix: str) -> dict[tuple[str, ...], list[str]]:
        """The firings of each pane in order. Late rows have no pane and are separate."""
        published: dict[tuple[str, ...], list[str]] = defaultdict(list)
        for name in NAMES:
            for text in self.texts(f"{prefix}-{name}"):
                row = json.loads(text)
                pane = row.get("window")
                key = (name, row["k"], row.get("window_name", ""), json.dumps(pane) if pane else text)
                published[key].append(text)
        return published

    def compare(self) -> None:
        plain, killed, outcome = self.firings("plain"), self.firings("killed"), self.outcome
        outcome.panes = len(plain)
        for pane in plain.keys() | killed.keys():
            wanted, got = plain.get(pane, []), killed.get(pane, [])
            outcome.firings += len(wanted)
            outcome.lost += (Counter(wanted) - Counter(got)).total()
            outcome.repeated += (Counter(got) - Counter(wanted)).total()
            outcome.disordered += wanted != got and Counter(wanted) == Counter(got)
        wanted_rows = self.rows_sent()
        for prefix in ("plain", "killed"):
            self.compare_rows(prefix, wanted_rows)

    def rows_sent(self) -> dict[str, tuple[int, int]]:
        """The number of each key's rows and the sum of their ids."""
        counts: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
        for record in client.read(self.kafka.servers, INPUT):
            row = json.loads(record.value or b"")
            if row["k"] is not None:
                many, ids = counts[row["k"]]
                counts[row["k"]] = many + 1, ids + row["id"]
        return dict(counts)

    def compare_rows(self, prefix: str, sent: dict[str, tuple[int, int]]) -> None:
        """Windows of processing time: each row is in one pane, and each pane closes once, after its early firings."""
        outcome = self.outcome
        firings: dict[tuple[str, str], list[Any]] = defaultdict(list)
        for text in self.texts(f"{prefix}-{BY_CLOCK}"):
            row = json.loads(text)
            firings[row["k"], json.dumps(row["window"])].append(row)
        got: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
        for (key, _), rows in firings.items():
            closes = [row for row in rows if row["pane"]["firing"] == "close"]
            outcome.repeated += len(closes) - 1
            outcome.disordered += [row["pane"]["seq"] for row in rows] != list(range(len(rows)))
            outcome.disordered += bool(closes) and closes[0] is not rows[-1]
            many, ids = got[key]
            got[key] = many + sum(row["n"] for row in closes), ids + sum(row["ids"] for row in closes)
        for key, (many, ids) in sent.items():
            outcome.lost += max(0, many - got[key][0])
            outcome.repeated += max(0, got[key][0] - many)
            # The number is equal but the rows differ.
            outcome.lost += many == got[key][0] and ids != got[key][1]
        if prefix == "killed":
            outcome.panes_by_clock = len(firings)


def main() -> None:
    if sys.argv[1:2] == ["life"]:
        folder, servers, prefix = sys.argv[2:]
        life(Path(folder), servers, prefix)
        return
    parser = argparse.ArgumentParser(description="Kills queries from Kafka to Kafka, and compares their output.")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--batches", type=int, default=0, help="of each query; 0 for what the kills take")
    parser.add_argument("--seed", type=int, default=random.randrange(2**31))
    arguments = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="faults"))
    kafka = KafkaServer(home)
    print(f"seed {arguments.seed}", flush=True)
    try:
        kafka.start()
        outcome = Campaign(
            home, kafka, arguments.batches or max(12, arguments.kills), arguments.kills, arguments.seed
        ).run()
    finally:
        kafka.kill()
    print(", ".join(f"{name}: {seconds:.0f} s" for name, seconds in outcome.seconds.items()))
    print(outcome)
    if outcome.lost or outcome.repeated or outcome.disordered:
        raise SystemExit(f"{home} has the checkpoints")
    shutil.rmtree(home)


if __name__ == "__main__":
    main()
