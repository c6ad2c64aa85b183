"""Python functions with durable state of each shard: records, timers, restarts and retries."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from mullion import InvalidArgumentError, UnknownColumnError, UnsupportedError
from mullion._keyed.api import State, read_state, stateful_map
from mullion.errors import FunctionError, IncompatibleStateError
from tests.support.clocked import ClockedQuery
from tests.support.seeds import SEED
from tests.support.streams import SECOND, Feed, batches_of

# The folder of the tests is not on the workers' path.
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]


def records_in(spark: SparkSession, checkpoint: Path) -> dict[bytes, bytes]:
    return {bytes(row.key): bytes(row.value) for row in read_state(checkpoint, spark=spark).collect()}


def running_totals(batches: Iterator[pa.RecordBatch], state: State) -> Iterator[pa.RecordBatch]:
    """Emits each row with its key's total so far."""
    for batch in batches:
        rows = batch.select(["k", "n"]).to_pylist()
        for row in rows:
            key = row["k"].encode()
            row["total"] = int(state.get(key) or b"0") + row["n"]
            state.put(key, str(row["total"]).encode())
        yield pa.RecordBatch.from_pylist(rows)


def test_what_a_function_wrote_is_there_in_later_batches_and_after_a_restart(
    spark: SparkSession, tmp_path: Path
) -> None:
    feed = Feed(tmp_path / "in", "k string, n bigint")

    def query() -> ClockedQuery:
        out = stateful_map(feed.stream(spark), running_totals, "k string, n bigint, total bigint", shard_by="k")
        return ClockedQuery(out, checkpoint=tmp_path / "checkpoint")

    with query() as running:
        feed.write([(0, "a", 1), (0, "b", 2), (0, "a", 3)])
        assert sorted(map(tuple, running.settle())) == [("a", 1, 1), ("a", 3, 4), ("b", 2, 2)]
        feed.write([(0, "a", 10)])
        assert sorted(map(tuple, running.settle())) == [("a", 10, 14)]
        first, second = batches_of(running)
        assert (first["numRowsTotal"], first["numRowsUpdated"]) == (2, 2), "a key that is written twice is written once"
        assert (second["numRowsTotal"], second["callsProcess"]) == (2, 1), "one partition had no rows"
    with query() as running:
        feed.write([(0, "b", 5), (0, "c", 1)])
        assert sorted(map(tuple, running.settle())) == [("b", 5, 7), ("c", 1, 1)]
    assert records_in(spark, tmp_path / "checkpoint") == {b"a": b"14", b"b": b"7", b"c": b"1"}


KEYS = [
    prefix + suffix for prefix in (b"", b"k", b"table one ", b"\xff\xff", b"\x00") for suffix in (b"", b"a", b"\xff")
]
"""Keys that differ only after their first 8 bytes, and the smallest and largest keys."""


def perform(batches: Iterator[pa.RecordBatch], state: State) -> Iterator[pa.RecordBatch]:
    """Performs each row's operation on the state, and emits its result."""
    state._cached_bytes = 3000
    for batch in batches:
        results = []
        for row in batch.to_pylist():
            key, value, result = row["key"], row["value"], ""
            match row["op"]:
                case "get":
                    result = repr(state.get(key))
                case "get_many":
                    result = repr(state.get_many([key, key + b"?", key]))
                case "put":
                    state.put(key, value)
                case "delete":
                    state.delete(key)
                case "scan":
                    result = repr(sorted(state.scan(key)))
                case "items":
                    result = repr(sorted(state.items()))
                case "half a scan":
                    result = repr(len(list(islice(state.items(), 2))))
                case "put_timer":
                    state.put_timer(row["due"], key, row["clock"])
                case "delete_timer":
                    state.delete_timer(row["due"], key, row["clock"])
                case "due":
                    result = repr([due for due, _ in state.due(row["due"], row["clock"])])
                case "half due":
                    # Only one timer is read, and the others stay.
                    result = repr([due for due, _ in islice(state.due(row["due"], row["clock"]), 1)])
            results.append({"id": row["id"], "result": result})
        yield pa.RecordBatch.from_pylist(results)


