"""Conversion of the arguments of ``produce`` to an Arrow table with the types of topics."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
import pyspark.sql.types as T

from mullion._util.clock import Clock, system
from mullion._util.codec.json import MOST_DEPTH, NESTED, is_deep
from mullion.errors import InvalidArgumentError
from mullion.topics import _types

Data: TypeAlias = Iterable[Any] | pa.RecordBatch | pa.Table
"""Rows as dicts, plain values, or an Arrow RecordBatch or Table."""

KEY, TIMESTAMP, COLUMNS = "_key", "_timestamp", "_columns"
HEADERS = "_headers"
"""The optional column of Kafka headers."""

Headers: TypeAlias = Sequence[tuple[str, bytes | None]]
"""The headers of a Kafka record, in order. A name may be repeated."""

HeadersOfRows: TypeAlias = Sequence[Mapping[str, bytes | None] | Headers | None]
"""The headers of each row, as an argument."""

TEXT = "_json"
"""The column of a ``dir:`` topic with the texts of JSON values that do not fit into its other columns."""

RESERVED = (KEY, TIMESTAMP, COLUMNS, TEXT)
"""The columns of a topic's rows in addition to the columns of their values."""

VALUE = "value"
"""The column of plain values."""

TIMESTAMP_TYPE = pa.timestamp("us", tz="UTC")


def values_of(topic: str, data: Data) -> pa.Table:
    """The columns of the values, in Spark's types. Raises :class:`InvalidArgumentError` for other data."""
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    table = data if isinstance(data, pa.Table) else _table_of_rows(topic, data)
    if table.num_rows == 0:
        raise InvalidArgumentError(
            f"There are no rows for topic {topic!r}. A call of produce is a batch of one or more."
        )
    return normal(topic, table)


def normal(topic: str, table: pa.Table, *, apart: bool = True) -> pa.Table:
    """A table with its columns in the types of topics.

    ``apart``: also requires names that Spark distinguishes, and a nesting depth that readers support.
    """
    columns: dict[str, Any] = {}
    kinds: list[T.StructField] = []
    for name, values in zip(table.column_names, table.columns, strict=True):
        require_name(topic, name, columns)
        if apart and _is_deep_type(values.type):
            raise _too_deep(topic, name)
        try:
            kind = _types.of_arrow(values.type)
        except _types.UnstorableError as no_type:
            raise _no_type(topic, name, values.type, no_type) from None
        kinds.append(T.StructField(name, kind))
        alike = _types.alike(T.StructType(kinds)) if apart else None
        if alike is not None:
            raise InvalidArgumentError(f"Topic {topic!r}: {why_alike(alike)}")
        try:
            columns[name] = _types.fit_array(values, _types.arrow_of(kind))
        except pa.ArrowException as error:
            raise InvalidArgumentError(
                f"Topic {topic!r}: column {name!r} has the Arrow type {values.type}, and a value that is no "
                f"{kind.simpleString()}: {error}. Leave it out, or send null for it."
            ) from error
    # Rows without columns still count as rows.
    return pa.table(columns) if columns else table.select([])


def why_alike(names: tuple[str, str]) -> str:
    """The reason why two names of :func:`mullion.topics._types.alike` are invalid."""
    if names[0] == names[1]:
        return f"the column {names[0]!r} is there twice. Rename one of them."
    return (
        f"columns {names[0]!r} and {names[1]!r} differ in case alone, and Spark takes them for one. Write both alike."
    )


def _no_type(topic: str, name: str, kind: object, why: object) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"Topic {topic!r}: column {name!r} has the Arrow type {kind}, and {why} is no type that "
        "Spark reads from Parquet. Cast it, for instance to int64 or string."
    )


