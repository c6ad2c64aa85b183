"""Two Python functions with windows between them, in one task and with one state."""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from mullion import (
    Count,
    Early,
    InvalidArgumentError,
    Session,
    Sliding,
    Tumbling,
    UnsupportedError,
    Watermark,
    read_panes,
    windowed,
)
from mullion._keyed.api import Branch, Firings, State, read_state, staged
from mullion.errors import FunctionError, IncompatibleStateError
from tests.support.clocked import ClockedQuery
from tests.support.seeds import SEED
from tests.support.streams import SECOND, Feed, batches_of

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]

ROWS = "ts timestamp, k string, n bigint"


def log(state: State, line: str) -> None:
    state.put(b"log", (state.get(b"log") or b"") + line.encode() + b"\n")


def logging_process(batches: Iterator[pa.RecordBatch], state: State) -> Iterator[Any]:
    """Adds rows to both windows. Emits the previous log of its shard, and appends to it."""
    before = (state.get(b"log") or b"").decode().split("\n")[:-1]
    log(state, f"{state.batch_id} process")
    for batch in batches:
        rows = batch.select(["ts", "k", "n"])
        yield "fast", rows
        yield pa.RecordBatch.from_pylist([{"what": f"process after {before[-1:]}"}])
        yield "slow", rows


def logging_callbacks(firings: Iterator[Firings], state: State) -> Iterator[pa.RecordBatch]:
    for window, firing, batch in firings:
        log(state, f"{state.batch_id} {window} {firing}")
        yield pa.RecordBatch.from_pylist([{"what": f"{window} {firing} {row['total']}"} for row in batch.to_pylist()])


def total(*window: Any, **options: Any) -> Branch:
    def panes(rows: DataFrame) -> DataFrame:
        windows = windowed(rows.withWatermark("ts", "0 seconds"), *window, by="k", time="ts", **options)
        return windows.agg(F.sum("n").alias("total"))

    return Branch(ROWS, panes)


