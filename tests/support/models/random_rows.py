"""Random rows of random types, and their comparison in all forms that they have on their way through topics."""

from __future__ import annotations

import base64
import datetime
import decimal
import math
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from mullion import topics
from mullion.errors import InvalidArgumentError

UTC = datetime.UTC
EPOCH = datetime.datetime(1970, 1, 1)


def random_type(rng: random.Random, depth: int = 2) -> pa.DataType:
    """A random type of a caller's data; topics do not support all of them."""
    if depth and rng.random() < 0.4:
        inner = random_type(rng, depth - 1)
        match rng.randrange(5):
            case 0:
                return pa.list_(inner)
            case 1:
                return pa.large_list(inner)
            case 2:
                return pa.map_(pa.string(), inner)
            case _:
                return pa.struct([(name, random_type(rng, depth - 1)) for name in "xyz"[: rng.randrange(4)]])
    return rng.choice(
        [
            pa.null(),
            pa.bool_(),
            pa.int8(),
            pa.int32(),
            pa.int64(),
            pa.uint16(),
            pa.uint64(),
            pa.float16(),
            pa.float32(),
            pa.float64(),
            pa.decimal128(rng.randrange(20, 39), rng.randrange(20)),
            pa.string(),
            pa.large_string(),
            pa.string_view(),
            pa.binary(),
            pa.binary(2),
            pa.date32(),
            pa.timestamp(rng.choice(["s", "ms", "us", "ns"])),
            pa.timestamp(rng.choice(["s", "us", "ns"]), rng.choice(["UTC", "Europe/Vienna"])),
            pa.dictionary(pa.int32(), pa.string()),
            pa.duration("s"),
            pa.time64("us"),
        ]
    )