class Model:
    """The same operations with a dict."""

    def __init__(self) -> None:
        self.records: dict[bytes, bytes] = {}
        self.timers: set[tuple[str, int, bytes]] = set()

    def perform(self, op: str, key: bytes, value: bytes, due: int, clock: str) -> str:
        records = self.records
        match op:
            case "get":
                return repr(records.get(key))
            case "get_many":
                return repr([records.get(key), records.get(key + b"?"), records.get(key)])
            case "put":
                records[key] = value
            case "delete":
                records.pop(key, None)
            case "scan":
                return repr(sorted(item for item in records.items() if item[0].startswith(key)))
            case "items":
                return repr(sorted(records.items()))
            case "half a scan":
                return repr(min(2, len(records)))
            case "put_timer":
                self.timers.add((clock, due, key))
            case "delete_timer":
                self.timers.discard((clock, due, key))
            case "due":
                due_timers = sorted(timer for timer in self.timers if timer[0] == clock and timer[1] <= due)
                self.timers.difference_update(due_timers)
                return repr([timer[1] for timer in due_timers])
            case "half due":
                return repr(self._first(clock, due))
        return ""

    def _first(self, clock: str, due: int) -> list[int]:
        due_timers = sorted(timer for timer in self.timers if timer[0] == clock and timer[1] <= due)
        # Timers with equal times have no order, so times are distinct.
        self.timers.difference_update(due_timers[:1])
        return [timer[1] for timer in due_timers[:1]]


def test_records_and_timers_agree_with_a_dict(spark: SparkSession, tmp_path: Path) -> None:
    rng = random.Random(SEED)
    feed = Feed(tmp_path / "in", "id bigint, op string, key binary, value binary, due bigint, clock string")
    rows = feed.stream(spark)
    out = stateful_map(rows, perform, "id bigint, result string", wall_timers=True)
    operations = ["get", "put", "delete"] * 4 + ["get_many", "scan", "items", "half a scan"]
    operations += ["put_timer"] * 4 + ["delete_timer", "due", "half due"]
    model, number, numbers = Model(), 0, iter(range(10**6))
    with ClockedQuery(out, checkpoint=tmp_path / "checkpoint") as query:
        for batch in range(5):
            commands: list[tuple[Any, ...]] = []
            for _ in range(300):
                op, key, clock = rng.choice(operations), rng.choice(KEYS), rng.choice(["event", "wall"])
                # Timers have distinct times, far from any clock, some before 1970.
                due = rng.randrange(-50, 50) * SECOND * 1000 + (next(numbers) if op == "put_timer" else 0)
                commands.append((0, number + len(commands), op, key, rng.randbytes(rng.randrange(40)), due, clock))
            feed.write(commands)
            expected = [
                (id_, model.perform(op, key, value, due, clock)) for _, id_, op, key, value, due, clock in commands
            ]
            assert list(map(tuple, query.settle())) == expected, f"batch {batch}, MULLION_SEED={SEED}"
            number += len(commands)
            assert batches_of(query)[-1]["numRowsTotal"] == len(model.records) + len(model.timers)
    assert records_in(spark, tmp_path / "checkpoint") == model.records