def test_stages_run_in_order_and_each_sees_what_the_others_wrote(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", "k string, n bigint")
    windows = {
        "fast": total(Tumbling("10 seconds"), early=Early(every="1 second", count=2)),
        "slow": total(Tumbling("20 seconds"), early=Early(every="1 second", count=2)),
    }

    def query() -> ClockedQuery:
        out = staged(feed.stream(spark), logging_process, windows, logging_callbacks, "what string", shard_by="k")
        return ClockedQuery(out, checkpoint=tmp_path / "checkpoint")

    # A batch per file, without batches between them.
    for time, n in ((1, 1), (8, 2), (26, 4)):
        feed.write([(time * SECOND, "a", n)])
    with query() as running:
        assert [row.what for row in running.settle()] == [
            "process after []",
            # All rows of a batch enter panes before any pane fires, and callbacks read the state that process wrote.
            "process after ['0 process']",
            "fast early 3",
            "slow early 3",
            # The next batch reads the state that callbacks wrote.
            "process after ['1 slow early']",
            # In the batch without rows, early firings of all windows precede the closes.
            "fast early 4",
            "slow early 4",
            "fast close 3",
            "slow close 3",
        ]
        plan = running._query.query().explainInternal(False)
        assert plan.count("Exchange") == 1, plan
    with query() as running:
        feed.write([(31 * SECOND, "a", 8), (31 * SECOND, "b", 16)])
        assert "process after ['3 slow close']" in [row.what for row in running.settle()]
    logs = [bytes(row.value).decode() for row in read_state(tmp_path / "checkpoint", spark=spark).collect()]
    (of_a,) = [entries.split("\n")[:-1] for entries in logs if "0 process" in entries]
    assert of_a[:9] == [
        "0 process",
        "1 process",
        "1 fast early",
        "1 slow early",
        "2 process",
        "3 fast early",
        "3 slow early",
        "3 fast close",
        "3 slow close",
    ]
    slow = read_panes(tmp_path / "checkpoint", window="slow", spark=spark)
    assert {(row.k, row.total) for row in slow.collect()} == {("a", 12), ("b", 16)}
    with pytest.raises(InvalidArgumentError, match=r"There is no window 'other' .* Its windows are 'fast', 'slow'"):
        read_panes(tmp_path / "checkpoint", window="other", spark=spark)


def through(batches: Iterator[pa.RecordBatch], state: State) -> Iterator[Any]:
    for batch in batches:
        for name in ("tumbling", "sessions", "sliding", "counts"):
            yield name, batch.select(["ts", "k", "n"])


def as_text(firings: Iterator[Firings], state: State) -> Iterator[pa.RecordBatch]:
    for window, _, batch in firings:
        yield pa.RecordBatch.from_pylist([{"window": window, "pane": shown(row)} for row in batch.to_pylist()])


def shown(row: dict[str, Any]) -> str:
    row = {name: value for name, value in row.items() if name not in ("window", "late_row")} | {
        "window": row["window"] and {name: str(value) for name, value in row["window"].items()},
        "late": row.get("late_row") and row["late_row"]["n"],
    }
    return repr({name: row[name] for name in sorted(row)}).replace("+00:00", "")


def test_windows_between_stages_give_the_panes_of_windows_alone(spark: SparkSession, tmp_path: Path) -> None:
    """The windows need no shuffle, because all rows of a shard are in one task already."""

    def tumbling(rows: DataFrame) -> DataFrame:
        windows = windowed(
            rows,
            Tumbling("10 seconds"),
            by=["k"],
            time="ts",
            allowed_lateness="5 seconds",
            early=Early(every="4 seconds"),
            late="emit",
        )
        return windows.agg(F.sum("n").alias("total"), F.collect_set("n").alias("all"))

    def sessions(rows: DataFrame) -> DataFrame:
        return windowed(rows, Session("5 seconds"), by=["k", "n"], time="ts", late="reopen").agg(F.max("n").alias("m"))

    def sliding(rows: DataFrame) -> DataFrame:
        windows = windowed(rows, Sliding("20 seconds", "5 seconds"), by=[F.upper("k").alias("kk"), "k"], time="ts")
        return windows.agg(F.avg("n").alias("mean"))

    def counts(rows: DataFrame) -> DataFrame:
        return windowed(rows, Count(3, 3), by="k", time=None).agg(F.count("*").alias("rows"))

    shapes = {"tumbling": tumbling, "sessions": sessions, "sliding": sliding, "counts": counts}
    rng = random.Random(SEED)
    feed = Feed(tmp_path / "in", "k string, n bigint")
    columns = feed.stream(spark, "3 seconds").select("ts", "k", "n")
    windows = {
        name: Branch(ROWS, lambda rows, shape=shape: shape(rows.withWatermark("ts", "3 seconds")))  # type: ignore[misc]
        for name, shape in shapes.items()
    }
    out = staged(
        feed.stream(spark, "3 seconds"),
        through,
        windows,
        as_text,
        "window string, pane string",
        shard_by="k",
    )
    queries = {name: ClockedQuery(shape(columns), checkpoint=tmp_path / name) for name, shape in shapes.items()}
    queries["staged"] = ClockedQuery(out, checkpoint=tmp_path / "checkpoint")
    panes_by_query: dict[str, Counter[str]] = {name: Counter() for name in queries}
    for batch in range(3):
        times = [(batch * 16 + rng.randrange(-20, 16)) * SECOND for _ in range(100)]
        feed.write([(max(time, 0), f"key {rng.randrange(6)}", rng.randrange(4)) for time in times])
        for name, query in queries.items():
            rows = query.settle()
            panes_by_query[name] += Counter(
                f"{row.window} {row.pane}" if name == "staged" else f"{name} {shown(row.asDict(recursive=True))}"
                for row in rows
            )
    (of_all,) = [report["customMetrics"] for report in batches_of(queries["staged"], 0)[-1:]]
    for query in queries.values():
        query.stop()
    alone = sum((panes_by_query[name] for name in shapes), Counter[str]())
    assert panes_by_query["staged"] == alone, f"MULLION_SEED={SEED}"
    assert alone.total() > 150
    assert of_all["tumbling.numRowsTotal"] > 0


def test_windows_by_the_wall_clock_close_between_stages_with_no_row_coming(spark: SparkSession, tmp_path: Path) -> None:
    def by_wall_clock(rows: DataFrame) -> DataFrame:
        return windowed(rows, Tumbling("10 seconds"), by="k", time=None).agg(F.count("*").alias("rows"))

    def when_idle(rows: DataFrame) -> DataFrame:
        windows = windowed(
            rows.withWatermark("ts", "0 seconds"),
            Tumbling("1 minute"),
            by="k",
            time="ts",
            clock=Watermark(idle_after="30 seconds"),
        )
        return windows.agg(F.count("*").alias("rows"))

    def process(batches: Iterator[pa.RecordBatch], state: State) -> Iterator[Any]:
        for batch in batches:
            yield "wall", batch.select(["k"])
            yield "idle", batch.select(["k", "ts"])

    feed = Feed(tmp_path / "in", "k string")

    def query(start_ms: int) -> ClockedQuery:
        windows = {"wall": Branch("k string", by_wall_clock), "idle": Branch("ts timestamp, k string", when_idle)}
        out = staged(feed.stream(spark), process, windows, as_text, "window string, pane string", shard_by="k")
        return ClockedQuery(out.select("window"), checkpoint=tmp_path / "checkpoint", start_ms=start_ms)

    with query(0) as running:
        feed.write([(5 * SECOND, "a"), (5 * SECOND, "b")])
        assert running.settle() == []
        running.advance("10 seconds")
        assert [row.window for row in running.settle()] == ["wall", "wall"]
        running.advance("30 seconds")
        assert running.settle() == []
        running.advance("60 seconds")
        assert [row.window for row in running.settle()] == ["idle", "idle"]
        feed.write([(500 * SECOND, "a")])
        assert running.settle() == []
    # A pane by the wall clock is due while the query is stopped.
    with query(200_000) as running:
        assert [row.window for row in running.settle()] == ["wall"]


def test_errors_of_stages_say_which_and_what_a_stage_does_not_finish_is_not_kept(
    spark: SparkSession, tmp_path: Path
) -> None:
    def process(batches: Iterator[pa.RecordBatch], state: State) -> Iterator[Any]:
        for batch in batches:
            state.put(b"process", b"was here")
            yield "sums", batch.select(["ts", "k", "n"])

    def broken(firings: Iterator[Firings], state: State) -> Iterator[pa.RecordBatch]:
        for _, firing, batch in firings:
            state.put(b"callbacks", b"was here")
            raise KeyError(f"{firing} of {batch.num_rows}")
        yield pa.RecordBatch.from_pylist([])

    def mended(firings: Iterator[Firings], state: State) -> Iterator[pa.RecordBatch]:
        for _, firing, _ in firings:
            yield pa.RecordBatch.from_pylist([{"what": f"{firing} {state.get(b'callbacks')!r}"}])

    def lost(batches: Iterator[pa.RecordBatch], state: State) -> Iterator[Any]:
        for batch in batches:
            yield "sum", batch

    feed = Feed(tmp_path / "in", "k string, n bigint")

    def query(first: Any, last: Any) -> ClockedQuery:
        windows = {"sums": total(Tumbling("10 seconds"))}
        out = staged(feed.stream(spark), first, windows, last, "what string", shard_by="k")
        return ClockedQuery(out, checkpoint=tmp_path / "checkpoint")

    with query(process, broken) as running:
        feed.write([(SECOND, "a", 1)])
        running.settle()
        feed.write([(11 * SECOND, "a", 1)])
        with pytest.raises(
            FunctionError, match=rf"callbacks failed at {__file__}:\d+, in broken: KeyError: 'close of 1'"
        ):
            running.settle()
    with query(process, mended) as running:
        assert [row.what for row in running.settle()] == ["close None"]
        feed.write([(21 * SECOND, "a", 1)])
        assert [row.what for row in running.settle()] == ["close None"]
    feed.write([(31 * SECOND, "a", 1)])
    with (
        query(lost, mended) as running,
        pytest.raises(InvalidArgumentError, match=r"begins with 'sum', and its windows are 'sums'\."),
    ):
        running.settle()


def test_what_windows_between_stages_cannot_be_is_rejected(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", "k string, n bigint")
    feed.write([(0, "a", 1)])
    rows = feed.stream(spark)

    def stages(windows: Any, **options: Any) -> DataFrame:
        return staged(rows, through, windows, as_text, "window string, pane string", **options)

    with pytest.raises(InvalidArgumentError, match="names no window"):
        stages({})
    with pytest.raises(InvalidArgumentError, match="a dict of names and Branches"):
        stages({"w": Tumbling("1 hour")})
    with pytest.raises(InvalidArgumentError, match="The window 'w' must be what one windowed"):
        stages({"w": Branch(ROWS, lambda rows: rows)})
    with pytest.raises(InvalidArgumentError, match="it has 1 windows, and other rows"):
        stages({"w": Branch(ROWS, lambda _: total(Tumbling("1 hour")).panes(rows))})
    with pytest.raises(InvalidArgumentError, match=r"callbacks are called by 'pane'.* Keep it"):
        stages({"w": Branch(ROWS, lambda rows: total(Tumbling("1 hour")).panes(rows).drop("pane"))})
    with pytest.raises(InvalidArgumentError, match=r"the window 'w' gave a builtins.NoneType"):
        stages({"w": Branch(ROWS, lambda rows: None)})  # type: ignore[arg-type, return-value]

    shuffling = Branch(ROWS, lambda rows: total(Tumbling("1 hour")).panes(rows.repartition(3)))
    with (
        ClockedQuery(stages({"w": shuffling}), checkpoint=tmp_path / "shuffling") as query,
        pytest.raises(UnsupportedError, match=r"The window 'w' is between two stages of one task.* needs a shuffle"),
    ):
        query.settle()


def test_a_checkpoint_of_other_windows_is_rejected(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", "k string, n bigint")
    feed.write([(0, "a", 1)])

    def query(**windows: Branch) -> ClockedQuery:
        out = staged(feed.stream(spark), through_first, windows, as_text, "window string, pane string", shard_by="k")
        return ClockedQuery(out, checkpoint=tmp_path / "checkpoint")

    with query(one=total(Tumbling("1 hour"))) as running:
        running.settle()
    feed.write([(0, "a", 1)])
    with (
        query(one=total(Tumbling("2 hours"))) as running,
        pytest.raises(IncompatibleStateError, match=r"window was \[tumbling 1 hour\]"),
    ):
        running.settle()
    # Its panes are in the partition of their shard, not in that of their key's hash.
    with (
        ClockedQuery(
            total(Tumbling("1 hour")).panes(feed.stream(spark).drop("t")), checkpoint=tmp_path / "checkpoint"
        ) as running,
        pytest.raises(Exception, match="mullionFunction"),
    ):
        running.settle()


def through_first(batches: Iterator[pa.RecordBatch], state: State) -> Iterator[Any]:
    for batch in batches:
        yield next(iter(("one",))), batch.select(["ts", "k", "n"])


def test_the_windows_between_stages_have_sources_in_the_metrics_system(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", "k string, n bigint")
    windows = {"fast": total(Tumbling("10 seconds")), "slow": total(Tumbling("20 seconds"))}
    out = staged(feed.stream(spark), logging_process, windows, logging_callbacks, "what string", shard_by="k")
    jvm: Any = spark.sparkContext._jvm
    metrics = jvm.org.apache.spark.SparkEnv.get().metricsSystem()
    with ClockedQuery(out, checkpoint=tmp_path / "checkpoint") as query:
        feed.write([(1 * SECOND, "a", 1), (2 * SECOND, "b", 2)])
        feed.write([(25 * SECOND, "a", 1)])
        query.settle()
        feed.write([(3 * SECOND, "a", 1), (26 * SECOND, "a", 1)])
        query.settle()
        running = query._query.query()
        of_windows = []
        for number in (1_000_000, 1_000_001):
            sources = metrics.getSourcesByName(f"mullion.{running.id()}.{number}")
            assert sources.size() == 1
            gauges = sources.head().metricRegistry().getGauges()
            names = ("panesOpen", "firingsClose", "rowsLate", "rowsLateUnder1min", "rowsRead")
            of_windows.append({name: gauges.get(name).getValue() for name in names})
    of_fast = {"panesOpen": 1, "firingsClose": 2, "rowsLate": 1, "rowsLateUnder1min": 1, "rowsRead": 5}
    # By the clock, the late row's pane had closed 15 seconds before, and the longer pane 5 seconds before.
    assert of_windows == [of_fast, {**of_fast, "rowsLateUnder1min": 0}]
