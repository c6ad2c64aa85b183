"""The meaning of a topic's bytes: valid or invalid JSON, records or plain values, and the values of columns."""

from __future__ import annotations

import decimal
import random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from mullion._util.codec.json import read as read_json
from mullion.errors import InvalidArgumentError
from mullion.topics import _json
from mullion.topics._broker import UNFIT
from mullion.topics._kafka import stream_rows
from mullion.topics._schemas import spark_schema
from tests.support.seeds import SEED

# One worker of pytest runs all of these tests, with one broker.
TEXTS: list[tuple[bytes, Any]] = [
    (b'{"a":1}', {"a": 1}),
    (b' \r\n\t{"a" : 1 , "b":{}} \n', {"a": 1, "b": None}),
    (b"{}", {}),
    (b"null", {}),
    (b'{"a":null}', {"a": None}),
    (b'{"a":1,"a":2}', {"a": 2}),
    (b'{"\\u0061":3}', {"a": 3}),
    (b'{"t":"\\ud83d\\ude00 \\/ \xc3\xb6 \\n"}', {"t": "😀 / ö \n"}),
    (b'{"f":1e999}', {"f": float("inf")}),
    (b'{"f":-0.5E-1}', {"f": -0.05}),
    (b'{"f":-Infinity}', {"f": float("-inf")}),
    (b'{"z":' + 99 * b"[" + 99 * b"]" + b"}", {"z": ...}),
    (b"", None),
    (b" ", None),
    (b'{"a":1}{"a":2}', None),
    (b'{"a":1} trailing', None),
    (b'{"a":1}]', None),
    (b'{"a":1},{"a":2}', None),
    (b"{'a':1}", None),
    (b"{a:1}", None),
    (b'{"a":1,}', None),
    (b'{"a" 1}', None),
    (b'{"a":[1,]}', None),
    (b'{"a":01}', None),
    (b'{"a":1.}', None),
    (b'{"a":.5}', None),
    (b'{"a":+1}', None),
    (b'{"a":1e}', None),
    (b'{"f":INF}', None),
    (b'{"f":-INF}', None),
    (b'{"f":+Infinity}', None),
    (b'{"a":tru}', None),
    (b'{"a":1', None),
    (b'{"t":"x', None),
    (b'{"t":"\\x"}', None),
    (b'{"t":"\\u12"}', None),
    (b'{"t":"\\ud800"}', None),
    (b'{"t":"\\ude00"}', None),
    (b'{"t":"\\ud800\\u0061"}', None),
    (b'{"t":"a\nb"}', None),
    (b'{"t":"\xff"}', None),
    (b'{"t":"\xed\xa0\x80"}', None),
    (b'\xef\xbb\xbf{"a":1}', None),
    ('{"a":1}'.encode("utf-16"), None),
    (b'{"a":1}/* comment */', None),
    (b'{"f":0.' + 1000 * b"0" + b"}", None),
    (b'{"z":' + 100 * b"[" + 100 * b"]" + b"}", None),
    (b'{"z":' + 5000 * b"[" + 5000 * b"]" + b"}", None),
]
"""Texts and their records; ``None``: invalid JSON."""


def records_of(spark: SparkSession, texts: list[bytes | None]) -> DataFrame:
    rows = [(None, text, number, 0) for number, text in enumerate(texts)]
    records = spark.createDataFrame(rows, "key binary, value binary, offset bigint, partition int")
    return records.withColumn("timestamp", F.timestamp_seconds(F.lit(0))).coalesce(1)


def looked_at(spark: SparkSession, texts: list[bytes | None], kind: StructType) -> DataFrame:
    """The stream of these texts. ``_unfit`` has the texts that would stop it."""
    rows = stream_rows.checked_rows(spark, "texts", records_of(spark, texts), kind)
    unfit = F.when(F.col("_no_json") | F.col("_odd"), F.make_valid_utf8("_text"))
    return rows.select(*stream_rows.columns_of("_parsed", kind), "_columns", unfit.alias(UNFIT))


def test_both_readers_take_the_same_texts_for_json_and_for_the_same_records(spark: SparkSession) -> None:
    kinds = spark_schema("a bigint, b struct<x: int>, t string, f double, z string")
    stream = looked_at(spark, [text for text, _ in TEXTS], kinds)
    for (text, expected), row in zip(TEXTS, stream.collect(), strict=True):
        try:
            read = read_json(text)
        except ValueError:
            assert expected is None, text[:80]
            assert row[UNFIT] is not None, text[:80]
            continue
        assert expected is not None, text[:80]
        assert row[UNFIT] is None, text[:80]
        for name in kinds.names:
            wanted = expected.get(name)
            had = row[name].asDict() if isinstance(row[name], Row) else row[name]
            if wanted is ...:
                assert had is not None
            elif name == "b":
                assert (had or {}).get("x") is None
            else:
                assert (read or {}).get(name) == had == wanted, text[:80]
            assert (f"\n{name}\n" in (row["_columns"] or "")) == (name in (read or {}))


