"""Processors of panes: ``.process`` against plain Python over the panes of ``.collect``, its state and its errors."""

from __future__ import annotations

import ast
import itertools
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from mullion import (
    Around,
    Count,
    Custom,
    Early,
    FunctionError,
    Global,
    InvalidArgumentError,
    Pane,
    PaneProcessor,
    PerKey,
    Session,
    Sliding,
    Tumbling,
    UnsupportedError,
    Upgrade,
    read_panes,
    windowed,
)
from mullion.windows import Window
from tests.support import connect_server
from tests.support.checked import settings
from tests.support.clocked import ClockedQuery
from tests.support.seeds import SEED
from tests.support.streams import SECOND, Feed, batches_of

# The folder of the tests is not on the workers' path.
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]


# --- Random windows, against the rows of collect ---------------------------------------------------------------------


Seen = dict[str, Any]
"""The rows of a pane so far: a list, a dict with keys that JSON lacks, and a NumPy array."""


def add(state: Seen, number: int) -> None:
    state["ids"].append(number)
    state["by_id"][number] = (str(number), None)
    state["total"][0] += number


class Rows(PaneProcessor, returns="what string, n bigint, ids string"):
    """Emits each row with an uneven id immediately, and at the close all ids in order of arrival, and their sum."""

    def create(self) -> Seen:
        return {"ids": [], "by_id": {}, "total": np.zeros(1, dtype="int64")}

    def on_row(self, state: Seen, key: Any, pane: Pane, row: dict[str, Any]) -> Iterator[dict[str, Any]]:
        add(state, row["id"])
        if row["id"] % 2:
            yield {"what": "odd", "n": row["id"], "ids": None}

    def on_close(self, state: Seen, key: Any, pane: Pane) -> dict[str, Any]:
        assert pane.firing == "close"
        assert list(state["by_id"]) == list(dict.fromkeys(state["ids"]))
        return {"what": f"{key} {pane}", "n": int(state["total"][0]), "ids": str(state["ids"])}

    def merge(self, state: Seen, other: Seen) -> Seen:
        for number in other["ids"]:
            add(state, number)
        return state


class Batches(Rows, returns="what string, n bigint, ids string"):
    """The same in batches of pandas."""

    on_row = PaneProcessor.on_row

    def on_batch(self, state: Seen, key: Any, pane: Pane, rows: pd.DataFrame) -> pd.DataFrame:
        for number in rows["id"]:
            add(state, int(number))
        odd = rows[rows["id"] % 2 == 1]["id"]
        return pd.DataFrame({"what": "odd", "n": odd, "ids": None})


WINDOWS: list[Callable[[], Window]] = [
    lambda: Tumbling("10 seconds"),
    lambda: Sliding("20 seconds", "10 seconds"),
    lambda: Session("3 seconds"),
    lambda: Custom(F.expr("mullion_windows(ts, '10 seconds')")),
]


def expected(rows: list[Row]) -> list[tuple[Any, ...]]:
    """The results of plain Python over the panes of collect."""
    output: list[tuple[Any, ...]] = []
    for row in rows:
        if row.pane.firing == "late":
            output.append((row.k, None, None, None, row.late_row.id))
            continue
        ids = [each.id for each in row.rows]
        output += [(row.k, "odd", number, None, None) for number in ids if number % 2]
        output.append((row.k, f"{(row.k,)} {pane_of(row)}", sum(ids), str(ids), None))
    return sorted(output, key=repr)


def pane_of(row: Row) -> Pane:
    start, end = (b if isinstance(b, int) else pd.Timestamp(b, tz="UTC").to_pydatetime() for b in row.window)
    return Pane(start, end, "close", 0)


