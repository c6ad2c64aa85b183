"""Rows of a stream from the records of a topic in Kafka: the JSON of their values in columns."""

from __future__ import annotations

from collections.abc import Sequence

import pyspark.sql.types as T
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from mullion._bridge import jvm
from mullion.errors import InvalidArgumentError
from mullion.topics import _types
from mullion.topics._broker import NOT_TEXT, UNFIT, column_mark
from mullion.topics._records import (
    COLUMNS,
    HEADERS,
    KEY,
    TIMESTAMP,
    VALUE,
)


def parsed_rows(
    spark: SparkSession, topic: str, records: DataFrame, wanted: T.StructType, headers: bool = False
) -> DataFrame:
    """Kafka's records as rows of a topic; one that does not fit fails the query.

    A record with a null value, and a tombstone, have no fields.
    """
    read = _all_readable(wanted)
    fix = (
        f"The columns are {wanted.simpleString()}. Give those that the records have with schema=; a query that has "
        "run with other columns needs a new checkpoint."
    )
    parsed = F.when(F.col("_no_json"), _raise(topic, "is not JSON", "Values must be JSON.", read))
    parsed = parsed.when(F.col("_odd"), _raise(topic, "does not fit the topic's columns", fix, read))
    # Spark has null for a record without headers.
    beside = (
        [F.coalesce("headers", F.array().cast("array<struct<key: string, value: binary>>")).alias(HEADERS)]
        if headers
        else []
    )
    checked = checked_rows(spark, topic, records, wanted, beside)
    rows = checked.withColumn("_parsed", parsed.otherwise(F.col("_parsed")))
    return rows.select(*columns_of("_parsed", wanted), KEY, TIMESTAMP, *([HEADERS] if headers else []), COLUMNS)


def checked_rows(
    spark: SparkSession, topic: str, records: DataFrame, wanted: T.StructType, beside: Sequence[Column] = ()
) -> DataFrame:
    """Spark's parsed records, and whether they are exact."""
    _require_apart(topic, wanted)
    text = F.col("value").cast("string")
    records = records.select(
        text.alias("_text"),
        jvm.json_shape(spark, text).alias("_shape"),
        F.col("key").cast("string").alias(KEY),
        F.col("timestamp").alias(TIMESTAMP),
        F.concat(F.lit("at offset "), F.col("offset"), F.lit(" of partition "), F.col("partition")).alias("_where"),
        *beside,
    )
    shape, json, nothing = F.col("_shape"), F.col("_text"), F.lit("")
    is_object = shape.startswith("{")
    if wanted.names == [VALUE]:
        # As the field of a record, because from_json requires a bracket at the start.
        json, nothing = F.when(is_object, json).otherwise(_in_record(json)), F.lit(column_mark(VALUE))
    rows = records.withColumns(
        {
            "_parsed": _from_json(F.when(shape != "n", json), _all_readable(wanted)),
            COLUMNS: F.when(is_object, _marks(shape)).otherwise(nothing),
            "_no_json": shape.isNull() & F.col("_text").isNotNull(),
        }
    )
    odd = F.col(f"_parsed.{UNFIT}").isNotNull()
    for field in wanted:
        odd |= _is_more(F.col("_parsed").getField(field.name), field.dataType)
    odd |= _is_rounded(spark, json, wanted)
    return rows.withColumn("_odd", odd)


def _is_rounded(spark: SparkSession, json: Column, wanted: T.StructType) -> Column:
    """True if ``from_json`` rounds a number that has more digits than its decimal."""
    if not _types.has_decimals(wanted):
        return F.lit(False)
    return F.coalesce(jvm.json_decimals(spark, json, wanted), F.lit(False))


def rows_as_sent(
    spark: SparkSession, topic: str, records: DataFrame, wanted: T.StructType, *, scalar: bool
) -> DataFrame:
    """Kafka's records as rows of a topic that are exactly as sent: in columns, or else as text.

    A tombstone has null for ``_columns``. Where values are records, the text of JSON's null is in ``_unfit``.
    """
    _require_apart(topic, wanted)
    read = _all_readable(wanted)
    text, key = F.col("value").cast("string"), F.col("key").cast("string")
    # Invalid text is returned as bytes.
    key = F.when(F.is_valid_utf8(key), key).when(key.isNotNull(), _bytes_of("key"))
    shape, json = F.col("_shape"), F.col("_text")
    fits = F.coalesce(~shape.isin("!", "n"), F.lit(False))
    marks, nothing = _marks(shape), F.lit(None).cast("string")
    if scalar:
        json, nothing = _in_record(json), F.lit(column_mark(VALUE))
        marks = F.concat(nothing, marks)
    rows = records.select(
        text.alias("_text"),
        jvm.json_fit(spark, text, wanted, scalar).alias("_shape"),
        key.alias(KEY),
        F.col("timestamp").alias(TIMESTAMP),
        _bytes_of("value").alias("_bytes"),
    ).select(
        "_text",
        "_shape",
        "_bytes",
        _is_rounded(spark, F.when(fits, json), wanted).alias("_rounded"),
        _from_json(F.when(fits, json), read).alias("_parsed"),
        KEY,
        TIMESTAMP,
        F.when(fits, marks)
        .when(F.coalesce(shape == "!", F.lit(False)), "")
        .when(F.col("_text").isNotNull(), nothing)
        .alias(COLUMNS),
    )
    no_json = shape.isNull() & F.col("_text").isNotNull()
    odd = no_json | (shape == "!") | F.col("_rounded") | F.col(f"_parsed.{UNFIT}").isNotNull()
    odd |= F.col(KEY).startswith(NOT_TEXT)
    if not scalar:
        odd |= (shape == "n") & F.col("_text").isNotNull()
    shown = F.when(~F.is_valid_utf8("_text"), F.col("_bytes")).when(odd, F.coalesce("_text", F.lit("null")))
    return rows.select(*columns_of("_parsed", wanted), shown.alias(UNFIT), KEY, TIMESTAMP, COLUMNS)