def damaged_texts(rng: random.Random) -> list[bytes]:
    """Messages that are almost JSON or far from it: truncated and changed bytes, deep, long, and invalid in Unicode."""
    valid = [text for text, expected in TEXTS if expected is not None]
    texts = [bytes(rng.randrange(256) for _ in range(rng.randrange(30))) for _ in range(200)]
    for _ in range(1200):
        text = bytearray(rng.choice(valid))
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(text) + 1)
            text[at : at + rng.randrange(3)] = bytes(
                rng.choice(b'{}[]",:\\ud8 0a1e.-\xff\xc3\n') for _ in range(rng.randrange(3))
            )
        texts.append(bytes(text))
    odd = ["\ufeff", "\u202e", "\u0000", "\ud7ff", "\U0010ffff", "e\u0301", "\u2028", "\ufffe"]
    texts += [f'{{"t": "{text}", "a": 1}}'.encode() for text in odd]
    texts += [b'{"t":"' + b"x" * 900_000 + b'"}', b'{"a":' + b"9" * 5_000 + b"}", b" " * 100_000, b"[" * 100_000]
    return texts


def test_messages_of_random_bytes_are_read_or_reported_and_none_is_skipped(spark: SparkSession) -> None:
    seed = SEED
    texts = damaged_texts(random.Random(seed))
    kinds = spark_schema("a bigint, b struct<x: int>, t string, f double, z string")
    strict = looked_at(spark, list(texts), kinds).select(UNFIT).collect()
    records = records_of(spark, list(texts))
    lenient = stream_rows.rows_as_sent(spark, "texts", records, kinds, scalar=False).select(UNFIT).collect()
    as_text = stream_rows.raw_rows(records).select("value").collect()
    assert len(strict) == len(lenient) == len(as_text) == len(texts)
    for text, row, sent, plain in zip(texts, strict, lenient, as_text, strict=True):
        try:
            read = read_json(text)
        except ValueError:
            assert row[UNFIT] is not None, f"{text[:80]!r} seed {seed}"
            assert sent[UNFIT] is not None, f"{text[:80]!r} seed {seed}"
        else:
            if isinstance(read, dict) and set(read) == {"t"} and isinstance(read["t"], str):
                assert row[UNFIT] is None, f"{text[:80]!r} seed {seed}"
        is_text = text.decode("utf-8", "replace").encode() == text
        assert plain["value"] == (text.decode() if is_text else "\0bytes:" + text.hex().upper())


def test_plain_values_are_one_value_each_and_an_object_is_a_record(spark: SparkSession) -> None:
    texts = [b"5", b' "x" ', b"null", None, b'{"value": 7}', b'5,"value":6', b"5 6", b"", b"5}", b'"x']
    stream = looked_at(spark, list(texts), spark_schema("value string"))
    assert [(row["value"], row[UNFIT]) for row in stream.collect()] == [
        ("5", None),
        ("x", None),
        (None, None),
        (None, None),
        ("7", None),
        *((None, text.decode()) for text in texts[5:] if text is not None),
    ]


def test_a_field_without_a_type_holds_nothing_and_a_value_in_it_stops_the_query(spark: SparkSession) -> None:
    kind = spark_schema("meta void, amount bigint, at struct<x: void>, tags array<void>, of map<string, void>")
    nothing = [b'{"meta": null, "amount": 5}', b'{"meta": {}, "amount": 5, "at": {"x": {}}, "tags": [null, {}]}']
    more = [
        b'{"meta": {"amount": 7}, "amount": 5}',
        b'{"meta": {"x": 1}, "amount": 5}',
        b'{"meta": {"x": null}, "amount": 5}',
        b'{"meta": "{}", "amount": 5}',
        b'{"meta": 0, "amount": 5}',
        b'{"amount": 5, "at": {"x": [1]}}',
        b'{"amount": 5, "tags": [null, {"amount": 8}]}',
        b'{"amount": 5, "of": {"a": {"b": 1}}}',
    ]
    parsed = looked_at(spark, [*nothing, *more], kind)
    rows = parsed.select("amount", UNFIT).collect()
    assert [tuple(row) for row in rows[:2]] == [(5, None)] * 2
    assert [row[UNFIT] for row in rows[2:]] == [text.decode() for text in more]
    assert [field.dataType for field in parsed.schema][:5] == [field.dataType for field in kind]

    strict = stream_rows.parsed_rows(spark, "void", records_of(spark, [*nothing, more[0]]), kind)
    message = (
        r"Topic 'void': the value at offset 2 of partition 0 does not fit the topic's columns: \{\"meta\": .* schema="
    )
    with pytest.raises(Exception, match=message):
        strict.select("amount").collect()
    strict = stream_rows.parsed_rows(spark, "void", records_of(spark, [b"{} {}"]), kind)
    with pytest.raises(Exception, match=r"Topic 'void': the value at offset 0 of partition 0 is not JSON: \{\} \{\}"):
        strict.select("amount").collect()


