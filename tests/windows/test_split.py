"""Global windows that a Python function splits: random functions against a model, and their errors.

A random case is a key; hundreds of them share a query.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from mullion import Early, FunctionError, Global, MullionError, UnsupportedError, read_panes, windowed
from mullion.windows import SplitOf
from tests.support.checked import settings
from tests.support.clocked import ClockedQuery
from tests.support.seeds import SEED
from tests.support.streams import Feed
from tests.windows.contents.test_equal_hashes import with_the_hash_of

KEYS = 240
BATCHES = 6
RULES = 8
LIMIT = "spark.sql.streaming.stateStore.mullion.maxAccumulatorBytes"


# --- Random functions, against a model -------------------------------------------------------------------------------


def where_to_split(rule: int, ids: list[int], offset: int) -> list[int] | None:
    """The result of a key's rule for its buffer."""
    n = len(ids)
    match rule:
        case 0:
            return None
        case 1:
            return [n]
        case 2:
            # The earlier rows are a window.
            return [offset] if offset else []
        case 3:
            return [0, *(i + 1 for i in range(n) if ids[i] % 3 == 0)]
        case 4:
            return [i for i in range(1, n) if ids[i] % 4 == 0]
        case 5:
            return [n - n % 5] if n >= 5 else []
        case 6:
            return list(range(n + 1))
    return sorted({sum(ids) % (n + 1), sum(ids) // 7 % (n + 1)})


def split_by_rules() -> SplitOf:
    rules = where_to_split.__code__
    import types

    def split(buffer: Any, offset: int) -> Any:
        ids, rule = buffer["id"].to_pylist(), buffer["rule"][0].as_py()
        assert set(buffer["rule"].to_pylist()) == {rule}
        bounds = types.FunctionType(rules, {})(rule, ids, offset)
        if bounds is None or rule == 1:
            return bounds
        import numpy
        import pyarrow

        return {3: numpy.array(bounds, "int32"), 4: pyarrow.array(bounds, "int64"), 5: tuple(bounds)}.get(rule, bounds)

    return split


class Shown(NamedTuple):
    key: str | None
    start: int
    end: int
    ids: tuple[int, ...]


class Model:
    """The buffers of all keys as lists."""

    def __init__(self) -> None:
        self.rows: dict[int, list[int]] = {}
        self.starts: dict[int, int] = {}

    def batch(self, rows: list[tuple[int, int]]) -> Iterator[Shown]:
        """Applies a batch of keys and ids. Returns the closed windows."""
        offsets = {key: len(self.rows.get(key, [])) - self.starts.get(key, 0) for key, _ in rows}
        for key, row in rows:
            self.rows.setdefault(key, []).append(row)
        for key, offset in offsets.items():
            start = self.starts.setdefault(key, 0)
            buffer = self.rows[key][start:]
            for index in where_to_split(key % RULES, buffer, offset) or []:
                if (end := start + index) > self.starts[key]:
                    yield Shown(name_of(key), self.starts[key], end, tuple(self.rows[key][self.starts[key] : end]))
                    self.starts[key] = end

    @property
    def open(self) -> Iterator[Shown]:
        for key, rows in self.rows.items():
            start = self.starts[key]
            if rows[start:]:
                yield Shown(name_of(key), start, len(rows), tuple(rows[start:]))


def name_of(key: int) -> str | None:
    return f"k{key}" if key else None


def rows_of(spark: SparkSession, feed: Feed) -> DataFrame:
    return spark.readStream.schema(feed.ddl).option("maxFilesPerTrigger", 1).parquet(str(feed.folder))


def shown(panes: DataFrame) -> DataFrame:
    ids = "ids" if "ids" in panes.columns else F.expr("transform(rows, r -> r.id)").alias("ids")
    return panes.select("k", "window.start", "window.end", ids)


def counted(rows: list[Any]) -> Counter[Shown]:
    return Counter(Shown(row.k, row.start, row.end, tuple(row.ids)) for row in rows)


@pytest.mark.parametrize(("collect", "columns"), [(True, None), (False, ["rule", "id"]), (True, ["id", "rule"])])
def test_windows_are_split_by_a_function_as_in_the_model(
    collect: bool, columns: list[str] | None, spark: SparkSession, tmp_path: Path
) -> None:
    chance = random.Random(f"{SEED} {columns}")
    feed = Feed(tmp_path / "in", "k string, rule int, id bigint, more string")
    model = Model()

    def panes_of(rows: DataFrame) -> DataFrame:
        panes = windowed(rows, Global.split(split_by_rules(), columns), by="k", time=None)
        if collect:
            return panes.collect()
        # A list in order, and a sum.
        total = F.expr("sum(id) FILTER (WHERE id % 2 = 0)").alias("even")
        results = panes.agg(F.collect_list("id").alias("ids"), total)
        sums = F.expr("coalesce(even, 0) = aggregate(filter(ids, i -> i % 2 = 0), 0L, (a, b) -> a + b)")
        return results.where(sums)

    def started() -> ClockedQuery:
        return ClockedQuery(shown(panes_of(rows_of(spark, feed))), checkpoint=tmp_path / "checkpoint")

    query = started()
    ids = 0
    try:
        for number in range(BATCHES):
            keys = [key for key in range(KEYS) for _ in range(chance.choice([0, 0, 1, 2, 3, 9]))]
            chance.shuffle(keys)
            rows = [(key, ids + i) for i, key in enumerate(keys)]
            ids += len(rows)
            feed.write([(0, name_of(key), key % RULES, row, "more") for key, row in rows])
            if number in (2, 4):
                query.stop()
                query = started()
            got, wanted = counted(query.settle()), Counter(model.batch(rows))
            assert got == wanted, f"seed {SEED}, batch {number}: {wanted - got} missing, {got - wanted} more"
        progress = query.progress[-1]["stateOperators"][0]
        assert progress["customMetrics"]["panesOpen"] == len(list(model.open))
    finally:
        query.stop()
    read = counted(shown(read_panes(tmp_path / "checkpoint", spark=spark)).collect())
    assert read == Counter(model.open)
    # One batch with all rows of each key.
    of_all_rows, all_rows = Model(), [(key, row) for key, rows in model.rows.items() for row in rows]
    batch = feed.batch(spark).drop("ts").repartition(1).sortWithinPartitions("id")
    assert counted(shown(panes_of(batch)).collect()) == Counter(of_all_rows.batch(all_rows))


def test_a_function_sees_many_keys_in_one_go_and_each_with_its_own_rows(spark: SparkSession) -> None:
    def split(buffer: Any, offset: int) -> list[int]:
        assert offset == 0
        assert buffer.schema.names == ["k", "id", "list", "nested", "ts", "amount", "nothing"]
        assert len(set(buffer["k"].to_pylist())) == 1
        assert buffer["list"][0].as_py() == [buffer["id"][0].as_py(), None]
        assert buffer["nested"][0].as_py() == {"id": buffer["id"][0].as_py()}
        return [len(buffer)]

    rows = spark.range(0, 3000, 1, 1).selectExpr(
        "id % 1000 AS k",
        "id",
        "array(id, null) AS list",
        "struct(id) AS nested",
        "timestamp_seconds(id) AS ts",
        "CAST(id AS DECIMAL(30, 3)) AS amount",
        "CAST(NULL AS STRING) AS nothing",
    )
    panes = windowed(rows, Global.split(split), by="k", time=None).collect()
    assert (
        panes.selectExpr("k", "transform(rows, r -> r.id) = array(k, k + 1000, k + 2000) AS whole")
        .where("whole")
        .count()
        == 1000
    )
    assert panes.select(F.explode("rows").alias("r")).select("r.*").exceptAll(rows).count() == 0


def test_keys_of_one_hash_are_split_each_for_itself(spark: SparkSession, tmp_path: Path) -> None:
    keys = [(1, 2), (3, with_the_hash_of(1, 2, 3)), (5, with_the_hash_of(1, 2, 5))]
    feed = Feed(tmp_path / "in", "a bigint, b bigint, v int")
    panes = windowed(rows_of(spark, feed), Global.split(pairs()), by=["a", "b"], time=None).agg(
        F.collect_list("v").alias("vs")
    )
    with ClockedQuery(panes, checkpoint=tmp_path / "checkpoint") as query:
        feed.write([(0, *keys[i % 3], i) for i in range(9)])
        assert sorted((row.a, *row.vs) for row in query.settle()) == [(1, 0, 3), (3, 1, 4), (5, 2, 5)]
        feed.write([(0, *keys[i % 3], i) for i in range(9, 12)])
        assert sorted((row.a, *row.vs) for row in query.settle()) == [(1, 6, 9), (3, 7, 10), (5, 8, 11)]


def pairs() -> SplitOf:
    def in_pairs(buffer: Any) -> range:
        return range(0, len(buffer) + 1, 2)

    return in_pairs


# --- Errors in a function --------------------------------------------------------------------------------------------


def gives(value: Any) -> SplitOf:
    def trigger(buffer: Any) -> Any:
        return value

    return trigger


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ([1.5], r"gave \[1.5\] \(list\), in which 1.5 \(float\) is not a whole number"),
        ([True], r"gave \[True\] \(list\), in which True \(bool\) is not a whole number"),
        (["1"], r"in which '1' \(str\) is not a whole number"),
        ([None], r"in which None \(NoneType\) is not a whole number"),
        (2, r"gave 2 \(int\), which is not a list of indices"),
        ("12", r"gave '12' \(str\), which is not a list of indices"),
        ([2**70], r"in which 1180591620717411303424 is not an index of a row"),
        ([2, 1], r"gave \[2, 1\], in which 1 does not come after 2"),
        ([1, 1], r"gave \[1, 1\], in which 1 does not come after 1"),
        ([-1], r"gave \[-1\], in which -1 is negative"),
        ([1, 4], r"gave \[1, 4\], in which 4 is beyond 3, the end of the buffer"),
    ],
)
def test_what_a_function_may_not_give_is_an_error_with_its_name_and_the_key(
    spark: SparkSession, value: Any, why: str
) -> None:
    rows = spark.createDataFrame([("a", 1), ("a", 2), ("a", 3)], "k string, v int").coalesce(1)
    panes = windowed(rows, Global.split(gives(value)), by="k", time=None).agg(F.count("*"))
    opening = r"The function trigger of Global.split, asked about 3 rows buffered of k=a, "
    with pytest.raises(FunctionError, match=f"{opening}.*{why}.*each from 0 to 3, the length of the buffer"):
        panes.collect()


