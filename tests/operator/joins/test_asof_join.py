"""As-of joins: each row of one stream with the row of another one that is nearest in time."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from mullion import (
    IncompatibleStateError,
    InvalidArgumentError,
    Tumbling,
    UnknownColumnError,
    UnsupportedError,
    asof_join,
    windowed,
)
from tests.support.clocked import ClockedQuery
from tests.support.models.asof_model import AsOfModel, Row
from tests.support.seeds import SEED
from tests.support.streams import SECOND, Feed, batches_of

COLUMNS = "k string, v bigint"
OPTIONS = [
    ("backward", None, True),
    ("backward", None, False),
    ("backward", 5, True),
    ("forward", 5, True),
    ("forward", 5, False),
    ("nearest", 4, True),
    ("nearest", 4, False),
]
NAMES = [
    "backward",
    "backward-not-exact",
    "backward-5",
    "forward-5",
    "forward-not-exact",
    "nearest-4",
    "nearest-not-exact",
]


class Sides:
    """Two feeds, and the join of their streams."""

    def __init__(self, spark: SparkSession, folder: Path, delay: str = "0 seconds") -> None:
        self.spark = spark
        self.left, self.right = Feed(folder / "left", COLUMNS), Feed(folder / "right", COLUMNS)
        self.checkpoint = folder / "checkpoint"
        self.delay = delay

    def join(self, **options: Any) -> DataFrame:
        feeds = (self.left, self.right)
        lefts, rights = (feed.stream(self.spark, self.delay).select("ts", "k", "v") for feed in feeds)
        return asof_join(lefts, rights, **{"by": "k", "left_time": "ts", "right_time": "ts", **options})

    def query(self, **options: Any) -> ClockedQuery:
        return ClockedQuery(self.join(**options), checkpoint=self.checkpoint)

    def write(self, lefts: list[Row], rights: list[Row]) -> None:
        self.left.write(lefts)
        self.right.write(rights)

    def flood(self) -> None:
        self.left.flood()
        self.right.flood()


def options_of(direction: str, tolerance: int | None, allow_exact: bool) -> dict[str, Any]:
    within = None if tolerance is None else timedelta(seconds=tolerance)
    return {"direction": direction, "tolerance": within, "allow_exact": allow_exact}


def pairs(rows: list[Any]) -> Counter[tuple[Any, ...]]:
    return Counter((row.ts, row.k, row.v, row.v_right) for row in rows)


def seconds(time: int | None) -> datetime | None:
    return None if time is None else datetime(1970, 1, 1) + timedelta(microseconds=time)


def expected(matched: list[tuple[Row, Any]]) -> Counter[tuple[Any, ...]]:
    return Counter((seconds(row.time), row.key, row.value, value) for row, value in matched)


def clocks_of(query: ClockedQuery) -> list[int]:
    """The watermark of each batch that ran, in microseconds."""
    clocks: dict[int, int] = {}
    for report in query.progress:
        if "addBatch" in report["durationMs"]:
            watermark = datetime.fromisoformat(report["eventTime"]["watermark"].removesuffix("Z"))
            clocks[report["batchId"]] = (watermark - datetime(1970, 1, 1)) // timedelta(microseconds=1)
    return [clocks[batch] for batch in sorted(clocks)]


def random_rows(chance: random.Random, ids: Any, now: int, count: int, delay: int) -> list[Row]:
    """Rows around a time, with ties, null keys, null times, and some that are late."""

    def time() -> int | None:
        if chance.random() < 0.03:
            return None
        behind = chance.randrange(delay * 3) if chance.random() < 0.1 else chance.randrange(delay)
        return max(0, now - behind) * SECOND // 2

    return [Row(time(), chance.choice(["a", "b", "c", "d", None]), next(ids)) for _ in range(count)]


@pytest.mark.parametrize(("direction", "tolerance", "allow_exact"), OPTIONS, ids=NAMES)
@pytest.mark.sampled(3)
def test_random_batches_match_the_model(
    spark: SparkSession, tmp_path: Path, direction: str, tolerance: int | None, allow_exact: bool
) -> None:
    chance = random.Random(f"{SEED} {direction} {tolerance} {allow_exact}")
    ids = itertools.count()
    sides = Sides(spark, tmp_path, "5 seconds")
    within = None if tolerance is None else tolerance * SECOND
    model = AsOfModel(direction, within, allow_exact)
    batches = 0
    with sides.query(**options_of(direction, tolerance, allow_exact)) as query:
        for batch in range(6):
            lefts, rights = (random_rows(chance, ids, 12 * (batch + 1), 30, 10) for _ in range(2))
            sides.write(lefts, rights)
            rows = query.settle()
            clocks = clocks_of(query)[batches:]
            batches += len(clocks)
            # The batch of the rows, and batches without rows after it.
            matched = model.batch(lefts, rights, clocks[0])
            for clock in clocks[1:]:
                matched += model.batch([], [], clock)
            assert pairs(rows) == expected(matched)
        sides.flood()
        assert pairs(query.settle()) == expected([(row, model.match(row)) for row in model.waiting])
        reports = batches_of(query)
        assert sum(report["rowsWithoutTime"] for report in reports) > 0
        assert sum(report["rowsLate"] for report in reports) == model.late
        # Without a tolerance the last right row of each key stays.
        assert reports[-1]["numRowsTotal"] == (4 if tolerance is None else 0)


@pytest.mark.parametrize(("direction", "tolerance", "allow_exact"), OPTIONS, ids=NAMES)
@pytest.mark.sampled(3)
def test_a_stream_and_a_batch_match_pandas_merge_asof(
    spark: SparkSession, tmp_path: Path, direction: Any, tolerance: int | None, allow_exact: bool
) -> None:
    chance = random.Random(f"{SEED} pandas {direction} {tolerance} {allow_exact}")
    ids = itertools.count()
    sides = Sides(spark, tmp_path, "60 seconds")
    lefts, rights = ([row for _ in range(3) for row in _complete(chance, ids)] for _ in range(2))
    options = options_of(direction, tolerance, allow_exact)
    rows = []
    with sides.query(**options) as query:
        for batch in range(3):
            sides.write(lefts[batch::3], rights[batch::3])
            rows += query.settle()
        sides.flood()
        rows += query.settle()

    # Of right rows with one key and time, the last to arrive counts.
    arrived = [row for batch in range(3) for row in rights[batch::3]]
    versions = {(row.time, row.key): row for row in arrived}
    merged = pd.merge_asof(
        _frame(lefts),
        _frame(list(versions.values())),
        on="ts",
        by="k",
        suffixes=("", "_right"),
        direction=direction,
        tolerance=None if tolerance is None else pd.Timedelta(seconds=tolerance),
        allow_exact_matches=allow_exact,
    )
    by_pandas = Counter(
        (row.ts.to_pydatetime(), row.k, row.v, None if pd.isna(row.v_right) else int(row.v_right))
        for row in merged.itertuples()
    )
    assert pairs(rows) == by_pandas
    left, right = (_batch(spark, rows) for rows in (lefts, versions.values()))
    assert pairs(asof_join(left, right, by="k", left_time="ts", right_time="ts", **options).collect()) == by_pandas


def _batch(spark: SparkSession, rows: Iterable[Row]) -> DataFrame:
    return spark.createDataFrame(
        [(seconds(row.time), row.key, row.value) for row in rows], "ts timestamp, k string, v int"
    )


def _complete(chance: random.Random, ids: Any) -> list[Row]:
    return [Row(chance.randrange(1, 60) * SECOND, chance.choice(["a", "b", "c"]), next(ids)) for _ in range(25)]


def _frame(rows: list[Row]) -> pd.DataFrame:
    frame = pd.DataFrame([(seconds(row.time), row.key, row.value) for row in rows], columns=["ts", "k", "v"])
    return frame.sort_values("ts", kind="stable")


def rows_of(*rows: tuple[float, str | None, int]) -> list[Row]:
    return [Row(int(at * SECOND), key, value) for at, key, value in rows]


def test_a_row_is_emitted_when_the_watermark_of_both_sides_has_passed_it(spark: SparkSession, tmp_path: Path) -> None:
    sides = Sides(spark, tmp_path)
    with sides.query() as query:
        sides.write(rows_of((5, "a", 1), (9, "a", 2)), rows_of((4, "a", 10)))
        assert query.settle() == []
        # The watermark is the minimum: 6 seconds.
        sides.write(rows_of((20, "b", 3)), rows_of((6, "a", 11)))
        assert [(row.v, row.v_right) for row in query.settle()] == [(1, 10)]
        sides.write([], rows_of((12, "b", 12)))
        assert [(row.v, row.v_right) for row in query.settle()] == [(2, 11)]


def test_a_query_continues_from_its_checkpoint_and_rejects_other_options(spark: SparkSession, tmp_path: Path) -> None:
    sides = Sides(spark, tmp_path)
    with sides.query() as query:
        sides.write(rows_of((5, "a", 1)), rows_of((4, "a", 10)))
        assert query.settle() == []
    with sides.query() as query:
        sides.write(rows_of((8, "a", 2)), rows_of((8, "b", 11)))
        assert [(row.v, row.v_right) for row in query.settle()] == [(1, 10), (2, 10)]
    with sides.query(direction="nearest", tolerance="1 minute") as query:
        sides.write(rows_of((9, "a", 3)), [])
        with pytest.raises(IncompatibleStateError, match=r"direction was \[backward\] and is now \[nearest\]"):
            query.settle()


def test_a_window_over_the_join_goes_by_the_left_time(spark: SparkSession, tmp_path: Path) -> None:
    sides = Sides(spark, tmp_path)
    joined = sides.join(direction="nearest", tolerance="3 seconds")
    totals = windowed(joined, Tumbling("10 seconds"), by="k", time="ts").agg(F.count("v_right").alias("n"))
    with ClockedQuery(totals, checkpoint=sides.checkpoint) as query:
        sides.write(rows_of(*((at, "a", 1) for at in range(20))), rows_of(*((at, "a", 1) for at in range(0, 20, 8))))
        rows = query.settle()
        sides.flood()
        rows += query.settle()
        assert sorted((row.window.start.second, row.n) for row in rows) == [(0, 9), (10, 9)]
        assert [batches_of(query, operator)[-1]["rowsLate"] for operator in (0, 1)] == [0, 0]


def test_no_key_joins_all_rows_and_keys_may_be_several(spark: SparkSession) -> None:
    left = spark.createDataFrame([(seconds(5), 1, -0.0)], "ts timestamp, j int, f double")
    right = spark.createDataFrame(
        [(seconds(4), 2, 1.0, "x"), (seconds(3), 1, 0.0, "y")], "at timestamp, j int, f double, w string"
    )
    times: dict[str, Any] = {"left_time": "ts", "right_time": "at"}
    assert [row.w for row in asof_join(left, right, **times).collect()] == ["x"]
    versions = right.union(right.withColumn("w", F.lit("z"))).coalesce(1)
    assert [row.w for row in asof_join(left, versions, **times).collect()] == ["z"]
    keyed = asof_join(left, right, by=["j", "f"], **times)
    assert keyed.columns == ["ts", "j", "f", "at", "w"]
    assert [row.w for row in keyed.collect()] == ["y"]


def test_invalid_joins_raise_errors_that_name_the_fix(spark: SparkSession, tmp_path: Path) -> None:
    sides = Sides(spark, tmp_path)
    stream = sides.left.stream(spark).select("ts", "k", "v")
    batch = spark.createDataFrame([(seconds(0), "a", 1)], "ts timestamp, k string, v bigint")

    def error(kind: type[Exception], left: DataFrame = batch, right: DataFrame = batch, **options: Any) -> str:
        with pytest.raises(kind) as caught:
            asof_join(left, right, **{"by": "k", "left_time": "ts", "right_time": "ts", **options})
        return str(caught.value)

    assert "left= is a stream and right= is a batch" in error(UnsupportedError, stream)
    assert "by='q': the left side has no column 'q'" in error(UnknownColumnError, by="q")
    assert "right_time='at': the right side has no column" in error(UnknownColumnError, right_time="at")
    assert "direction='forward' needs tolerance=" in error(InvalidArgumentError, direction="forward")
    assert "direction='back' is not one of" in error(InvalidArgumentError, direction="back")
    assert "allow_exact=False excludes" in error(InvalidArgumentError, tolerance="0 seconds", allow_exact=False)
    assert "by='k' is of type STRING on the left and INT" in error(
        InvalidArgumentError, right=batch.withColumn("k", F.lit(1))
    )
    assert "left_time='v' is of type BIGINT" in error(InvalidArgumentError, left_time="v")
    unmarked = stream.withColumn("ts", F.col("ts") + F.expr("interval 0 seconds"))
    assert "right_time='ts' has no watermark on the right" in error(InvalidArgumentError, stream, unmarked)
    taken = batch.withColumn("ts_right", F.lit(1))
    assert "several columns named 'ts_right'" in error(InvalidArgumentError, taken)
    late = asof_join(stream, sides.right.stream(spark), by="k", left_time="ts", right_time="ts")
    with pytest.raises(UnsupportedError, match="result of an as-of join"):
        ClockedQuery(late.withWatermark("ts", "1 second"), checkpoint=sides.checkpoint)
