"""Windows from a client of Spark Connect: the same results and errors as in the driver's process."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

import mullion
from mullion import (
    Count,
    Custom,
    Early,
    FunctionError,
    Global,
    InvalidArgumentError,
    MullionError,
    Session,
    Sliding,
    TaskFailedError,
    Tumbling,
    UnknownColumnError,
    UnsupportedError,
    asof_join,
    flat,
    open_panes,
    read_panes,
    recover,
    together,
    upsert,
    windowed,
    windowed_join,
)
from mullion import functions as MF
from mullion._util import jars
from mullion.bytewax import operators as op
from mullion.bytewax.dataflow import Dataflow
from mullion.bytewax.testing import TestingSink, TestingSource, run_main
from mullion.faust import App as FaustApp
from mullion.kx.app import App as KxApp
from mullion.turbine import App as TurbineApp
from mullion.windows import Window
from tests.support import connect_server
from tests.support.clocked import ClockedQuery
from tests.support.transcripts.firings import shown
from tests.support.transcripts.scenario import Scenario, scenarios
from tests.support.transcripts.scenario_run import Run, play

ROWS = """
SELECT * FROM VALUES
  ('a', timestamp'2024-01-01 10:00:00', 1),
  ('a', timestamp'2024-01-01 10:30:00', 2),
  ('b', timestamp'2024-01-01 11:00:00', 5) AS t(k, ts, v)