def failing_on(bad: int) -> SplitOf:
    def shares(buffer: Any) -> list[int]:
        return [i + 1 for i, v in enumerate(buffer["v"].to_pylist()) if 1 // (v - bad) < 0]

    return shares


def mended() -> SplitOf:
    def shares(buffer: Any) -> list[int]:
        return [len(buffer)]

    return shares


def test_an_error_in_a_function_names_it_the_key_and_the_line_and_after_the_fix_the_query_resumes(
    spark: SparkSession, tmp_path: Path
) -> None:
    feed = Feed(tmp_path / "in", "a string, b date, v int")

    def started(function: SplitOf) -> ClockedQuery:
        window = Global.split(function, columns=["v"])
        panes = windowed(rows_of(spark, feed), window, by=["a", "b"], time=None).agg(F.collect_list("v").alias("vs"))
        return ClockedQuery(panes, checkpoint=tmp_path / "checkpoint")

    from datetime import date

    day = date(2013, 1, 5)
    with started(failing_on(7)) as query:
        feed.write([(0, "x", day, 8), (0, "y", None, 9)])
        assert query.settle() == []
        feed.write([(0, "x", day, 7), (0, "z", day, 8)])
        with pytest.raises(FunctionError) as failed:
            query.settle()
    message = str(failed.value)
    assert "The function shares of Global.split, asked about 2 rows buffered of a=x, b=2013-01-05, raised" in message
    line = next(
        n for n, text in enumerate(Path(__file__).read_text("utf-8").splitlines(), 1) if "1 // (v - bad)" in text
    )
    assert (
        f"raised ZeroDivisionError: integer division or modulo by zero, at {__file__}, line {line}: return [" in message
    )
    assert "under the same name" in message
    assert "Traceback (most recent call last)" in message
    assert failed.value.condition == "FUNCTION_FAILED"
    with started(mended()) as query:
        closed = {(row.a, row.window.start, tuple(row.vs)) for row in query.settle()}
        assert closed == {("x", 0, (8, 7)), ("z", 0, (8,))}
        feed.write([(0, "y", None, 1)])
        ((y,),) = [query.settle()]
        assert (y.window.end, y.vs) == (2, [9, 1])


def test_an_error_deep_in_a_function_shows_the_functions_own_line(spark: SparkSession) -> None:
    def parsed(buffer: Any) -> list[int]:
        import json

        return [json.loads("{")]

    rows = spark.createDataFrame([(1,)], "v int")
    with pytest.raises(
        FunctionError, match=r"raised JSONDecodeError: .*test_split.py, line \d+: return \[json.loads"
    ) as e:
        windowed(rows, Global.split(parsed), time=None).collect().collect()
    assert "asked about 1 row buffered, raised" in str(e.value)
    assert "json/decoder.py" in str(e.value)


# --- Limits, state, and unsupported options --------------------------------------------------------------------------


def test_a_buffer_with_too_many_bytes_fails_the_query_and_is_named(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", "k string, v int")
    with settings(spark, {LIMIT: "1k"}):
        panes = windowed(rows_of(spark, feed), Global.split(gives(None)), by="k", time=None).agg(F.count("*"))
        with ClockedQuery(panes, checkpoint=tmp_path / "checkpoint") as query:
            feed.write([(0, "a", i) for i in range(15)])
            assert query.settle() == []
            feed.write([(0, "a", i) for i in range(15)])
            with pytest.raises(
                UnsupportedError, match=r"The pane \[0, \d+\) of k=a has grown to 10\d\d bytes of buffered rows"
            ):
                query.settle()
    with ClockedQuery(panes, checkpoint=tmp_path / "checkpoint") as query:
        assert query.settle() == []


def test_what_a_function_closed_may_have_as_many_rows_as_collect_lets_it(spark: SparkSession) -> None:
    rows = spark.range(0, 5, 1, 1)
    window = Global.split(gives([4, 5]))
    assert windowed(rows, window, time=None).collect(max_rows=4).count() == 2
    with pytest.raises(MullionError, match=r"The pane \[0, 4\) has more than 3 rows"):
        windowed(rows, window, time=None).collect(max_rows=3).collect()


def other() -> SplitOf:
    def another(buffer: Any) -> None:
        return None

    return another


def without_v(panes: DataFrame) -> DataFrame:
    return panes.drop("v")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (
            lambda rows: windowed(rows, Global.split(other()), by="k", time=None).collect(),
            "split by the function trigger",
        ),
        (
            lambda rows: windowed(rows, Global.split(gives(None), ["k"]), by="k", time=None).collect(),
            "split over t, k, v",
        ),
        (
            lambda rows: windowed(rows.drop("v"), Global.split(gives(None), ["k"]), by="k", time=None).collect(),
            "buffered with t BIGINT, k STRING, v INT",
        ),
    ],
    ids=["function", "columns", "rows"],
)
def test_state_that_another_function_or_other_columns_made_is_rejected(
    change: Callable[[DataFrame], DataFrame], why: str, spark: SparkSession, tmp_path: Path
) -> None:
    feed = Feed(tmp_path / "in", "k string, v int")
    feed.write([(0, "a", 1)])
    panes = windowed(rows_of(spark, feed), Global.split(gives(None)), by="k", time=None).collect()
    with ClockedQuery(panes, checkpoint=tmp_path / "checkpoint") as query:
        query.settle()
    feed.write([(0, "a", 2)])
    with (
        ClockedQuery(change(rows_of(spark, feed)), checkpoint=tmp_path / "checkpoint") as query,
        pytest.raises(MullionError, match=why),
    ):
        query.settle()


def test_what_a_function_cannot_be_shown_is_rejected(spark: SparkSession) -> None:
    rows = spark.sql("SELECT 1 AS k, 2 AS v, 3 AS v")
    with pytest.raises(MullionError, match="'v' exists twice"):
        windowed(rows, Global.split(gives(None)), by="k", time=None).agg(F.count("*"))
    with pytest.raises(MullionError, match=r"columns=\['w'\]: the input has no column 'w'"):
        windowed(rows, Global.split(gives(None), ["w"]), by="k", time=None)
    with pytest.raises(UnsupportedError, match="its function receives all rows of a batch at once"):
        windowed(rows, Global.split(gives(None), ["k"]), by="k", time=None, early=Early(each_row=True))