def test_a_number_with_more_digits_than_its_decimal_does_not_fit_and_is_not_rounded(spark: SparkSession) -> None:
    kind = spark_schema(
        "d decimal(5, 2), s struct<d: decimal(38, 38)>, l array<decimal(9, 0)>, m map<string, decimal(4, 1)>, f double"
    )
    fits = [
        (b'{"d": 1.50, "f": 1.23456}', "1.50"),
        (b'{"d": 15e-1, "s": {"d": 0.00000000000000000000000000000000000001}}', "1.50"),
        (b'{"d": "1.500", "l": [1, 2.0, null, 1e3], "m": {"a": 0.5, "b": null}}', "1.50"),
        (b'{"d": null, "of": 1.2345}', None),
        (b'{"d": -999.99}', "-999.99"),
    ]
    odd = [
        b'{"d": 1.505}',
        b'{"d": 1.5000000000000000000000000000000000000000000001}',
        b'{"d": "1.505"}',
        b'{"d": 1505e-3}',
        b'{"d": 1e-999999999}',
        b'{"d": 1.505, "f": NaN}',
        b'{"d": 1000}',
        b'{"s": {"d": 0.000000000000000000000000000000000000001}}',
        b'{"l": [1, 2.5]}',
        b'{"m": {"a": 0.5, "b": 0.55}}',
    ]
    parsed = looked_at(spark, [*(text for text, _ in fits), *odd], kind)
    rows = parsed.select("d", UNFIT).collect()
    assert [(row.d and str(row.d), row[UNFIT]) for row in rows[: len(fits)]] == [(value, None) for _, value in fits]
    assert [row[UNFIT] for row in rows[len(fits) :]] == [text.decode() for text in odd]
    strict = stream_rows.parsed_rows(spark, "d", records_of(spark, [fits[0][0], odd[0]]), kind)
    with pytest.raises(
        Exception, match=r"Topic 'd': the value at offset 1 of partition 0 does not fit the topic's col"
    ):
        strict.select("d").collect()

    plain = looked_at(spark, [b"1.5", b"1.55", b'{"value": 0.25}'], spark_schema("value decimal(5, 1)"))
    assert [row[UNFIT] for row in plain.collect()] == [None, "1.55", '{"value": 0.25}']


def test_a_message_that_a_column_of_any_type_holds_is_not_unfit(spark: SparkSession) -> None:
    fits = {
        "tinyint": (b"-128", b"128"),
        "smallint": (b"32767", b"32768"),
        "int": (b"-2147483648", b"2147483648"),
        "bigint": (b"9223372036854775807", b"9223372036854775808"),
        "float": (b"1.5", b'"x"'),
        "double": (b"1.5", b'"x"'),
        "decimal(5,2)": (b"1.50", b"1.505"),
        "boolean": (b"true", b"1"),
        "string": (b'"x"', b"1"),
        "date": (b'"2024-01-01"', b'"x"'),
        "timestamp": (b'"2024-01-01T00:00:00Z"', b'"x"'),
        "map<string,int>": (b'{"a": 1, "b": null}', b'{"a": 1, "b": "x"}'),
        "array<int>": (b"[1, null]", b"[1, 2147483648]"),
        "struct<a:int>": (b'{"a": 1}', b'{"a": 2147483648}'),
    }
    for kind, values in fits.items():
        texts = [b'{"user": "a", "v": ' + value + b"}" for value in (*values, b"null")]
        schema = spark_schema(f"user string, v {kind}")
        rows = stream_rows.rows_as_sent(spark, "types", records_of(spark, list(texts)), schema, scalar=False).collect()
        assert [row[UNFIT] for row in rows] == [None, texts[1].decode(), None], kind
        assert (rows[0].user, rows[0].v is None, rows[2].v) == ("a", False, None), kind


def test_a_kafka_topic_whose_names_differ_in_case_is_rejected_as_a_stream(spark: SparkSession) -> None:
    kind = spark_schema("at struct<x: int, X: int>")
    with pytest.raises(InvalidArgumentError, match=r"columns 'at.x' and 'at.X' differ in case alone, .* schema="):
        stream_rows.parsed_rows(spark, "case", records_of(spark, [b"{}"]), kind)


def test_decimals_have_all_their_digits_and_maps_are_objects() -> None:
    price, exact = decimal.Decimal("12345678901234567890.1234567890"), decimal.Decimal("1.50")
    table = pa.table(
        {
            "price": pa.array([price, None], pa.decimal128(38, 18)),
            "of": pa.array([[("a", exact)], None], pa.map_(pa.string(), pa.decimal128(5, 2))),
            "all": pa.array([[exact], []], pa.list_(pa.decimal128(5, 2))),
        }
    )
    assert _json.written(table) == [
        b'{"price": 12345678901234567890.123456789000000000, "of": {"a": 1.50}, "all": [1.50]}',
        b'{"price": null, "of": null, "all": []}',
    ]
    assert _json.written(pa.table({"value": [{"a": 1}]})) == [b'{"value": {"a": 1}}'], "an object is a record"
    assert read_json(b"123456789012345678901", exact=True) == decimal.Decimal("123456789012345678901")
    keyed = pa.table({"of": pa.array([[(1, 2)]], pa.map_(pa.int64(), pa.int64()))})
    with pytest.raises(InvalidArgumentError, match="Column 'of' has maps with keys of the type int64"):
        _json.written(keyed)