def raw_rows(records: DataFrame) -> DataFrame:
    """Kafka's records with the text of their values; invalid text is returned as bytes."""
    text, key = F.col("value").cast("string"), F.col("key").cast("string")
    return records.select(
        F.when(F.is_valid_utf8(text), text).when(text.isNotNull(), _bytes_of("value")).alias(VALUE),
        F.lit(None).cast("string").alias(UNFIT),
        F.when(F.is_valid_utf8(key), key).when(key.isNotNull(), _bytes_of("key")).alias(KEY),
        F.col("timestamp").alias(TIMESTAMP),
        F.when(text.isNotNull(), F.lit(column_mark(VALUE))).alias(COLUMNS),
    )


def _marks(shape: Column) -> Column:
    return F.substring(shape, 2, 2**31 - 1)


def _in_record(json: Column) -> Column:
    return F.concat(F.lit(f'{{"{VALUE}":'), json, F.lit("}"))


def _all_readable(wanted: T.StructType) -> T.StructType:
    return T.StructType([T.StructField(field.name, _readable(field.dataType)) for field in wanted])


def _from_json(json: Column, read: T.StructType) -> Column:
    schema = T.StructType([*read, T.StructField(UNFIT, T.StringType())])
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": UNFIT, "allowSingleQuotes": "false"}
    return F.from_json(json, schema, options)


def columns_of(parsed: str, wanted: T.StructType) -> list[Column]:
    return [
        _types.fit_column(F.col(parsed).getField(field.name), _readable(field.dataType), field.dataType).alias(
            field.name
        )
        for field in wanted
    ]


def _bytes_of(column: str) -> Column:
    """Invalid text, as a text that describes its bytes."""
    return F.concat(F.lit(NOT_TEXT), F.hex(column))


def _raise(topic: str, why: str, fix: str, read: T.StructType) -> Column:
    prefix = [F.lit(f"Topic '{topic}': the value "), F.col("_where"), F.lit(f" {why}: ")]
    message = F.concat(*prefix, F.translate(F.substring(F.col("_text"), 1, 200), "\r\n", "  "), F.lit(f". {fix}"))
    return F.raise_error(message).cast(T.StructType([*read, T.StructField(UNFIT, T.StringType())]))


def _readable(kind: T.DataType) -> T.DataType:
    """The type with which from_json reads a type: it has none for fields that were only ever null or empty objects.

    These are read as a map instead: empty, or with values of unknown fields.
    """
    match kind:
        case T.NullType():
            return T.MapType(T.StringType(), T.StringType())
        case T.StructType():
            return T.StructType([T.StructField(field.name, _readable(field.dataType)) for field in kind])
        case T.ArrayType():
            return T.ArrayType(_readable(kind.elementType))
        case T.MapType():
            return T.MapType(kind.keyType, _readable(kind.valueType))
    return kind


def _is_more(column: Column, kind: T.DataType) -> Column:
    """True if there is a value that the type lacks."""
    more = F.lit(False)
    match kind:
        case T.NullType():
            more = F.size(column) > 0
        case T.StructType() if _types.has_null_type(kind):
            for field in kind:
                more |= _is_more(column.getField(field.name), field.dataType)
        case T.ArrayType() if _types.has_null_type(kind):
            more = F.exists(column, lambda of: _is_more(of, kind.elementType))
        case T.MapType() if _types.has_null_type(kind):
            more = F.exists(F.map_values(column), lambda of: _is_more(of, kind.valueType))
    return F.coalesce(more, F.lit(False))


def _require_apart(topic: str, wanted: T.StructType) -> None:
    alike = _types.alike(wanted)
    if alike is not None:
        raise InvalidArgumentError(
            f"Topic {topic!r}: columns {alike[0]!r} and {alike[1]!r} differ in case alone, and Spark takes them for "
            "one. Name the columns that you need with schema=."
        )