"""
HOUR = Tumbling("1 hour")


@pytest.fixture
def remote(server: SparkSession) -> Iterator[SparkSession]:
    with connect_server.remote(server) as session:
        yield session


@pytest.fixture
def rows(remote: SparkSession) -> DataFrame:
    return remote.sql(ROWS)


@pytest.fixture
def stream(remote: SparkSession, rows: DataFrame, tmp_path: Path) -> DataFrame:
    rows.coalesce(1).write.json(str(tmp_path / "in"))
    read = remote.readStream.schema("k string, ts timestamp, v int").json(str(tmp_path / "in"))
    return read.withWatermark("ts", "0 seconds")


class RemoteRun(Run):
    """A scenario whose panes a client defines. The server's driver runs them, on the scenario's clock."""

    def __init__(self, server: SparkSession, client: SparkSession, scenario: Scenario, folder: Path) -> None:
        self.client = client
        super().__init__(client, scenario, folder)
        self.server = server

    def another(self, scenario: Scenario, folder: Path) -> Run:
        return RemoteRun(self.server, self.client, scenario, folder)

    def start(self, *, drain: bool = False) -> ClockedQuery:
        self.reports = 0
        panes = connect_server.on_the_server(self.server, self.client, shown(self.panes, self.scenario.last))
        return ClockedQuery(
            panes, checkpoint=self.checkpoint, output_mode=self.scenario.mode, start_ms=self.now_ms, drain=drain
        )


@pytest.mark.sampled(3)
@pytest.mark.parametrize("scenario", scenarios(), ids=lambda scenario: scenario.name)
def test_the_scenario_is_true_of_a_client(
    scenario: Scenario, server: SparkSession, remote: SparkSession, tmp_path: Path
) -> None:
    try:
        if scenario.refused is not None:
            with pytest.raises(MullionError, match=scenario.refused):
                RemoteRun(server, remote, scenario, tmp_path).start()
            return
        run = RemoteRun(server, remote, scenario, tmp_path)
        try:
            play(run)
        finally:
            run.query.stop()
    finally:
        shutil.rmtree(tmp_path)


def test_a_batch_gives_a_client_what_it_gives_the_driver(server: SparkSession) -> None:
    def panes_over(rows: DataFrame) -> list[DataFrame]:
        doubled = F.udf(lambda v: v * 2, "int")
        over: list[tuple[Window, Column | str | None]] = [
            (HOUR, "ts"),
            (Tumbling("1 day", timezone="America/New_York"), "ts"),
            (Sliding("2 hours", "30 minutes"), "ts"),
            (Session(F.make_dt_interval(mins=F.col("v") * 10)), "ts"),
            (Custom(lambda time: [(time, time.replace(minute=59))]), "ts"),
            (Custom(MF.windows("ts", "1 hour", "30 minutes")), rows.ts),
            (Count(2), None),
            (Global.when(F.col("v") > 1), None),
            (Global.changes("v"), None),
        ]
        results = [F.sum(doubled("v")).alias("s"), (F.sum("v") / F.count("*")).alias("mean")]
        keys = [rows.k, F.upper("k").alias("upper")]
        panes = [windowed(rows, window, by=keys, time=time).agg(*results) for window, time in over]
        visits = windowed(rows, Session("1 hour"), by="k", time="ts").agg(F.max("v").alias("most"))
        both = together(a=panes[0], b=visits)
        # A union on one side differs from a union of both sides.
        joins = [
            asof_join(rows.union(rows), rows, by="k", left_time="ts", right_time="ts", allow_exact=False),
            windowed_join(rows, rows, HOUR, by="k", time="ts", how="full"),
        ]
        collected = windowed(rows, HOUR, by="k", time="ts").collect(order="time")
        return [*panes, flat(panes[0]), collected, both, *joins]

    with connect_server.remote(server) as client:
        here = [(df.dtypes, sorted(map(repr, df.collect()))) for df in panes_over(client.sql(ROWS))]
    there = [(df.dtypes, sorted(map(repr, df.collect()))) for df in panes_over(server.sql(ROWS))]
    assert here == there


@pytest.mark.parametrize(
    ("error", "match", "call"),
    [
        (UnknownColumnError, r"by='kk': .*Did you mean 'k'\?", lambda df: windowed(df, HOUR, by="kk", time="ts")),
        (UnknownColumnError, r"agg\(\.\.\.\): .*Did you mean 'v'\?", lambda df: agg(df, F.sum("vv"))),
        (InvalidArgumentError, "time='k' is of type string", lambda df: windowed(df, HOUR, time="k")),
        (InvalidArgumentError, "2 columns named 's'", lambda df: agg(df, F.sum("v").alias("s"), F.max("v").alias("s"))),
        (
            UnsupportedError,
            "whose values Spark cannot compare",
            lambda df: agg(df, F.count_distinct(F.parse_json(F.col("v").cast("string")))),
        ),
        (
            InvalidArgumentError,
            "late= has no effect on processing time",
            lambda df: windowed(df, HOUR, time=None, late="emit"),
        ),
        (InvalidArgumentError, "is not a result of windowed", lambda df: together(a=df)),
        (InvalidArgumentError, "a union", lambda df: together(a=df.union(df), b=agg(df, F.max("v")))),
        (InvalidArgumentError, "not a valid name for a window", lambda df: together(**{"1": agg(df, F.max("v"))})),
        (InvalidArgumentError, "There is no state in /nowhere", lambda _: read_panes("/nowhere")),
        (InvalidArgumentError, "There is no state in /nowhere", lambda _: open_panes("/nowhere")),
        (InvalidArgumentError, "There is no state in /nowhere", lambda _: recover("/nowhere")),
    ],
)
def test_an_error_of_the_server_is_ours(
    rows: DataFrame, error: type[MullionError], match: str, call: Callable[[DataFrame], object]
) -> None:
    with pytest.raises(error, match=match) as refused:
        call(rows)
    assert type(refused.value) is error


def agg(rows: DataFrame, *aggregates: Any) -> DataFrame:
    return windowed(rows, HOUR, by="k", time="ts").agg(*aggregates)


def test_a_stream_runs_on_the_server_and_its_open_panes_are_read(
    remote: SparkSession, stream: DataFrame, tmp_path: Path
) -> None:
    panes = windowed(stream, HOUR, by="k", time="ts", early=Early(count=1)).agg(F.sum("v").alias("s"))
    checkpoint = str(tmp_path / "checkpoint")
    writer = panes.writeStream.format("parquet").option("path", str(tmp_path / "out"))
    query = writer.option("checkpointLocation", checkpoint).start()
    try:
        query.processAllAvailable()
        assert [row.k for row in open_panes(query).collect()] == ["b"]
    finally:
        query.stop()
    fired = remote.read.parquet(str(tmp_path / "out")).select("k", "pane.firing", "s").collect()
    assert sorted(map(tuple, fired)) == [("a", "close", 3), ("a", "early", 3), ("b", "early", 5)]
    assert [(row.k, row.s) for row in read_panes(checkpoint).collect()] == [("b", 5)]
    assert [(row.k, row.s) for row in read_panes(checkpoint, panes=panes).collect()] == [("b", 5)]
    assert [row.waits_for for row in open_panes(checkpoint).collect()] == ["1 hour of event time"]
    assert recover(checkpoint) == 0
    with pytest.raises(InvalidArgumentError, match="does not run in this session"):
        open_panes(query)


def test_what_a_query_fails_by_is_ours_too(stream: DataFrame) -> None:
    def split(buffer: Any) -> list[int]:
        raise ValueError("no such window")

    if jars.running_line() == "4.0":
        with pytest.raises(UnsupportedError, match=r"Global\.split needs Spark 4\.1"):
            windowed(stream, Global.split(split), by="k", time=None).agg(F.sum("v").alias("s"))
    else:
        over = windowed(stream, Global.split(split), by="k", time=None).agg(F.sum("v").alias("s"))
        query = over.writeStream.format("memory").queryName("split").start()
        with pytest.raises(FunctionError, match="no such window"):
            query.awaitTermination()
        assert isinstance(query.exception(), FunctionError)

    failing = F.udf(lambda v: v // 0, "int")
    query = agg(stream, F.sum(failing("v"))).writeStream.format("memory").queryName("task").start()
    with pytest.raises(TaskFailedError, match=r"A task of the query failed: ZeroDivisionError") as failed:
        query.awaitTermination()
    assert isinstance(failed.value, StreamingQueryException)
    assert isinstance(query.exception(), TaskFailedError)

    with pytest.raises(UnsupportedError, match="complete"):
        agg(stream, F.sum("v")).writeStream.format("memory").queryName("all").outputMode("complete").start()


def test_a_server_that_looks_at_no_hints_is_rejected(remote: SparkSession, rows: DataFrame) -> None:
    remote.conf.set("spark.sql.optimizer.disableHints", "true")
    with pytest.raises(MullionError, match=r"no Mullion, or does not look at hints.*MullionExtensions"):
        windowed(rows, HOUR, time="ts")
    remote.conf.set("spark.sql.optimizer.disableHints", "false")
    windows = windowed(rows, HOUR, time="ts")
    remote.conf.set("spark.sql.optimizer.disableHints", "true")
    with pytest.raises(InvalidArgumentError, match="disableHints is true"):
        windows.agg(F.max("v"))


def test_what_needs_the_drivers_process_is_rejected_by_name(
    remote: SparkSession, stream: DataFrame, tmp_path: Path
) -> None:
    panes = windowed(stream, HOUR, by="k", time="ts", ids=True).agg(F.sum("v").alias("s"))
    with pytest.raises(UnsupportedError, match="belongs to Spark Connect"):
        upsert(panes, into=mullion.ParquetTable(str(tmp_path / "table")))
    with pytest.raises(UnsupportedError, match="belongs to Spark Connect"):
        ClockedQuery(panes, checkpoint=tmp_path / "checkpoint")
    for door in (TurbineApp, FaustApp, KxApp):
        with pytest.raises(UnsupportedError, match=rf"{door.__module__.split('.')[1]}.*session of Spark Connect"):
            door("orders", spark=remote)
    flow = Dataflow("flow")
    op.output("out", op.input("in", flow, TestingSource([1])), TestingSink([]))
    with pytest.raises(UnsupportedError, match=r"'flow' was given a session of Spark Connect.*windowed"):
        run_main(flow)


def test_columns_of_another_session_are_rejected(server: SparkSession, rows: DataFrame) -> None:
    with pytest.raises(InvalidArgumentError, match="belongs to Spark Connect, and the DataFrame to this process"):
        windowed(server.sql(ROWS), HOUR, by=F.col("k"), time="ts")
