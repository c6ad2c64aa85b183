"""The conversion of Python values to bytes and back."""

from __future__ import annotations

import contextlib
import json
import math
import random
import re
import typing
from array import array
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, Flag
from fractions import Fraction
from ipaddress import ip_address, ip_interface, ip_network
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pandas
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mullion import InvalidArgumentError
from mullion.bytewax._values import values
from mullion.bytewax._values.reader import records
from mullion.bytewax._values.values import decode, encode
from mullion.errors import MullionError


@dataclass
class Plain:
    x: int
    y: Any = None


@dataclass(frozen=True, slots=True)
class Slotted:
    x: int
    y: Any = None


@dataclass(slots=True)
class Thawed:
    x: int
    y: Any = None


class Colour(Enum):
    RED = 1
    BLUE = ("b", 2)


class Right(Flag):
    READ = 1
    WRITE = 2


class Pair(typing.NamedTuple):
    a: int
    b: str


class Words(list[str]):
    pass


class Moment(datetime):
    def __new__(cls, *parts: Any, **rest: Any) -> Any:
        return super().__new__(cls, *(parts or (2024, 1, 1)), **rest)


WORDS = Words(["a"])
VALUES: list[Any] = [
    *(1, -1, 2**70, -(2**63), True, 2.5, float("inf"), -0.0, None, 1j, "a", "\ud800", "", b"x", bytearray(b"z")),
    *((), (1,), (1, "a"), ((1,), [2]), [], [1, [2]], {}, {"a": 1}, {1: 2, "1": 3}, {(1, 2): {3}}, set(), {1, 2}),
    *(frozenset({1}), {"a": {"b": (1, None)}}, range(1, 9, 2), int, Plain),
    *(datetime(2022, 1, 1), datetime(2022, 1, 1, tzinfo=UTC), datetime.min, datetime.max.replace(tzinfo=UTC)),
    *(datetime(2022, 1, 1, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=2), "X")), timezone(timedelta(0), "GMT")),
    *(datetime(2022, 10, 30, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Paris")), timedelta(-1, 2, 3), date(2022, 1, 1)),
    *(time(1, 2, fold=1), time(1, tzinfo=UTC), Decimal("1.20"), Decimal("NaN"), UUID(int=7), Fraction(1, 3)),
    *(Plain(1, Plain(2)), Slotted(1, [1]), Colour.RED, Colour.BLUE, Right.READ | Right.WRITE, Pair(1, "b"), WORDS),
    *(Moment(tzinfo=UTC), PurePosixPath("/a"), Path("a/b"), slice(1, None), array("d", [1.0]), ip_address("::1")),
    *(ip_network("10.0.0.0/8"), ip_interface("10.0.0.1/8")),
    *(Counter("aab"), defaultdict(list, {"a": [1]}), deque([1, 2], 3), OrderedDict(b=1, a=2), SimpleNamespace(a=1)),
]


def same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and repr(one) == repr(other)


def test_values_are_read_as_they_were_written_alone_and_together() -> None:
    assert all(map(same, decode(encode(VALUES)), VALUES))
    for value in VALUES:
        assert all(same(read, value) for read in decode(encode([value] * 30))), value
        assert same(decode(encode([value]))[0], value)


_LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary(), st.datetimes(), st.decimals()
)
_NESTED = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        st.lists(inner),
        st.tuples(inner, inner),
        st.dictionaries(st.text(), inner),
        st.dictionaries(st.integers(), inner),
        st.builds(Plain, st.integers(), inner),
    ),
    max_leaves=8,
)


@given(st.lists(_NESTED, max_size=40))
def test_any_values_are_read_as_they_were_written(values: list[Any]) -> None:
    assert list(map(repr, decode(encode(values)))) == list(map(repr, values))


def test_numbers_and_tables_of_other_libraries_cross() -> None:
    np = pytest.importorskip("numpy")
    table = pa.table({"a": [1, 2]})
    values = [np.float32(1.5), np.arange(6).reshape(2, 3), table, table.to_batches()[0]]
    read = decode(encode(values))
    assert same(read[0], values[0])
    assert (read[1] == values[1]).all()
    assert read[2].equals(table)
    assert isinstance(read[3], pa.RecordBatch)


