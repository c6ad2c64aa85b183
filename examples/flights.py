"""A year of real flights as a stream: panes that open, fire early and close, and late flights.

The example replays the 336,776 flights that left New York in 2013 in their actual order. The windows are on the
*scheduled* departure, so the rows are out of order by the delay of the flights: up to a day.

    python examples/flights.py              the year, in about a minute
    python examples/flights.py --days 31    January
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.console import Console

import flights_data
import flights_picture
import flights_report
from flights_data import FLIGHT_KEY
from mullion import Early, Tumbling, configure, read_panes, windowed

# The watermark is this far behind the latest scheduled departure. Most flights have left by then.
DELAY = "30 minutes"
# A pane stays open this much longer for the others. A flight that leaves even later is emitted as a late row.
ALLOWED_LATENESS = "1 hour"
# A file, and so a micro-batch, has two days of departures. In such coarse steps nearly every pane would be complete
# immediately, so the worst day has steps of twenty minutes.
FINE = pd.Timedelta(minutes=20)

PANE = ["origin", "carrier", "window"]
RESULTS = ["flights", "cancelled", "mean_delay", "p95_delay", "worst"]


def panes_of(flights: DataFrame) -> DataFrame:
    """The streaming query: a row for each firing of a pane, and one for each late flight."""
    return windowed(
        flights.withWatermark("scheduled", DELAY),
        Tumbling("1 hour"),
        by=["origin", "carrier"],
        time="scheduled",
        allowed_lateness=ALLOWED_LATENESS,
        early=Early(every="15 minutes"),
        late="emit",
    ).agg(*results())


def results() -> list[Column]:
    """The aggregates of a pane. Delays are in minutes, and null for cancelled flights."""
    # The flight breaks ties of equal delays, so that the worst flight does not depend on the order of arrival.
    worst = F.max_by(F.struct("flight", "dest", "delay"), F.struct("delay", "flight", "dest", "scheduled"))
    return [
        F.count("*").alias("flights"),
        (F.count("*") - F.count("delay")).alias("cancelled"),
        F.avg("delay").alias("mean_delay"),
        F.percentile("delay", 0.95).alias("p95_delay"),
        worst.alias("worst"),
    ]


def replay(
    spark: SparkSession, source: Path, checkpoint: Path, output: Path, watch: Callable[[dict[str, Any]], None]
) -> None:
    """Runs the stream over the files of ``source`` to their end, and writes its rows to the file ``output``.

    ``output`` has the columns of :func:`panes_of` and their ``batch``. ``watch`` is called with the progress of each
    batch, in order.
    """
    flights = spark.readStream.schema(spark.read.parquet(str(source)).schema).option("maxFilesPerTrigger", 1)
    panes = panes_of(flights.parquet(str(source)))
    writers: list[pq.ParquetWriter] = []

    def write(batch: DataFrame, number: int) -> None:
        table = batch.toArrow()
        table = table.append_column("batch", pa.array([number] * table.num_rows, pa.int64()))
        if not writers:
            writers.append(pq.ParquetWriter(output, table.schema))
        if table.num_rows:
            writers[0].write_table(table)

    query = (
        panes.writeStream.foreachBatch(write)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    try:
        last = -1
        running = True
        while running:
            time.sleep(0.25)
            running = query.isActive
            for progress in query.recentProgress:
                if progress["batchId"] > last:
                    last = progress["batchId"]
                    watch(progress)
        query.awaitTermination()  # raises the error of a failed query
    finally:
        query.stop()
        for writer in writers:
            writer.close()


@dataclass(frozen=True)
class Check:
    """The comparison of a stream's panes with one batch query over the same rows."""

    panes: int  # in either
    agree: int
    closed: int
    still_open: int
    flights: int
    in_panes: int
    late: int
    late_as_ruled: int
    ruled_late: int
    differing: list[str]

    @property
    def passed(self) -> bool:
        """True if every pane agrees, every flight is counted, and the expected flights are late."""
        return (
            self.agree == self.panes
            and self.flights == self.in_panes + self.late
            and self.late == self.late_as_ruled == self.ruled_late
        )


