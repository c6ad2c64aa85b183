"""A year of real flights as a stream: panes that open, fire early and close, and the flights that came too late.

The 336,776 flights that left New York in 2013 are replayed in the order in which they really left. The windows are on
the *scheduled* departure, so the rows are out of order by as much as the flights were delayed: up to a day.

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

# The watermark runs this far behind the latest scheduled departure seen: at this delay most flights have left.
DELAY = "30 minutes"
# How much longer a pane stays open for the others. A flight that leaves later still comes out as a late row.
ALLOWED_LATENESS = "1 hour"
# A file, and so a micro-batch, is two days of departures. That is enough for fair weather, but in so coarse steps
# nearly every pane would be complete at once: the worst day comes in steps of twenty minutes.
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
    """What a pane holds. Delays are in minutes, and those of cancelled flights are null."""
    # Equal delays are told apart by the flight, so that the worst is the same one in any order of arrival.
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
    """Runs the stream over the files of ``source`` until they are read, and writes its rows to the file ``output``.

    ``output`` has the columns of :func:`panes_of` and the ``batch`` they came in. ``watch`` is called with the progress
    of each batch, in order.
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
        seen = -1
        running = True
        while running:
            time.sleep(0.25)
            running = query.isActive
            for progress in query.recentProgress:
                if progress["batchId"] > seen:
                    seen = progress["batchId"]
                    watch(progress)
        query.awaitTermination()  # raises what ended the query, if it did not end by itself
    finally:
        query.stop()
        for writer in writers:
            writer.close()


@dataclass(frozen=True)
class Check:
    """How a stream's panes compare with one batch query over the same rows."""

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
        """Whether every pane agrees, every flight is accounted for and the late ones are those that should be."""
        return (
            self.agree == self.panes
            and self.flights == self.in_panes + self.late
            and self.late == self.late_as_ruled == self.ruled_late
        )


def check(spark: SparkSession, flights: pd.DataFrame, source: Path, checkpoint: Path, output: Path) -> Check:
    """Compares what came out of the stream with a batch query by Spark's own ``groupBy`` and ``window``.

    A pane's result is what it closed with. Those that the end of the data left open are read from the stream's state.
    The batch query takes every flight but those that came out late, and nothing may be left over on either side.
    """
    fired = spark.read.parquet(str(output))
    closed = fired.where("pane.firing = 'close'").select(*PANE, *RESULTS)
    still_open = read_panes(checkpoint, spark=spark).select(*PANE, *RESULTS)
    late = fired.where("pane.firing = 'late'").select("late_row.*")

    every = spark.read.parquet(str(source))
    hour = F.window("scheduled", "1 hour")
    expected = every.join(late, FLIGHT_KEY, "left_anti").groupBy("origin", "carrier", hour).agg(*results())

    # A pane that closed twice would be two rows here, and so cannot agree.
    ours = closed.unionAll(still_open).groupBy(*PANE).agg(F.collect_list(F.struct(*RESULTS)).alias("ours"))
    theirs = expected.select(*PANE, F.array(F.struct(*RESULTS)).alias("theirs"))
    both = ours.join(theirs, PANE, "full_outer").withColumn("same", F.col("ours").eqNullSafe(F.col("theirs"))).cache()
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
    """Replays, reports and checks; gives the exit code."""
    options = _options(arguments)
    # Where the output is no terminal there is no width to keep to, and rich would take 80 columns.
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
    parser.add_argument("--days", type=_days, help="replay only the first so many days of the year, 1 to 365")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path(__file__).resolve().parent.parent / "out",
        help="the folder for the picture and the firings (default: out, beside examples)",
    )
    return parser.parse_args(arguments)


def _days(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 365:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number of days of 2013. Write a whole number from 1 to 365, or leave it out for all."
        )
    return int(text)


def _session(log: Path) -> SparkSession:
    """A local session whose log, and what else the JVM says, goes to a file instead of into the progress bar."""
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("flights")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        # Asked for four times a second, and each time whole.
        .config("spark.sql.streaming.numRecentProgressUpdates", "20")
        # Hundreds of small batches: what they cost is compiling their code, and the quick compiler has done it sooner.
        # Where all is compiled so, the JVM reserves little room for code, and a year's batches would fill it.
        .config(
            "spark.driver.extraJavaOptions",
            "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=512m",
        )
        # The rest of their cost is the state store's commit, and one is cheaper than two.
        .config("spark.sql.shuffle.partitions", "1")
        # What a batch changed is written, and not each time all that is open.
        .config("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true")
    )
    with _standard_error_to(log):
        spark = configure(builder, local_files=True).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


@contextmanager
def _standard_error_to(file: Path) -> Iterator[None]:
    """Child processes that start meanwhile keep writing their standard error to ``file``."""
    sys.stderr.flush()
    ours = os.dup(2)
    with file.open("wb") as target:
        os.dup2(target.fileno(), 2)
        try:
            yield
        except Exception as error:
            error.add_note(f"What the JVM said is in {file}.")
            raise
        finally:
            os.dup2(ours, 2)
            os.close(ours)


if __name__ == "__main__":
    sys.exit(main())
