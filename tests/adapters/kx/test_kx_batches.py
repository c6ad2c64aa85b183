"""Batches as they cross Spark, and stages over them, without Spark."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from mullion._keyed.memory import MemoryStore
from mullion._util.codec import objects
from mullion.errors import FunctionError, InvalidArgumentError
from mullion.kx import sp
from mullion.kx._operators import Function
from mullion.kx._query.batches import CLOSING, Batch, Meta, as_tables, batches_in, mixed_records, unmixed
from mullion.kx._query.worker import Stage, Step, as_data

TIMES = pa.struct([("start", pa.timestamp("us", "UTC")), ("end", pa.timestamp("us", "UTC"))])


def panes(*firings: tuple[int, int, str, list[int]], kind: pa.DataType = TIMES) -> pa.RecordBatch:
    """Output of the engine: windows with their firing and the values ``v`` of their records."""
    return pa.RecordBatch.from_pydict(
        {
            "window": pa.array([{"start": start, "end": end} for start, end, _, _ in firings], kind),
            "pane": [{"firing": firing, "seq": 0} for _, _, firing, _ in firings],
            "rows": pa.array(
                [[{"v": v} for v in rows] for *_, rows in firings], pa.list_(pa.struct([("v", pa.int64())]))
            ),
        }
    )


def values(batch: Batch) -> Any:
    return batch.data["v"].to_pylist() if isinstance(batch.data, pa.Table) else batch.data


def test_panes_are_a_batch_each_and_late_records_are_one() -> None:
    records = panes(
        (0, 0, "late", [7]), (0, 10, "early", [1, 2]), (0, 0, "late", [8]), (0, 10, "close", []), (10, 20, "close", [3])
    )
    batches = list(batches_in("panes", [records.slice(0, 1), records.slice(1)], 5))
    assert [(values(batch), batch.meta) for batch in batches] == [
        ([1, 2], Meta(5, (0, 10), clocked=True, partial=True)),
        ([], Meta(5, (0, 10), clocked=True)),
        ([3], Meta(5, (10, 20), clocked=True)),
        ([7, 8], Meta(5, late=True)),
    ]
    assert batches[0].meta.shown() == {
        "batch": 5,
        "window": (datetime(1970, 1, 1, tzinfo=UTC), datetime(1970, 1, 1, microsecond=10, tzinfo=UTC)),
        "partial": True,
    }
    assert batches[-1].meta.shown() == {"batch": 5, "late": True}
    numbered = panes((2, 4, "close", [1, 2]), kind=pa.struct([("start", pa.int64()), ("end", pa.int64())]))
    (batch,) = batches_in("panes", [numbered], 0)
    assert batch.meta.shown()["window"] == (2, 4)


def test_batches_are_read_as_they_were_written_in_their_order() -> None:
    one, other = pa.table({"v": [1]}), pa.table({"w": ["a", "b"]})
    batches = [
        Batch(one, Meta(3, (0, 10), True, True)),
        Batch([one, other], Meta(3)),
        Batch(other.slice(0, 0), Meta(3)),
    ]
    written = list(as_tables(batches, 1))
    read: list[Any] = list(batches_in("tables", written[::-1], 9))
    assert [batch.meta for batch in read] == [batch.meta for batch in batches]
    assert read[0].data.equals(one)
    assert [table.to_pylist() for table in read[1].data] == [one.to_pylist(), other.to_pylist()]
    assert read[2].data.schema == other.schema


def test_records_of_mixed_schemas_come_back_as_their_batches() -> None:
    first, second = pa.table({"v": [1, 2]}), pa.table({"w": [1.5]})
    batches = [Batch(first, Meta(0)), Batch([second, second], Meta(0)), Batch(first, Meta(2**40))]
    records = pa.concat_tables(pa.Table.from_batches([each]) for each in mixed_records(batches, 3))
    assert [table.to_pylist() for table in unmixed(records)] == [
        first.to_pylist(),
        second.to_pylist(),
        second.to_pylist(),
        first.to_pylist(),
    ]


def made_by(*operators: Function, records: pa.RecordBatch, store: MemoryStore | None = None) -> list[Any]:
    steps = tuple(Step(operator, f"{operator.kind}_1") for operator in operators)
    return [
        values(batch)
        for batch in Stage("panes", steps).batches([records], 0, MemoryStore() if store is None else store)
    ]


def test_functions_that_call_conversions_of_pykx_get_a_table_that_has_them() -> None:
    records = panes((0, 10, "close", [1, 2]))

    def total(data: Any) -> Any:
        frame = data.pd()
        assert isinstance(frame, pd.DataFrame)
        assert isinstance(data.pa(), pa.Table)
        assert data.py()["v"] == data["v"].to_pylist() == [1, 2]
        assert list(data.np()["v"]) == [1, 2]
        assert (len(data), data.num_rows, pc.sum(data["v"]).as_py()) == (2, 2, 3)
        assert pa.table(data) == data.pa() == data
        return frame.assign(v=frame["v"] * 10)

    assert made_by(sp.map(total), records=records) == [[10, 20]]
    assert made_by(sp.map(lambda data: data if data.pd()["v"].sum() else None), records=records) == [[1, 2]]
    assert made_by(sp.filter(lambda data: data.pd()["v"] > 1), records=records) == [[2]]

    def convert(data: Any) -> Any:
        return getattr(data, "pd")()  # noqa: B009

    with pytest.raises(FunctionError, match=r"no attribute 'pd'. .* write data\.to_pandas\(\), or pandas=True"):
        made_by(sp.map(convert), records=records)


def test_a_window_that_has_shown_all_is_no_batch_but_the_end_of_its_fold() -> None:
    records = panes((0, 10, "early", [1, 2]), (0, 10, CLOSING, []), (10, 20, "close", [3]))
    called: list[int] = []

    def total(data: pa.Table, so_far: int) -> int:
        called.append(len(data))
        return so_far + len(data)

    folded = sp.reduce(total, 0, lambda so_far: {"v": so_far})
    assert made_by(sp.map(lambda data: data), sp.filter(lambda data: len(data) > 0), folded, records=records) == [
        [2],
        [1],
    ]
    assert called == [2, 1]
    summed = sp.accumulate(total, 0, lambda so_far: {"v": so_far})
    assert made_by(summed, records=records) == [[2], [3]]


def test_a_fold_continues_in_the_next_batch_and_starts_again_with_each_window() -> None:
    store = MemoryStore()
    noted = sp.reduce(lambda data, so_far: [*so_far, *data["v"].to_pylist()], [], lambda so_far: {"v": so_far})
    assert made_by(noted, records=panes((0, 10, "early", [1]), (10, 20, "early", [2])), store=store) == []
    assert len(list(store.scan(b""))) == 2
    ended = made_by(
        noted, records=panes((0, 10, "close", [3]), (10, 20, "close", []), (20, 30, "close", [4])), store=store
    )
    assert ended == [[[1, 3]], [[2]], [[4]]]
    assert list(store.scan(b"")) == []


@pytest.mark.parametrize("fail", [lambda: 1 / 0, lambda: sys.exit(3)], ids=["raises", "exits"])
def test_a_function_that_fails_is_named_with_its_line_and_its_window(fail: Any) -> None:
    fired = panes((0, 10, "close", [1]))
    line = fail.__code__.co_firstlineno
    about = r"^The function failed for the window \[1970-01-01T00:00:00Z, 1970-01-01T00:00:00\.000010Z\): "
    steps = (sp.map(lambda data: fail()), sp.filter(lambda data: fail()), sp.reduce(lambda data, so_far: fail(), 0))
    for operator in (*steps, sp.reduce(lambda data, so_far: 1, 0, lambda so_far: fail())):
        with pytest.raises(FunctionError, match=rf"{about}{operator.kind}_1 \(.*\) raised .*, at {__file__}:{line}: "):
            made_by(operator, records=fired)


@pytest.mark.parametrize(
    ("result", "rows"),
    [
        (pa.table({"x": [1]}), [{"x": 1}]),
        (pa.RecordBatch.from_pydict({"x": [1]}), [{"x": 1}]),
        ({"x": 1}, [{"x": 1}]),
        ([{"x": 1}, {"x": 2}], [{"x": 1}, {"x": 2}]),
        (5, [{"value": 5}]),
        ("text", [{"value": "text"}]),
        ([1, 2], [{"value": 1}, {"value": 2}]),
        (pa.array([1.5]), [{"value": 1.5}]),
        ([], []),
    ],
)
def test_what_functions_give_is_a_table(result: Any, rows: list[dict[str, Any]]) -> None:
    table = as_data(result, "f")
    assert isinstance(table, pa.Table)
    assert table.to_pylist() == rows
    assert as_data(None, "f") is None


def test_stored_values_are_read_as_they_were() -> None:
    for value in (5, None, (1, 2), {"a": [1.5, float("inf")]}, {1: {2, 3}}, datetime(2026, 1, 1, tzinfo=UTC), "x"):
        assert objects.decode(objects.encode(value, "it")) == value
    table = pa.table({"x": [1, 2]})
    assert objects.decode(objects.encode(table, "it")).equals(table)
    with pytest.raises(InvalidArgumentError, match=r"the accumulator of m .*cannot be kept.*\.item\(\)"):
        objects.encode({"x": object()}, "the accumulator of m")


def test_columns_are_cast_only_where_values_stay_what_they_are() -> None:
    schema = pa.schema([("v", pa.int64()), ("x", pa.float64()), ("s", pa.string())])
    first = {"s": pa.array(["a"], pa.large_string()), "v": pa.array([1], pa.int32()), "x": pa.nulls(1)}

    def records(columns: dict[str, pa.Array]) -> list[dict[str, Any]]:
        step = Step(sp.map(lambda data: pa.table(columns)), "map_1")
        stage = Stage("panes", (step,), "rows", schema=schema)
        return [row for batch in stage([panes((0, 10, "close", [1]))]) for row in batch.to_pylist()]

    assert records(first) == [{"v": 1, "x": None, "s": "a"}]
    about = r"^The function failed for the window \[1970-01-01T00:00:00Z, 1970-01-01T00:00:00\.000010Z\): map_1 \(.*\) "
    for column, wrong in (("v", pa.array([1.0])), ("v", pa.array(["1"])), ("x", pa.array([1])), ("s", pa.array([1]))):
        with pytest.raises(FunctionError, match=rf"{about}returned the column '{column}' as .*, and the next window"):
            records(first | {column: wrong})
    with pytest.raises(FunctionError, match=rf"{about}returned the columns 's', 'v', and .*schema="):
        records({name: first[name] for name in ("s", "v")})