def random_value(rng: random.Random, kind: pa.DataType) -> Any:
    """A random value of a type, as a Python object."""
    types = pa.types
    if types.is_null(kind) or rng.random() < 0.2:
        return None
    if types.is_struct(kind):
        return {field.name: random_value(rng, field.type) for field in kind}
    if types.is_map(kind):
        names = rng.sample(["a", "ö", "", "a b"], rng.randrange(1, 4))
        return [(name, random_value(rng, kind.item_type)) for name in names]
    if types.is_list(kind) or types.is_large_list(kind):
        return [random_value(rng, kind.value_type) for _ in range(rng.randrange(3))]
    if types.is_boolean(kind):
        return rng.random() < 0.5
    if types.is_integer(kind):
        bits = kind.bit_width
        low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if types.is_signed_integer(kind) else (0, 2**bits - 1)
        return rng.choice([0, 1, low, high, rng.randint(low, high)])
    if types.is_float16(kind):
        return rng.choice([0.0, 0.5, -2.0])
    if types.is_floating(kind):
        return rng.choice([0.0, -0.5, 2.0**-20, 3.0, math.inf, -math.inf, math.nan])
    if types.is_decimal(kind):
        digits = rng.randint(1, kind.precision)
        return decimal.Decimal(rng.randrange(10**digits)).scaleb(-kind.scale, decimal.Context(prec=60))
    if types.is_binary(kind) or types.is_fixed_size_binary(kind):
        return rng.choice([b"\x00\xff", b"ab"])
    if types.is_date(kind):
        return EPOCH.date() + datetime.timedelta(days=rng.randint(-1000, 30_000))
    if types.is_timestamp(kind):
        unit = {"s": 1_000_000, "ms": 1000}.get(kind.unit, 1)
        at = EPOCH + datetime.timedelta(microseconds=rng.randint(0, 4 * 10**15) // unit * unit)
        return at.replace(tzinfo=UTC) if kind.tz else at
    if types.is_duration(kind):
        return datetime.timedelta(seconds=rng.randrange(100))
    if types.is_time(kind):
        return datetime.time(rng.randrange(24))
    return rng.choice(["", "a", 'ö"\\', "1", "null", "a\nb", "2024-01-01"])


def random_call(rng: random.Random, columns: dict[str, pa.DataType]) -> pa.Table | list[dict[str, Any]]:
    """The rows of a call of ``produce``: some of the columns, as an Arrow table or as dicts, which may not match."""
    names = rng.sample(list(columns), rng.randint(1, len(columns)))
    kinds = {name: columns[name] if rng.random() < 0.95 else random_type(rng) for name in names}
    rows = rng.randint(1, 4)
    values = {name: [random_value(rng, kind) for _ in range(rows)] for name, kind in kinds.items()}
    if rng.random() < 0.5:
        return pa.table({name: pa.array(values[name], kind) for name, kind in kinds.items()})
    return [{name: plain(values[name][row], kinds[name]) for name in names} for row in range(rows)]


def plain(value: Any, kind: pa.DataType) -> Any:
    """A value as a caller writes it in a dict: without maps, which look like records in Python."""
    if value is None:
        return None
    if pa.types.is_map(kind):
        return {key: plain(inner, kind.item_type) for key, inner in value}
    if pa.types.is_struct(kind):
        return {field.name: plain(value[field.name], field.type) for field in kind}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [plain(inner, kind.value_type) for inner in value]
    return value


def accepted_calls(
    rng: random.Random, calls: int, produce: Callable[[pa.Table | list[dict[str, Any]]], None]
) -> list[dict[str, Any]]:
    """The rows of all random calls that raised no error, in order."""
    columns = {f"c{number}": random_type(rng) for number in range(12)}
    rows: list[dict[str, Any]] = []
    for _ in range(calls):
        call = random_call(rng, columns)
        try:
            produce(call)
        except InvalidArgumentError:
            continue
        rows += rows_of(call)
    return rows


def streamed(stream: DataFrame, checkpoint: Path) -> list[dict[str, Any]]:
    """All rows of a stream, as Python values of Arrow."""
    rows: list[dict[str, Any]] = []
    query = (
        stream.writeStream.foreachBatch(lambda batch, _: rows.extend(batch.toArrow().to_pylist()))
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return rows


def publish(
    spark: SparkSession, home: Path, tables: Sequence[pa.Table], publisher: topics.Publisher, topic: str
) -> None:
    """Publishes tables to a topic by a query, one after the other."""
    batches = [topics.encoded(table.combine_chunks().to_batches()[0]) for table in tables]

    def outputs(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in rows:
            for number in batch["n"].to_pylist():
                yield pa.RecordBatch.from_pydict({"topic": [topic], "key": ["k"], "batch": [batches[number]]})

    source = topics.DirBroker(home / "numbers")
    topics.produce(source, "numbers", [{"n": number} for number in range(len(batches))])
    query = (
        source.stream(spark, "numbers")
        .select("n")
        .mapInArrow(outputs, topics.OUTPUTS)
        .writeStream.foreachBatch(publisher.publish)
        .option("checkpointLocation", str(home / "publishing"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def rows_of(data: pa.Table | list[dict[str, Any]]) -> list[dict[str, Any]]:
    return data.to_pylist() if isinstance(data, pa.Table) else data


def same(left: Any, right: Any) -> bool:
    """True if two values are equal. One may have a wider type; a record of nulls equals null."""
    left, right = _bare(left), _bare(right)
    if isinstance(left, dict) and isinstance(right, dict):
        return all(same(left.get(name), right.get(name)) for name in {*left, *right})
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float) or isinstance(right, float):
        numbers = all(isinstance(one, (int, float, decimal.Decimal)) and one is not True for one in (left, right))
        # Arrow and Spark convert decimals to floats that differ in the last digit.
        return numbers and (math.isclose(left, right, rel_tol=1e-12) or (math.isnan(left) and math.isnan(right)))
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return bool(left == right)


def _bare(value: Any) -> Any:
    if isinstance(value, list) and value and all(isinstance(one, tuple) for one in value):
        value = dict(value)
    if isinstance(value, dict):
        value = {name: bare for name, inner in value.items() if (bare := _bare(inner)) is not None}
        return value or None
    if isinstance(value, (bytes, bytearray)):
        return bytes(value)
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return value.astimezone(UTC)
    return value


def as_json(value: Any) -> Any:
    """A value as a reader of plain JSON sees it."""
    match _bare(value):
        case dict() as fields:
            return {name: as_json(inner) for name, inner in fields.items()}
        case list() as of:
            return [as_json(inner) for inner in of]
        case datetime.datetime() as at if at.tzinfo is not None:
            return at.isoformat().replace("+00:00", "Z")
        case datetime.date() as day:
            return day.isoformat()
        case decimal.Decimal() as number:
            return float(number)
        case bytes() as of_bytes:
            return base64.b64encode(of_bytes).decode()
        case bare:
            return bare