def remind(batches: Iterator[pa.RecordBatch], state: State) -> Iterator[pa.RecordBatch]:
    """Sets the timers of rows, and emits those that are due by the clocks of the batch."""
    for batch in batches:
        for row in batch.to_pylist():
            state.put_timer(row["due"] * SECOND, row["k"].encode(), row["clock"])
    reminders = [
        {"k": key.decode(), "due": due // SECOND, "clock": clock, "at": clocks // SECOND}
        for clock, clocks in (("event", state.watermark_us), ("wall", state.batch_time_us))
        for due, key in state.due(clock=clock)
        if key != b"left"
    ]
    if reminders:
        yield pa.RecordBatch.from_pylist(reminders)


def test_a_batch_without_rows_runs_when_a_timer_is_due_and_reads_no_other(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", "k string, due bigint, clock string")

    def query(start_ms: int) -> ClockedQuery:
        out = stateful_map(
            feed.stream(spark),
            remind,
            "k string, due bigint, clock string, at bigint",
            shard_by="k",
            wall_timers=True,
        )
        return ClockedQuery(out, checkpoint=tmp_path / "checkpoint", start_ms=start_ms)

    # Rows precede the query, which could otherwise begin with a batch without rows.
    waiting = [(0, f"later {n}", 1000 + n, "event") for n in range(300)]
    feed.write([(0, "a", 10, "event"), (0, "b", 20, "event"), (0, "w", 30, "wall"), *waiting])
    with query(0) as running:
        assert running.settle() == []
        feed.write([(15 * SECOND, "c", 2000, "event")])
        assert list(map(tuple, running.settle())) == [("a", 10, "event", 15)]
        last = batches_of(running)[-1]
        assert (last["batchId"], last["callsProcess"]) == (2, 1), "in a batch of its own, in one partition"
        # The timer, the next one, and in each partition the totals and the time of the next timer.
        assert last["stateRowsRead"] <= 12, last["stateRowsRead"]
        running.advance("29 seconds")
        assert running.settle() == []
        assert batches_of(running)[-1]["batchId"] == 2, "waiting runs no batch"
        running.advance("1 second")
        assert list(map(tuple, running.settle())) == [("w", 30, "wall", 30)]
        feed.write([(15 * SECOND, "d", 100, "wall")])
        assert running.settle() == []
    # The timer is due while the query is stopped.
    with query(100_000) as running:
        assert list(map(tuple, running.settle())) == [("d", 100, "wall", 100)]


def test_a_timer_that_is_not_taken_asks_for_one_batch_and_no_more(spark: SparkSession, tmp_path: Path) -> None:
    def set_only(batches: Iterator[pa.RecordBatch], state: State) -> Iterator[pa.RecordBatch]:
        rows = sum(batch.num_rows for batch in batches)
        if rows:
            state.put_timer(5 * SECOND, b"a")
        yield pa.RecordBatch.from_pylist([{"batch": state.batch_id, "rows": rows}])

    feed = Feed(tmp_path / "in", "n bigint")
    with ClockedQuery(
        stateful_map(feed.stream(spark), set_only, "batch bigint, rows bigint"), checkpoint=tmp_path / "checkpoint"
    ) as query:
        feed.write([(10 * SECOND, 1)])
        assert list(map(tuple, query.settle())) == [(0, 1), (1, 0)]


def test_all_rows_are_in_one_task_without_a_shard_and_by_its_hash_with_one(spark: SparkSession, tmp_path: Path) -> None:
    def count(batches: Iterator[pa.RecordBatch], state: State) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                yield pa.RecordBatch.from_pylist([{"k": row["k"], "x": str(row["x"]), "shard": state.shard}])

    feed = Feed(tmp_path / "in", "k string, x double")
    feed.write([(0, f"k{n % 9}", -0.0 if n % 2 else 0.0) for n in range(90)] + [(0, None, float("nan"))])
    schema = "k string, x string, shard int"

    def shards(name: str, **options: Any) -> list[tuple[Any, ...]]:
        out = stateful_map(feed.stream(spark), count, schema, **options)
        with ClockedQuery(out, checkpoint=tmp_path / name) as query:
            return [tuple(row) for row in query.settle()]

    assert len({shard for _, _, shard in shards("one")}) == 1
    by_key = shards("by key", shard_by=["k"])
    assert len({shard for _, _, shard in by_key}) == 2
    assert len({(k, shard) for k, _, shard in by_key}) == 10
    by_number = shards("by number", shard_by=[F.col("x")])
    assert len({shard for _, x, shard in by_number if x != "nan"}) == 1, "0.0 and -0.0 are one"


# Errors.


def failing(rows: DataFrame, tmp_path: Path, function: Any, schema: str = "k string") -> BaseException:
    with (
        ClockedQuery(stateful_map(rows, function, schema), checkpoint=tmp_path / "failing") as query,
        pytest.raises(Exception) as raised,  # noqa: PT011
    ):
        query.settle()
    return raised.value


def parse(text: str) -> int:
    return int(text)


def test_an_error_of_a_function_has_its_file_and_line(spark: SparkSession, tmp_path: Path) -> None:
    def counting(batches: Iterator[pa.RecordBatch], state: State) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            state.put(b"seen", b"1")
            for row in batch.to_pylist():
                parse(row["k"])
            yield batch.select(["k"])

    feed = Feed(tmp_path / "in", "k string")
    feed.write([(0, "not a number")])
    error = failing(feed.stream(spark), tmp_path, counting)
    assert type(error) is FunctionError
    line = parse.__code__.co_firstlineno + 1
    message = str(error)
    assert message.startswith(f"the function failed at {__file__}:{line}, in parse: ValueError: invalid literal"), (
        message
    )
    assert "Traceback (most recent call last)" in message
    assert "FunctionError" in (error.jvm_trace or "") or "MullionException" in (error.jvm_trace or "")

    # The retried batch does not see the state of the failed attempt.
    def mended(batches: Iterator[pa.RecordBatch], state: State) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.RecordBatch.from_pylist([{"k": repr(state.get(b"seen"))}])

    out = stateful_map(feed.stream(spark), mended, "k string")
    with ClockedQuery(out, checkpoint=tmp_path / "failing") as query:
        assert list(map(tuple, query.settle())) == [("None",)]


def test_what_a_function_yields_is_checked(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", "k string")
    feed.write([(0, "a")])

    def yields(name: str, value: Any, schema: str = "k string, n int") -> str:
        error = failing(feed.stream(spark), tmp_path / name, lambda batches, state: value, schema)
        assert type(error) is InvalidArgumentError, error
        return str(error)

    assert "the function returned 5 (int), which is not rows" in yields("a number", [5])
    assert "the function returned the columns 'k', 'm', and the schema has 'k', 'n'" in yields(
        "other columns", [pa.RecordBatch.from_pylist([{"k": "a", "m": 1}])]
    )
    assert "the function returned the column 'n' as string, and the schema has it as int32" in yields(
        "another type", [pa.RecordBatch.from_pylist([{"k": "a", "n": "many"}])]
    )
    assert "key='a' (str) is not bytes" in str(
        failing(feed.stream(spark), tmp_path / "a text", lambda batches, state: state.put("a", b""))
    )
    assert "clock='moon' is neither" in str(
        failing(feed.stream(spark), tmp_path / "a clock", lambda batches, state: state.put_timer(1, b"", "moon"))
    )


def test_columns_are_found_by_name_and_cast_and_nothing_may_come(spark: SparkSession, tmp_path: Path) -> None:
    def odd(batches: Iterator[pa.RecordBatch], state: State) -> Any:
        tables = pa.Table.from_batches(list(batches))
        if tables.num_rows == 1:
            return None
        nulls = pa.Table.from_pydict({"n": pa.nulls(2), "at": pa.nulls(2), "k": ["x", "y"]})
        times = pa.Table.from_pydict({"k": ["z"], "n": [7], "at": pa.array([5_000], pa.timestamp("ms"))})
        return [nulls, times.slice(0, 0), times]

    feed = Feed(tmp_path / "in", "k string")
    out = stateful_map(feed.stream(spark), odd, "k string, n int, at timestamp")
    with ClockedQuery(out.selectExpr("k", "n", "unix_micros(at)"), checkpoint=tmp_path / "checkpoint") as query:
        feed.write([(0, "a")])
        assert query.settle() == []
        feed.write([(0, "a"), (0, "b")])
        assert list(map(tuple, query.settle())) == [("x", None, None), ("y", None, None), ("z", 7, 5 * SECOND)]


def test_what_cannot_be_right_is_rejected_before_the_query_starts(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", "k string")
    rows = feed.stream(spark)
    with pytest.raises(UnsupportedError, match=r"are for streams.*readStream"):
        stateful_map(spark.range(3), running_totals, "k string")
    with pytest.raises(InvalidArgumentError, match=r"function=5 \(int\) is not a function"):
        stateful_map(rows, 5, "k string")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="schema is 7, which is not a schema"):
        stateful_map(rows, running_totals, 7)  # type: ignore[arg-type]
    with pytest.raises(UnknownColumnError, match=r"no column 'kk'\. Did you mean 'k'"):
        stateful_map(rows, running_totals, "k string", shard_by="kk")
    with pytest.raises(InvalidArgumentError, match="shard_by=5 is not a column"):
        stateful_map(rows, running_totals, "k string", shard_by=5)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="which returns different values for the same row"):
        stateful_map(rows, running_totals, "k string", shard_by=F.rand())
    with pytest.raises(UnsupportedError, match=r"columns of the input .* cannot go to Python"):
        stateful_map(rows.select("k", "k"), running_totals, "k string")
    with pytest.raises(InvalidArgumentError, match="There is no state in"):
        read_state(tmp_path, spark=spark)


def test_a_checkpoint_of_other_shards_is_rejected(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", "k string, n bigint")
    feed.write([(0, "a", 1)])

    def query(**options: Any) -> ClockedQuery:
        out = stateful_map(feed.stream(spark), running_totals, "k string, n bigint, total bigint", **options)
        return ClockedQuery(out, checkpoint=tmp_path / "checkpoint")

    with query(shard_by="k") as running:
        running.settle()
    feed.write([(0, "a", 1)])
    for options, difference in (
        ({"shard_by": ["k", "n"]}, r"shard was \[k\] and is now \[k, n\]"),
        ({}, r"shard was \[k\] and is now \[\]"),
    ):
        with query(**options) as running, pytest.raises(IncompatibleStateError, match=difference):
            running.settle()
    with query(shard_by="k") as running:
        assert list(map(tuple, running.settle())) == [("a", 1, 2)]