class CodeError(Exception):
    """An error whose ``__init__`` takes other arguments than it passes on."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


@pytest.mark.parametrize("error", [ValueError("bad", 1), OSError(2, "none"), KeyError(), CodeError("bad", 3)])
def test_errors_cross(error: Exception) -> None:
    (decoded,) = decode(encode([error]))
    assert type(decoded) is type(error)
    assert (decoded.args, vars(decoded), str(decoded)) == (error.args, vars(error), str(error))


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Paris", "UTC+02:30", ZoneInfo("Europe/Paris"), UTC])
def test_times_of_pandas_cross(zone: Any) -> None:
    for naive in (pandas.Timestamp("2024-01-01T00:00:00.123456789"), pandas.Timestamp("2024-07-01").as_unit("s")):
        value = naive if zone is None else naive.tz_localize(zone)
        (decoded,) = decode(encode([value]))
        assert type(decoded) is type(value)
        assert (decoded, decoded.unit, decoded.tz) == (value, value.unit, value.tz)


_ZONED = pandas.date_range("2024-03-31", periods=3, freq="h", tz="Europe/Paris")


@pytest.mark.parametrize(
    "value",
    [
        *(pandas.NaT, pandas.NA, pandas.Interval(1, 2, "both"), pandas.Period("2024-01", "M")),
        *(pandas.Timedelta("1s 3ns"), pandas.Timedelta(-5, "s").as_unit("s")),
    ],
)
def test_scalars_of_pandas_cross(value: Any) -> None:
    for decoded in (*decode(encode([value])), decode(encode([("a", value)]))[0][1]):
        assert type(decoded) is type(value)
        assert decoded is value or decoded == value
        assert getattr(decoded, "unit", None) == getattr(value, "unit", None)


@pytest.mark.parametrize(
    "series",
    [
        pandas.Series([1.5, None], name="x"),
        pandas.Series(["a", None, 3, [1], (1, 2), float("nan")], dtype=object, name=("a", 1)),
        pandas.Series([1, None], dtype="Int64", index=["a", "b"]),
        pandas.Series(_ZONED, index=_ZONED),
        pandas.Series(["a", "b", "a"], dtype="category"),
        pandas.Series(["a", None], dtype="string"),
        pandas.Series(["a", None], dtype="string[pyarrow]"),
        pandas.Series([1, 2], dtype="int64[pyarrow]"),
        pandas.Series([], dtype=float),
        pandas.Series([], dtype=object),
        pandas.Series([1, 2], index=pandas.MultiIndex.from_tuples([("a", 1), ("b", 2)], names=["k", "n"])),
        pandas.Series([1, 2], index=pandas.CategoricalIndex(["a", "b"], ordered=True)),
        pandas.Series([1, 2], index=pandas.Index([("a", 1), ("b", 2)], tupleize_cols=False)),
        pandas.Series(pandas.to_timedelta([1, 2], "s")),
        pandas.Series(pandas.period_range("2024-01", periods=2, freq="M")),
        pandas.Series(pandas.interval_range(0, 2)),
    ],
    ids=lambda series: str(series.dtype),
)
def test_series_of_pandas_cross(series: Any) -> None:
    (decoded,) = decode(encode([series]))
    pandas.testing.assert_series_equal(decoded, series, check_freq=False)
    pandas.testing.assert_index_equal(decode(encode([series.index]))[0], series.index)


@pytest.mark.parametrize(
    "frame",
    [
        pandas.DataFrame({"a": [1, 2], "b": ["x", None], "c": [pandas.NaT, pandas.Timestamp("2024-01-01")]}),
        pandas.DataFrame(),
        pandas.DataFrame({1: [1.0]}),
        pandas.DataFrame([[1, "a"]], columns=["a", "a"]),
        pandas.DataFrame(index=["a", "b"]),
    ],
    ids=lambda frame: str(frame.shape),
)
def test_data_frames_of_pandas_cross(frame: Any) -> None:
    (decoded,) = decode(encode([frame]))
    pandas.testing.assert_frame_equal(decoded, frame)


def test_a_dtype_that_its_name_does_not_identify_is_named() -> None:
    series = pandas.Series([{"a": 1}], dtype=pandas.ArrowDtype(pa.struct([("a", pa.int64())])))
    with pytest.raises(InvalidArgumentError, match=r"A Series of pandas with the dtype struct<a: int64>.* astype"):
        encode([series])


@pytest.mark.parametrize("value", [json.loads, len, math.sqrt, re.compile("a+", re.I), re.compile(b"x"), re.sub])
def test_functions_that_can_be_imported_and_patterns_cross(value: Any) -> None:
    assert decode(encode([value, value])) == [value, value]


@pytest.mark.parametrize("name", ["json:JSONDecoder", "json:missing", "missing_module:f"])
def test_bytes_name_functions_only(name: str) -> None:
    written = encode([json.loads]).replace(b"json:loads", name.encode())
    head = written[4:]
    with pytest.raises(InvalidArgumentError, match=name):
        decode(len(head).to_bytes(4, "big") + head)


@pytest.mark.parametrize("name", ["builtins:print", "subprocess:Popen"])
def test_bytes_call_no_class_that_they_name(name: str) -> None:
    for node in (["p", name, ["t", [["s", ["x"]]]], None, None, None], ["e", name, ["s", ["x"]]]):
        head = json.dumps([1, node, []]).encode()
        with pytest.raises(MullionError, match=name):
            decode(len(head).to_bytes(4, "big") + head)


def test_an_object_of_a_class_without_its_slots_is_one_with_them() -> None:
    """A class that is sent by value has a dict in the place of its slots."""
    written = encode([Plain(1, [2])]).replace(b":Plain", b":Thawed")
    head = written[4:]
    (decoded,) = decode(len(head).to_bytes(4, "big") + head)
    assert decoded == Thawed(1, [2])


@pytest.mark.parametrize("value", [[].append, lambda: 1, random.Random(), iter(()), Slotted])
def test_an_unsupported_value_is_named(value: Any) -> None:
    if value is Slotted:
        ring: list[Any] = []
        ring.append(ring)
        value = ring
    with pytest.raises(InvalidArgumentError, match=r"sent between steps"):
        encode([(1, value)])


def test_a_missing_class_is_named() -> None:
    written = encode([Plain(1)]).replace(b":Plain", b":Gone1")
    with pytest.raises(InvalidArgumentError, match="Gone1"):
        decode(written)


@settings(max_examples=300)
@given(st.lists(_NESTED, max_size=5).map(values.encode), st.data())
def test_bytes_that_are_no_values_are_values_or_our_error(written: bytes, data: st.DataObject) -> None:
    at, gone = data.draw(st.integers(0, len(written))), data.draw(st.sampled_from([0, 1, 2, len(written)]))
    other = written[:at] + data.draw(st.binary(max_size=2)) + written[at + gone :]
    _read_all_ways(other)


def test_bytes_of_values_of_many_kinds_with_a_changed_or_missing_byte_are_values_or_our_error() -> None:
    # These values are split into parts of a column. A changed byte may announce fewer parts than there are.
    for written in (encode([0, 0, 0, {"": None}, {}]), encode([(1, "a"), [2.5], None, {"b": b"c"}])):
        for at in range(len(written)):
            for changed in (b"", b"0", b"1", b"9"):
                for gone in (0, 1, 2):
                    _read_all_ways(written[:at] + changed + written[at + gone :])


def _read_all_ways(written: bytes) -> None:
    for read in (values.decode, values.decode_one, lambda data: values.decode_columns(data, 2)):
        with contextlib.suppress(MullionError):
            read(written)


@pytest.mark.parametrize("count", range(8))
def test_dicts_of_any_number_of_keys_come_back_in_their_order(count: int) -> None:
    rows = [{f"key {key}": (key, row) for key in range(count)} for row in range(20)]
    assert [list(decoded.items()) for decoded in decode(encode(rows))] == [list(row.items()) for row in rows]
    if count:
        with pytest.raises(ValueError, match=r"unpack|shorter|longer"):
            records(list(rows[0]), [tuple(rows[0].values())[1:]])