def timestamps_of(timestamps: Iterable[float] | None, count: int, clock: Clock | None) -> pa.Array:
    """The rows' times as instants in microseconds, from seconds since the epoch."""
    if timestamps is None:
        return pa.array([(clock or system()).time_us()] * count, TIMESTAMP_TYPE)
    if isinstance(timestamps, (pa.Array, pa.ChunkedArray)):
        timestamps = timestamps.to_pylist()
    if isinstance(timestamps, (int, float, str)) or not isinstance(timestamps, Iterable):
        raise InvalidArgumentError(
            f"timestamps={timestamps!r} is not a list with the time of each row. Write, for all the same, "
            f"timestamps=[{timestamps!r}] * len(data)."
        )
    times = list(timestamps)
    _require_as_many("timestamps", times, count)
    micros = []
    for index, seconds in enumerate(times):
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not math.isfinite(seconds):
            raise InvalidArgumentError(
                f"timestamps[{index}]={seconds!r} ({type(seconds).__name__}) is not a time in seconds since the epoch. "
                "Of a datetime with a time zone, give .timestamp()."
            )
        micros.append(round(seconds * 1_000_000))
    return pa.array(micros, TIMESTAMP_TYPE)


def keys_of(keys: Sequence[str | None] | None, count: int) -> pa.Array:
    """The rows' keys, as text."""
    if keys is None:
        return pa.nulls(count, pa.string())
    if isinstance(keys, (pa.Array, pa.ChunkedArray)):
        keys = keys.to_pylist()
    if isinstance(keys, (str, bytes)) or not isinstance(keys, Iterable):
        raise InvalidArgumentError(
            f"keys={keys!r} is not a list with each row's key. For all the same, write keys=[{keys!r}] * len(data)."
        )
    texts = list(keys)
    _require_as_many("keys", texts, count)
    for index, key in enumerate(texts):
        if key is not None and not isinstance(key, str):
            raise InvalidArgumentError(
                f"keys[{index}]={key!r} ({type(key).__name__}) is not text. Write str(key), or None for none."
            )
    return pa.array(texts, pa.string())


def headers_of(headers: HeadersOfRows | None, count: int) -> list[Headers]:
    """The rows' headers, as text and bytes for Kafka."""
    if headers is None:
        return [()] * count
    if isinstance(headers, (str, bytes, Mapping)) or not isinstance(headers, Iterable):
        raise InvalidArgumentError(
            f"headers={headers!r} is not a list with each row's headers. For all the same, write headers=[{headers!r}] "
            "* len(data)."
        )
    rows = list(headers)
    _require_as_many("headers", rows, count)
    return [_headers(f"headers[{index}]", row) for index, row in enumerate(rows)]


def _headers(where: str, row: Any) -> Headers:
    pairs = list(row.items()) if isinstance(row, Mapping) else [] if row is None else row
    if isinstance(pairs, (str, bytes)) or not isinstance(pairs, Iterable):
        raise InvalidArgumentError(
            f"{where}={row!r} ({type(row).__name__}) is not the headers of a row. Write {{'name': b'bytes'}}, or a "
            "list of pairs, or None for none."
        )
    headers = []
    for pair in pairs:
        match pair:
            case (str(name), (bytes() | None) as value) if _is_name(name):
                headers.append((name, value))
            case _:
                raise InvalidArgumentError(
                    f"{where} has {pair!r}, which is not a name, without NUL, and bytes. Of text, give text.encode()."
                )
    return headers


def _is_name(name: str) -> bool:
    # Half of a surrogate pair has no bytes, and Kafka's client truncates a name at its first NUL.
    return "\0" not in name and not any("\ud800" <= character <= "\udfff" for character in name)


def _table_of_rows(topic: str, data: object) -> pa.Table:
    if isinstance(data, (Mapping, str, bytes)) or not isinstance(data, Iterable):
        raise InvalidArgumentError(
            f"data={data!r} ({type(data).__name__}) is not a list of rows. Write produce(broker, {topic!r}, [data]); "
            "of a pandas DataFrame, give pa.Table.from_pandas(df)."
        )
    return table_of_values(topic, list(data))


def table_of_values(topic: str, rows: list[Any], join: _types.Join = _types.exact_union) -> pa.Table:
    """Values as a table: the fields of records, or plain values in the column ``value``."""
    records = [isinstance(row, Mapping) for row in rows]
    if not any(records):
        return pa.table({VALUE: _array(topic, VALUE, rows, join)} if rows else {})
    if not all(records):
        other = records.index(False)
        raise InvalidArgumentError(
            f"data[{other}]={rows[other]!r} is not a record, and data[{records.index(True)}] is one. Give dicts "
            "alone, or values alone, which go into the column 'value'."
        )
    names = dict.fromkeys(name for row in rows for name in row)
    for name in names:
        require_name(topic, name, ())
    if not names:
        raise InvalidArgumentError(f"The rows for topic {topic!r} have no columns: they are all {{}}.")
    return pa.table({name: _array(topic, name, [row.get(name) for row in rows], join) for name in names})


