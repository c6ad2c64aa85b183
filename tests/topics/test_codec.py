"""Values as bytes and back: reading returns the written values, also of earlier versions."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import enum
import uuid
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mullion import InvalidArgumentError
from mullion._util.codec import arrow, json, values
from mullion.errors import DamagedStateError, MullionError
from mullion.faust import Record, WindowRange


class Colour(enum.Enum):
    RED = "red"


class Page(Record):
    name: str
    views: int = 0


@dataclasses.dataclass(frozen=True)
class Point:
    x: Any
    y: Any = 0


@dataclasses.dataclass
class Counter:
    n: int
    values: list[Any] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        self.n += 1


scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.builds(lambda n, zeros: n * 10**zeros, st.integers(), st.integers(0, 5000))
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.decimals(allow_nan=False)
    | st.uuids()
    | st.dates()
    | st.times()
    | st.datetimes()
    | st.datetimes(timezones=st.just(UTC))
    | st.timedeltas()
    | st.just(Colour.RED)
)
keys = st.recursive(scalars, lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3), max_leaves=4)
anything = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(keys, inner, max_size=3)
        | st.sets(keys, max_size=3)
        | st.builds(Point, inner, inner)
        | st.builds(lambda name, views: Page(name=name, views=views), st.text(), st.integers())
    ),
    max_leaves=12,
)


@given(anything)
def test_any_value_is_again_what_it_was(value: Any) -> None:
    again = values.decode(values.encode(value, "a test"))
    assert again == value
    assert type(again) is type(value)
    assert values.encode(again, "a test") == values.encode(value, "a test")


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (None, b"null"),
        (2**64, b"18446744073709551616"),
        ([1, 2.5, "\u00e9"], '[1,2.5,"\u00e9"]'.encode()),
        ((1, "a"), b'{"!":"tuple","v":[1,"a"]}'),
        ({"!": 1}, b'{"!":"dict","v":[["!",1]]}'),
        ({1: "a"}, b'{"!":"dict","v":[[1,"a"]]}'),
        ({2, 1}, b'{"!":"set","v":[1,2]}'),
        (frozenset("a"), b'{"!":"frozenset","v":["a"]}'),
        (b"\0", b'{"!":"bytes","v":"AA=="}'),
        (float("inf"), b'{"!":"float","v":"inf"}'),
        (Decimal("1.50"), b'{"!":"decimal","v":"1.50"}'),
        (uuid.UUID(int=1), b'{"!":"uuid","v":"00000000-0000-0000-0000-000000000001"}'),
        (datetime(2026, 1, 2, 3, 4, tzinfo=UTC), b'{"!":"datetime","v":"2026-01-02T03:04:00+00:00"}'),
        (date(2026, 1, 2), b'{"!":"date","v":"2026-01-02"}'),
        (time(3, 4), b'{"!":"time","v":"03:04:00"}'),
        (timedelta(seconds=1), b'{"!":"timedelta","v":1000000}'),
    ],
)
def test_the_format_of_values_in_checkpoints_is_unchanged(value: Any, written: bytes) -> None:
    assert values.encode(value, "a test") == written
    assert values.decode(written) == value


def test_a_record_and_a_dataclass_are_kept_by_the_names_of_their_classes_and_fields() -> None:
    assert values.encode(Page(name="a", views=2), "a test") == (
        b'{"!":"record","v":["%s:Page",{"name":"a","views":2}]}' % __name__.encode()
    )
    written = values.encode(Point((1, 2)), "a test")
    assert written == (b'{"!":"dataclass","v":["%s:Point",{"x":{"!":"tuple","v":[1,2]},"y":0}]}' % __name__.encode())
    # A removed field is skipped, and a new one has its default.
    assert values.decode(written.replace(b'"y":0', b'"z":0')) == Point((1, 2), 0)


def test_a_dataclass_comes_back_without_its_constructor() -> None:
    counter = Counter(1, [2])
    again = values.decode(values.encode(counter, "a test"))
    assert again == counter
    assert again.n == 2
    assert values.decode(values.encode(counter, "a test").replace(b',"values":[2]', b"")).values == []


@pytest.mark.parametrize(
    "value",
    [
        collections.Counter("aab"),
        collections.OrderedDict([(2, 1), ("a", (2,))]),
        collections.defaultdict(int, {(1, 2): 3}),
        collections.defaultdict(list, {"a": [1]}),
        collections.defaultdict(None, {}),
        collections.deque([1, (2,)], maxlen=3),
        collections.deque(),
        WindowRange(0.0, 10.0),
        {"a": collections.Counter(x=1)},
    ],
)
def test_collections_and_named_tuples_keep_their_type(value: Any) -> None:
    again = values.decode(values.encode(value, "a test"))
    assert again == value
    assert type(again) is type(value)
    assert getattr(again, "default_factory", None) is getattr(value, "default_factory", None)
    assert getattr(again, "maxlen", None) == getattr(value, "maxlen", None)


def test_a_defaultdict_of_a_function_is_rejected_with_the_factories_that_are_stored() -> None:
    with pytest.raises(InvalidArgumentError, match=r"a test: a defaultdict with the factory <function .* int, float"):
        values.encode(collections.defaultdict(lambda: 0), "a test")


def test_unsupported_values_and_missing_classes_are_rejected() -> None:
    class Own(int):
        pass

    for value in (object(), Own(1), {"a": [lambda: 0]}, range(3)):
        with pytest.raises(InvalidArgumentError, match=r"^a test: .* cannot be kept"):
            values.encode(value, "a test")
    for name in (f"{__name__}:Gone", "no_such_module:Point"):
        with pytest.raises(InvalidArgumentError, match=f"the class '{name}', which does not exist"):
            values.decode(b'{"!":"record","v":["%s",{}]}' % name.encode())


def damaged(written: bytes) -> st.SearchStrategy[bytes]:
    """The bytes with some of them changed, inserted or removed."""

    def change(edit: tuple[int, bytes, int]) -> bytes:
        at, other, gone = edit
        return written[:at] + other + written[at + gone :]

    places = st.integers(0, len(written))
    return st.tuples(places, st.binary(max_size=2), st.sampled_from([0, 1, 2, len(written)])).map(change)


@settings(max_examples=300)
@given(anything.map(lambda value: values.encode(value, "a test")).flatmap(damaged) | st.binary(max_size=40))
def test_bytes_that_are_no_value_are_a_value_or_our_error(written: bytes) -> None:
    with contextlib.suppress(MullionError):
        values.decode(written)


def test_what_cannot_be_read_is_rejected_with_the_reason() -> None:
    for written in (b"", b"\xff", b"[" * 100_000, b'{"!":"x","v":1}', b'{"!":"uuid","v":"7"}', b'{"!":"set","v":[[]]}'):
        with pytest.raises(DamagedStateError, match=r"cannot be read: \w+: .*restore the checkpoint from a copy"):
            values.decode(written)
    gone = b'{"!":"enum","v":["%s:Colour","mauve"]}' % __name__.encode()
    with pytest.raises(DamagedStateError, match=r"'mauve' is not a valid Colour.*If its class has changed"):
        values.decode(gone)


def test_of_a_class_that_is_no_record_nothing_is_made() -> None:
    with pytest.raises(InvalidArgumentError, match="'builtins:list' is kept as a dataclass, and is none"):
        values.decode(b'{"!":"dataclass","v":["builtins:list",{}]}')
    with pytest.raises(InvalidArgumentError, match="'os:PathLike' is kept as a record, and is none"):
        values.decode(b'{"!":"record","v":["os:PathLike",{}]}')
    with pytest.raises(InvalidArgumentError, match="'builtins:print' is kept as an enumeration, and is none"):
        values.decode(b'{"!":"enum","v":["builtins:print","a"]}')


def test_plain_json_names_the_place_of_an_unsupported_value() -> None:
    assert json.dumps({"at": date(2026, 1, 2), "p": (Page(name="a"), {2, 1})}) == (
        b'{"at":"2026-01-02","p":[{"name":"a","views":0},[1,2]]}'
    )
    with pytest.raises(InvalidArgumentError, match=r"value\['a'\]\[1\]=nan has no place in JSON"):
        json.dumps({"a": [1, float("nan")]})


def test_texts_are_read_up_to_a_depth_and_a_length() -> None:
    assert json.read(b'{"a": 1, "a": 2}') == {"a": 2}
    assert json.read(None) is None
    assert json.text_of("\ud800") == '"\\ud800"'
    for text in (b'"\\ud800"', b"[" * 101 + b"]" * 101, b"1" * 1001, b"{} {}", b""):
        with pytest.raises(ValueError):  # noqa: PT011
            json.read(text)


def test_batches_tables_and_schemas_come_back() -> None:
    batch = pa.RecordBatch.from_pydict({"n": [1, None], "s": ["a", "b"]})
    assert arrow.decoded(arrow.encoded(batch)).equals(batch)
    table = pa.Table.from_batches([batch, batch.slice(1)])
    assert arrow.table_in(arrow.encoded(table)).equals(table)
    assert [one.num_rows for one in arrow.batches_in(arrow.buffer_of(table))] == [2, 1]
    assert arrow.schema_of_text(arrow.text_of_schema(batch.schema)).equals(batch.schema)