def check(spark: SparkSession, flights: pd.DataFrame, source: Path, checkpoint: Path, output: Path) -> Check:
    """Compares the output of the stream with a batch query of Spark's own ``groupBy`` and ``window``.

    The result of a pane is that of its close. Panes that are open at the end are read from the stream's state. The
    batch query has every flight except the late ones, and each side must have the same panes.
    """
    fired = spark.read.parquet(str(output))
    closed = fired.where("pane.firing = 'close'").select(*PANE, *RESULTS)
    still_open = read_panes(checkpoint, spark=spark).select(*PANE, *RESULTS)
    late = fired.where("pane.firing = 'late'").select("late_row.*")

    every = spark.read.parquet(str(source))
    hour = F.window("scheduled", "1 hour")
    expected = every.join(late, FLIGHT_KEY, "left_anti").groupBy("origin", "carrier", hour).agg(*results())

    # A pane that closed twice has two rows here, and so cannot agree.
    ours = closed.unionAll(still_open).groupBy(*PANE).agg(F.collect_list(F.struct(*RESULTS)).alias("ours"))
    spark_panes = expected.select(*PANE, F.array(F.struct(*RESULTS)).alias("spark"))
    both = ours.join(spark_panes, PANE, "full_outer")
    both = both.withColumn("same", F.col("ours").eqNullSafe(F.col("spark"))).cache()
    counts = both.agg(F.count("*").alias("panes"), F.count_if("same").alias("agree")).first()
    differing = [str(row) for row in both.where("NOT same").limit(5).collect()]
    both.unpersist()

    in_panes = closed.unionAll(still_open).agg(F.coalesce(F.sum("flights"), F.lit(0))).first()
    assert counts is not None  # an aggregate without keys has one row
    assert in_panes is not None
    came_late = late.select(*FLIGHT_KEY).toArrow().to_pandas()
    rule = flights_data.late_by_rule(flights, pd.Timedelta(DELAY), pd.Timedelta(ALLOWED_LATENESS))
    return Check(
        panes=counts["panes"],
        agree=counts["agree"],
        closed=closed.count(),
        still_open=still_open.count(),
        flights=len(flights),
        in_panes=in_panes[0],
        late=len(came_late),
        late_as_ruled=len(came_late.merge(flights[rule], on=FLIGHT_KEY)),
        ruled_late=int(rule.sum()),
        differing=differing,
    )


def main(arguments: list[str] | None = None) -> int:
    """Replays, reports and checks. Returns the exit code."""
    options = _options(arguments)
    # Without a terminal, rich would use only 80 columns.
    console = Console(width=None if sys.stdout.isatty() else 110)
    options.out.mkdir(parents=True, exist_ok=True)
    firings = options.out / "firings.parquet"
    picture = options.out / "panes.png"

    began = time.monotonic()
    flights = flights_data.load(options.days)
    worst_day = flights_data.worst_day(flights)
    flights = flights_data.cut(flights, worst_day, FINE)

    with tempfile.TemporaryDirectory(prefix="mullion-flights-") as temporary:
        source = Path(temporary, "departures")
        source.mkdir()
        files = flights_data.write(flights, source)
        console.print(
            f"{len(flights):,} flights in the order in which they left, in {files:,} files: one for two days, and on "
            f"the worst day one for each {FINE.components.minutes} minutes."
        )
        spark = _session(options.out / "spark.log")
        try:
            with flights_report.Replaying(console, flights=len(flights), files=files) as bar:
                replay(spark, source, Path(temporary, "checkpoint"), firings, bar.update)
            checked = check(spark, flights, source, Path(temporary, "checkpoint"), firings)
        finally:
            spark.stop()

    story = flights_report.Story.read(flights, firings, pd.Timedelta(ALLOWED_LATENESS))
    flights_report.tables(console, story)
    flights_picture.draw(picture, story, worst_day, pd.Timedelta(DELAY))
    flights_report.verdict(console, checked, picture, seconds=time.monotonic() - began)
    return 0 if checked.passed else 1


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Replays the flights that left New York in 2013 through panes of an hour, and checks the panes."
    )
    parser.add_argument("--days", type=_days, help="replay only this number of days of the year, 1 to 365")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path(__file__).resolve().parent.parent / "out",
        help="the folder for the picture and the firings (default: out, next to examples)",
    )
    return parser.parse_args(arguments)


def _days(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 365:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number of days of 2013. Write a whole number from 1 to 365, or leave it out for all."
        )
    return int(text)


def _session(log: Path) -> SparkSession:
    """A local session that writes its log and the output of the JVM to a file, not into the progress bar."""
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("flights")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        # Read completely four times a second.
        .config("spark.sql.streaming.numRecentProgressUpdates", "20")
        # The cost of hundreds of small batches is compilation, for which the simple compiler is faster. With it, the
        # JVM reserves little memory for code, which a year's batches would fill.
        .config(
            "spark.driver.extraJavaOptions",
            "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=512m",
        )
        # The rest of their cost is the state store's commit, and one is cheaper than two.
        .config("spark.sql.shuffle.partitions", "1")
        # Each batch writes only its changes.
        .config("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true")
    )
    with _standard_error_to(log):
        spark = configure(builder, local_files=True).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


@contextmanager
def _standard_error_to(file: Path) -> Iterator[None]:
    """Redirects standard error to ``file``, also for child processes that start meanwhile."""
    sys.stderr.flush()
    ours = os.dup(2)
    with file.open("wb") as target:
        os.dup2(target.fileno(), 2)
        try:
            yield
        except Exception as error:
            error.add_note(f"The output of the JVM is in {file}.")
            raise
        finally:
            os.dup2(ours, 2)
            os.close(ours)


if __name__ == "__main__":
    sys.exit(main())