def _array(topic: str, name: str, values: list[Any], join: _types.Join) -> pa.Array:
    if any(isinstance(value, NESTED) and is_deep(value, MOST_DEPTH) for value in values):
        raise _too_deep(topic, name)
    try:
        kind = _types.of_values(name, values, join)
        return pa.array(_types.values_for(values, kind), _types.arrow_of(kind))
    except _types.UnstorableError as no_type:
        raise _no_type(topic, name, no_type, no_type) from None
    except _REFUSALS as error:
        raise InvalidArgumentError(f"Topic {topic!r}: {_why_no_column(name, values, join)}") from error


_REFUSALS = (_types.ConflictError, pa.ArrowException, OverflowError, TypeError, ValueError)
"""The errors of values that fit no column."""


def _why_no_column(name: str, values: list[Any], join: _types.Join) -> str:
    """A description of two rows without a common type, or of one value without a type."""
    kinds: list[tuple[int, T.DataType]] = []
    for index, value in enumerate(values):
        try:
            kind = _types.of_values(name, [value], join)
            pa.array(_types.values_for([value], kind), _types.arrow_of(kind))
        except _types.ConflictError as conflict:
            return (
                f"data[{index}][{name!r}]={value!r} has {conflict.left.simpleString()} and "
                f"{conflict.right.simpleString()} in {conflict.path!r}, which has one type. Send all as one of them."
            )
        except _REFUSALS:
            return (
                f"data[{index}][{name!r}]={value!r} ({type(value).__name__}) has no column type. Convert it, for "
                "instance with str() or float()."
            )
        for where, other in kinds:
            try:
                join(name, other, kind)
            except _types.ConflictError as conflict:
                return (
                    f"column {conflict.path!r} has one type, and data[{where}] has {values[where]!r} "
                    f"({_types.arrow_of(conflict.left)}) where data[{index}] has {value!r} "
                    f"({_types.arrow_of(conflict.right)}). Send all as one of them."
                )
        if all(kind != other for _, other in kinds):
            kinds.append((index, kind))
    return f"the values of column {name!r} have no type in common."


def require_name(topic: str, name: object, taken: Iterable[str]) -> None:
    """Raises :class:`InvalidArgumentError` for an invalid name of a column, or one that is ``taken``."""
    if not isinstance(name, str) or not name or "\n" in name:
        raise InvalidArgumentError(f"Topic {topic!r}: {name!r} is not a column's name. Use one line of text.")
    if name in RESERVED:
        raise InvalidArgumentError(
            f"Topic {topic!r}: the name {name!r} is the topic's own, which has {', '.join(RESERVED)} of its rows. "
            "Rename the column; for keys and times there are keys= and timestamps=."
        )
    if name in taken:
        raise InvalidArgumentError(f"Topic {topic!r}: the column {name!r} is there twice. Rename one of them.")


DEEPEST = 49
"""The maximum nesting depth of a column: readers of Parquet support 100 levels, and a list has two."""


def _is_deep_type(kind: pa.DataType) -> bool:
    level = [kind]
    for _ in range(DEEPEST + 1):
        level = [of.field(i).type for of in level if pa.types.is_nested(of) for i in range(of.num_fields)]
        if not level:
            return False
    return True


def _too_deep(topic: str, name: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"Topic {topic!r}: column {name!r} has more than {DEEPEST} lists and records in one another, and nobody could "
        "read it again. Send it as text: json.dumps(value)."
    )


def _require_as_many(what: str, values: Sequence[object], count: int) -> None:
    if len(values) != count:
        raise InvalidArgumentError(
            f"{what} has {len(values)} entries for {count} rows. Give as many as there are rows, or leave {what} out."
        )