@pytest.mark.parametrize("case", range(8))
def test_a_processor_gets_each_row_of_a_pane_once_and_then_its_close(
    case: int, spark: SparkSession, tmp_path: Path
) -> None:
    rng = random.Random(f"{SEED} {case}")
    window = WINDOWS[case % len(WINDOWS)]()
    merges = isinstance(window, Session)
    options: dict[str, Any] = {"by": "k", "time": "ts"}
    options["late"] = rng.choice(["drop", "emit", "reopen"])
    options["allowed_lateness"] = rng.choice(["0 seconds", "4 seconds"])
    options["ids"] = rng.random() < 0.4
    feed, ids = Feed(tmp_path / "in", "k string, id bigint"), itertools.count(step=3)
    processor = (Rows, Batches)[case // len(WINDOWS)]()

    def written() -> list[tuple[Any, ...]]:
        rows = rng.randrange(12)
        return [(rng.randrange(40) * SECOND, rng.choice("abc"), next(ids) + rng.randrange(3)) for _ in range(rows)]

    def queries() -> list[ClockedQuery]:
        """The queries with the processor and with the rows of the panes; collect does not support custom windows."""
        windows = windowed(feed.stream(spark), window, **options)
        lists = F.sort_array(F.collect_list(F.struct("id"))).alias("rows")
        collected = windows.agg(lists) if isinstance(window, Custom) else windows.collect()
        sides = {"processed": windows.process(processor), "collected": collected}
        return [ClockedQuery(panes, checkpoint=tmp_path / name) for name, panes in sides.items()]

    output: list[Row] = []
    panes: list[Row] = []
    with settings(spark, {"spark.sql.session.timeZone": "UTC"}):
        for batches in (3, 3, 0):
            processing, collecting = queries()
            with processing, collecting:
                for _ in range(batches):
                    feed.write(written())
                    output += processing.settle()
                    panes += collecting.settle()
                if not batches:
                    feed.flood()
                    output += processing.settle()
                    panes += collecting.settle()
                    remaining = batches_of(processing)[-1]["numRowsTotal"]
    actual = []
    for row in output:
        shown = str(sorted(ast.literal_eval(row.ids))) if row.ids else row.ids
        late = getattr(row, "late_row", None)
        actual.append((row.k, row.what, row.n, shown if merges else row.ids, late.id if late else None))
        assert ("id" in row.pane.__fields__) == options.get("ids", False)
    assert sorted(actual, key=repr) == expected(panes)
    assert remaining == 0, "a closed pane has no state"


ROW_BY_ROW: list[tuple[Callable[[], Window], dict[str, Any]]] = [
    (lambda: Count(3), {}),
    (lambda: Count(4, every=2), {"ids": True}),
    (lambda: Count(2, every=3), {}),
    (lambda: Global.every(3), {}),
    (lambda: Global.when(F.col("id") % 4 == 0), {}),
    (lambda: Global.changes(F.col("id") % 3), {}),
    (lambda: Tumbling("10 seconds"), {"clock": PerKey(), "late": "emit"}),
    (lambda: Tumbling("10 seconds"), {"clock": PerKey(), "late": "reopen", "allowed_lateness": "4 seconds"}),
    (lambda: Tumbling("10 seconds"), {"clock": PerKey(wall_time=True, late_by="watermark"), "late": "emit"}),
    (lambda: Sliding("20 seconds", "10 seconds"), {"clock": PerKey(), "ids": True}),
    (lambda: Session("3 seconds"), {"clock": PerKey(), "allowed_lateness": "6 seconds"}),
    (lambda: Session("3 seconds", max_length="7 seconds", ends_with=F.col("id") % 5 == 0), {"late": "emit"}),
    (lambda: Tumbling("8 seconds", starts="first row"), {"allowed_lateness": "4 seconds"}),
    (lambda: Session("3 seconds"), {"clock": PerKey(), "allowed_lateness": "9 seconds", "late": "emit", "ids": True}),
]


@pytest.mark.parametrize("case", range(2 * len(ROW_BY_ROW)))
def test_a_window_of_rows_one_by_one_brings_each_row_once(case: int, spark: SparkSession, tmp_path: Path) -> None:
    rng = random.Random(f"{SEED} rows {case}")
    window, options = ROW_BY_ROW[case // 2]
    options = {"by": "k", "time": None if isinstance(window(), (Count, Global)) else "ts", **options}
    merges = isinstance(window(), Session)
    feed, ids = Feed(tmp_path / "in", "k string, id bigint"), itertools.count()
    processor = (Rows, Batches)[case % 2]()
    output: list[Row] = []
    closed: list[Row] = []
    with settings(spark, {"spark.sql.session.timeZone": "UTC"}):
        for _ in range(2):
            windows = windowed(feed.stream(spark), window(), **options)
            processing = ClockedQuery(windows.process(processor), checkpoint=tmp_path / "processed")
            collecting = ClockedQuery(windows.collect(), checkpoint=tmp_path / "collected")
            with processing, collecting:
                for _ in range(3):
                    times = [rng.randrange(40) * SECOND for _ in range(rng.randrange(2, 14))]
                    feed.write([(time, rng.choice("abc"), next(ids)) for time in times])
                    output += processing.settle()
                    closed += collecting.settle()
                remaining = batches_of(processing)[-1]["numRowsTotal"]
        opened = read_panes(tmp_path / "collected", spark=spark).collect()
    actual = []
    for row in output:
        assert row.pane.firing in ("early", "close", "late")
        shown = str(sorted(ast.literal_eval(row.ids))) if row.ids and merges else row.ids
        late = getattr(row, "late_row", None)
        actual.append((row.k, row.what, row.n, shown, late.id if late else None))
    odd = [(row.k, "odd", each.id, None, None) for row in opened for each in row.rows if each.id % 2]
    if merges:
        closed = [
            Row(**{**row.asDict(), "rows": row.rows and sorted(row.rows, key=lambda each: each.id)}) for row in closed
        ]
    assert sorted(actual, key=repr) == sorted([*expected(closed), *odd], key=repr)
    assert remaining == len(opened), "state of open panes, and of no closed one"


@pytest.mark.parametrize("window", [Around("3 seconds", "2 seconds"), Global.split(lambda rows: [len(rows) // 2])])
def test_a_pane_that_is_known_at_its_close_brings_all_its_rows_then(
    window: Window, spark: SparkSession, tmp_path: Path
) -> None:
    rng = random.Random(f"{SEED} closes")
    feed, ids = Feed(tmp_path / "in", "k string, id bigint"), itertools.count()
    for _ in range(3):
        feed.write([(rng.randrange(20) * SECOND, rng.choice("abc"), next(ids)) for _ in range(10)])
    feed.flood()
    windows = windowed(feed.stream(spark), window, by="k", time="ts" if isinstance(window, Around) else None)
    lists = F.sort_array(F.collect_list(F.struct("id"))).alias("rows")
    with settings(spark, {"spark.sql.session.timeZone": "UTC"}):
        with ClockedQuery(windows.process(Batches()), checkpoint=tmp_path / "processed") as processing:
            output = processing.settle()
        with ClockedQuery(windows.agg(lists), checkpoint=tmp_path / "collected") as collecting:
            panes = collecting.settle()
        applied = windows.apply(lambda key, pane, rows: {"n": len(rows)}, "n bigint")
        with ClockedQuery(applied, checkpoint=tmp_path / "applied") as applying:
            counts = [row.n for row in applying.settle()]
    actual = [(row.k, row.what, row.n, row.ids and str(sorted(ast.literal_eval(row.ids))), None) for row in output]
    assert len(panes) > 5
    assert sorted(actual, key=repr) == expected(panes)
    assert sorted(counts) == sorted(len(row.rows) for row in panes)


class OnTime(Rows, returns="what string, n bigint, ids string"):
    def on_time(self, state: Seen, key: Any, pane: Pane) -> dict[str, Any]:
        assert pane.firing == "on_time"
        return {"what": "on time", "n": len(state["ids"]), "ids": str(state["ids"])}


@pytest.mark.parametrize("window", [Tumbling("10 seconds"), Session("5 seconds")])
def test_a_pane_on_time_calls_the_processor_and_later_rows_follow(
    window: Window, spark: SparkSession, tmp_path: Path
) -> None:
    feed = Feed(tmp_path / "in", "k string, id bigint")
    windows = windowed(feed.stream(spark), window, by="k", time="ts", on_time=True, allowed_lateness="20 seconds")
    output: list[tuple[Any, ...]] = []
    with ClockedQuery(windows.process(OnTime()), checkpoint=tmp_path / "processed") as processing:
        for rows in ([(SECOND, "a", 2)], [(2 * SECOND, "a", 4), (12 * SECOND, "b", 6)], [(3 * SECOND, "a", 8)]):
            feed.write(rows)
            output += [(row.k, row.pane.firing, row.what, row.n) for row in processing.settle()]
        feed.flood()
        output += [(row.k, row.pane.firing, row.what[:6], row.n) for row in processing.settle()]
        assert batches_of(processing)[-1]["numRowsTotal"] == 0
    assert [row for row in output if row[0] == "a"] == [
        ("a", "on_time", "on time", 2),
        *([("a", "on_time", "on time", 3)] if isinstance(window, Session) else []),
        ("a", "close", "('a',)", 14),
    ]


def test_a_batch_dataframe_gives_each_pane_all_its_rows(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", "k string, id bigint")
    feed.write([(0, "a", 1), (SECOND, "b", 2), (11 * SECOND, "a", 3), (2 * SECOND, "a", 4)])
    options = {"on_time": True, "accumulate": False, "allowed_lateness": "5 seconds"}
    windows = windowed(feed.batch(spark), Tumbling("10 seconds"), by="k", time="ts", **options)  # type: ignore[arg-type]
    output = windows.process(OnTime()).collect()
    assert sorted((r.k, r.n, r.ids) for r in output if r.ids) == [("a", 3, "[3]"), ("a", 5, "[1, 4]"), ("b", 2, "[2]")]


def test_a_window_after_a_processor_is_rejected_because_its_panes_fire_early(
    spark: SparkSession, tmp_path: Path
) -> None:
    feed = Feed(tmp_path / "in", "k string, id bigint")
    feed.write([(0, "a", 1)])
    emitted = windowed(feed.stream(spark), Tumbling("10 seconds"), by="k", time="ts").process(Rows())
    with pytest.raises((UnsupportedError, InvalidArgumentError), match=r"watermark|early firings"):
        ClockedQuery(
            windowed(emitted, Tumbling("1 minute"), time="window").agg(F.count("*")), checkpoint=tmp_path / "c"
        )


# --- State -----------------------------------------------------------------------------------------------------------


class Digest:
    """An object that the codec cannot encode."""

    def __init__(self, values: list[int]) -> None:
        self.values = values


class Dumped(PaneProcessor, returns="n bigint"):
    def create(self) -> Digest:
        return Digest([])

    def on_batch(self, state: Digest, key: Any, pane: Pane, rows: pa.Table) -> None:
        state.values += rows["id"].to_pylist()

    def on_close(self, state: Digest, key: Any, pane: Pane) -> dict[str, Any]:
        return {"n": sum(state.values)}


class ByItsMethods(Dumped, returns="n bigint"):
    def dump(self, state: Digest) -> bytes:
        return ",".join(map(str, state.values)).encode()

    def load(self, written: bytes) -> Digest:
        return Digest([int(each) for each in written.decode().split(",") if each])


class Pickled(Dumped, returns="n bigint", pickle=True):
    pass


class ArrowTable(PaneProcessor, returns="n bigint"):
    """State that is not a Python object: the last rows in a table, in a dict because it changes in place."""

    def create(self) -> list[Any]:
        return []

    def on_batch(self, state: list[Any], key: Any, pane: Pane, rows: pa.RecordBatch) -> None:
        state.append(rows["id"].to_numpy())

    def on_close(self, state: list[Any], key: Any, pane: Pane) -> dict[str, Any]:
        return {"n": int(np.concatenate(state).sum())}


@pytest.mark.parametrize("processor", [ByItsMethods(), Pickled(), ArrowTable()], ids=lambda each: type(each).__name__)
def test_state_survives_a_restart(processor: PaneProcessor, spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", "k string, id bigint")

    def query() -> ClockedQuery:
        panes = windowed(feed.stream(spark), Tumbling("10 seconds"), by="k", time="ts").process(processor)
        return ClockedQuery(panes, checkpoint=tmp_path / "checkpoint")

    for number in (1, 2):
        with query() as running:
            feed.write([(number * SECOND, "a", number), (0, "b", 10)])
            assert running.settle() == []
    with query() as running:
        feed.flood()
        assert sorted((row.k, row.n) for row in running.settle()) == [("a", 3), ("b", 20)]


def test_a_query_continues_with_the_state_before_the_failed_batch(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", "k string, id bigint")

    def query(limit: int) -> ClockedQuery:
        class Limited(PaneProcessor, returns="ids string"):
            def on_row(self, state: Any, key: Any, pane: Pane, row: dict[str, Any]) -> None:
                state.setdefault("ids", []).append(row["id"])
                if row["id"] > limit:
                    raise ValueError(f"{row['id']} is too much")

            def on_close(self, state: Any, key: Any, pane: Pane) -> dict[str, Any]:
                return {"ids": str(state["ids"])}

        panes = windowed(feed.stream(spark), Tumbling("10 seconds"), by="k", time="ts").process(Limited())
        return ClockedQuery(panes, checkpoint=tmp_path / "checkpoint")

    feed.write([(0, "a", 1), (0, "b", 2)])
    with query(5) as failing:
        failing.settle()
        feed.write([(SECOND, "a", 3), (SECOND, "a", 9)])
        with pytest.raises(FunctionError) as failed:
            failing.settle()
    assert "The function failed for the pane [1970-01-01T00:00:00Z, 1970-01-01T00:00:10Z) of k='a': " in str(
        failed.value
    )
    assert "Limited.on_row raised ValueError: 9 is too much, at " in str(failed.value)
    assert "test_pane_processors.py:" in str(failed.value)
    with query(10) as fixed:
        assert fixed.settle() == []
        feed.flood()
        assert sorted((row.k, row.ids) for row in fixed.settle()) == [("a", "[1, 3, 9]"), ("b", "[2]")]


# --- Errors before the query starts ----------------------------------------------------------------------------------


class NoColumns(PaneProcessor):
    def on_row(self, state: Any, key: Any, pane: Pane, row: dict[str, Any]) -> None:
        pass


class NoMethod(PaneProcessor, returns="n int"):
    pass


class BothMethods(Dumped, returns="n int"):
    def on_row(self, state: Any, key: Any, pane: Pane, row: dict[str, Any]) -> None:
        pass


class Immutable(NoColumns, returns="n int"):
    def create(self) -> int:
        return 0


class TwoArguments(PaneProcessor, returns="n int"):
    def on_batch(self, state: Any, rows: pa.Table) -> None:  # type: ignore[override]
        pass


class Taken(NoColumns, returns="window int"):
    pass


@pytest.mark.parametrize(
    ("processor", "message"),
    [
        (5, r"processor=5 \(int\) is not a PaneProcessor\. Write a subclass"),
        (Rows, r"is not a PaneProcessor\. Write Rows\(\)\."),
        (NoColumns(), r"NoColumns does not name the columns that it emits\. .* returns='score double'"),
        (NoMethod(), r"NoMethod has neither on_row nor on_batch\. Define one of them"),
        (BothMethods(), r"BothMethods has both on_row and on_batch\."),
        (Immutable(), r"Immutable\.create\(\) returned 0 \(int\), which cannot be changed in place"),
        (Dumped(), r"the state of Dumped is or holds .*Digest.*dump\(\) and load\(\) of Dumped; or .*pickle=True"),
        (
            TwoArguments(),
            r"on_batch\(state: .*, rows: .*\) -> .* is called with 4 arguments\. Write it as def on_batch\(self, state",
        ),
        (Taken(), r"returns= has the column 'window', which the result has already"),
    ],
)
def test_a_processor_that_cannot_work_raises_an_error(
    processor: Any, message: str, spark: SparkSession, tmp_path: Path
) -> None:
    feed = Feed(tmp_path / "in", "k string, id bigint")
    feed.write([(0, "a", 1)])
    with pytest.raises(InvalidArgumentError, match=message):
        windowed(feed.batch(spark), Tumbling("10 seconds"), by="k", time="ts").process(processor)


def test_sessions_need_a_merge(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", "k string, id bigint")
    feed.write([(0, "a", 1)])
    with pytest.raises(InvalidArgumentError, match=r"Pickled has no merge\(self, state, other\), and sessions merge"):
        windowed(feed.batch(spark), Session("10 seconds"), by="k", time="ts").process(Pickled())


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"early": Early("1 second")}, "early=: a pane has one schedule of early firings"),
        ({"dedupe_by": "id"}, "dedupe_by=: .* cannot return one: .* Use dropDuplicatesWithinWatermark"),
        (
            {"on_time": True, "allowed_lateness": "1 second", "window": Around("1 second")},
            "on_time=True for Around windows: a processor gets their rows when they close",
        ),
        ({"upgrade": Upgrade(window="drain")}, "upgrade=: the panes of the previous query have no state"),
        ({"at_end": "close", "window": Session("1 second")}, 'at_end="close" for sessions: the rows of an open'),
    ],
)
def test_options_that_mean_nothing_for_a_processor_raise_an_error(
    option: dict[str, Any], message: str, spark: SparkSession, tmp_path: Path
) -> None:
    feed = Feed(tmp_path / "in", "k string, id bigint")
    windows = {"window": Tumbling("10 seconds"), "by": "k", "time": "ts", **option}
    with pytest.raises(UnsupportedError, match=r"process\(\.\.\.\) does not support " + message):
        windowed(feed.stream(spark), **windows).process(Rows())


# --- Connect and kills -----------------------------------------------------------------------------------------------


def test_a_client_of_spark_connect_runs_a_processor(server: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", "k string, id bigint")
    feed.write([(0, "a", 1), (SECOND, "b", 2), (2 * SECOND, "a", 4)])
    feed.write([(3 * SECOND, "a", 6)])
    feed.flood()
    with connect_server.remote(server) as remote:
        panes = windowed(feed.stream(remote), Tumbling("10 seconds"), by="k", time="ts").process(Rows())
        query = panes.writeStream.format("memory").queryName("processed").trigger(availableNow=True)
        query.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()
        output = remote.table("processed").collect()
    assert sorted((r.k, r.n, r.ids) for r in output if r.ids) == [("a", 11, "[1, 4, 6]"), ("b", 2, "[2]")]
