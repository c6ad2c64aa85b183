"""Kafka as a broker: topics with JSON values."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, final

import pyarrow as pa
import pyarrow.compute as pc
import pyspark
import pyspark.sql.types as T
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from mullion._app.clock import Clock
from mullion.errors import InvalidArgumentError, UnsupportedError
from mullion.topics import _json, _kafka_client, _types
from mullion.topics._brokers import NOT_TEXT, SEPARATOR, UNFIT, Publisher, SchemaLike
from mullion.topics._inferred import schema_of_most
from mullion.topics._records import (
    COLUMNS,
    KEY,
    TIMESTAMP,
    VALUE,
    Data,
    keys_of,
    normal,
    table_of_values,
    timestamps_of,
    values_of,
)
from mullion.topics._schemas import remember, remembered_schema, spark_schema

_SERVERS = re.compile(r"[^\s,/:]+:\d+(,[^\s,/:]+:\d+)*")
_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")

LOOKED_AT = 1000
"""How many records of each partition a schema is inferred from, its last ones."""

MOST_ROWS = 200_000
"""How many records a micro-batch has at most, of all partitions of a topic together."""


@final
@dataclass(frozen=True, slots=True, repr=False)
class KafkaBroker:
    """Topics of Kafka; see :func:`mullion.topics.broker`. ``servers`` are ``host:port``, several with commas between.

    Needs the extra ``kafka`` of this package, and Spark's connector, ``spark-sql-kafka-0-10``, for streams.

    >>> KafkaBroker("localhost:9092").url
    'kafka://localhost:9092'
    """

    servers: str

    def __post_init__(self) -> None:
        if not isinstance(self.servers, str) or not _SERVERS.fullmatch(self.servers):
            raise InvalidArgumentError(
                f"servers={self.servers!r} is not where Kafka is. Write 'host:port', or several with commas between."
            )

    def __repr__(self) -> str:
        return f"KafkaBroker({self.servers!r})"

    @property
    def url(self) -> str:
        """The text that :func:`mullion.topics.broker` takes."""
        return f"kafka://{self.servers}"

    def produce(
        self,
        topic: str,
        data: Data,
        timestamps: Iterable[float] | None = None,
        keys: Sequence[str | None] | None = None,
        *,
        clock: Clock | None = None,
    ) -> None:
        """See :func:`mullion.topics.produce`. Times are whole milliseconds. At its end all rows are acknowledged."""
        _require_name(topic)
        values = values_of(topic, data)
        times = timestamps_of(timestamps, len(values), clock).cast(pa.int64()).to_pylist()
        names = keys_of(keys, len(values)).to_pylist()
        _kafka_client.produce(self.servers, topic, zip(names, _json.written(values), times, strict=True))

    def read(self, topic: str) -> pa.Table:
        """See :func:`mullion.topics.read`. Partitions are in order; rows of several are in order of their times."""
        _require_name(topic)
        return _table(topic, _kafka_client.read(self.servers, topic))

    def stream(
        self,
        spark: SparkSession,
        topic: str,
        schema: SchemaLike | None = None,
        remembered: str | os.PathLike[str] | None = None,
        *,
        unfit: bool = False,
    ) -> DataFrame:
        """See :meth:`mullion.topics.Broker.stream`. It begins with the topic's first row that is still there.

        A ``schema`` that is left out is inferred from the last 1,000 records of each partition. A record that does not
        fit the schema, or is no JSON, fails the query; with ``unfit`` it comes as its text, in ``_unfit``.
        """
        _require_name(topic)
        if schema is not None:
            wanted = spark_schema(schema)
        else:
            wanted = remembered_schema(remembered) or self._inferred(topic, unfit)
            remember(remembered, wanted)
        return _parsed(self._source(spark, topic), wanted, unfit)

    def make(self, topic: str) -> None:
        """Makes a topic with the cluster's defaults, if it is not there."""
        _require_name(topic)
        _kafka_client.make(self.servers, topic)

    def session_options(self) -> dict[str, str]:
        """Spark's connector, of the Spark that is installed."""
        return {"spark.jars.packages": f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"}

    def publisher(self, clock: Clock | None = None) -> Publisher:
        """What one query publishes with: at least once; its rows have the time at which they are sent."""
        from mullion.topics._kafka_publisher import KafkaPublisher

        return KafkaPublisher(self.servers)

    def _inferred(self, topic: str, unfit: bool) -> T.StructType:
        records = _kafka_client.read(self.servers, topic, last=LOOKED_AT)
        fit = _fit(records) if unfit else []
        if fit and all(isinstance(value, dict) for value in fit):
            schema = schema_of_most(fit)
        elif unfit:
            schema = schema_of_most({VALUE: value} for value in fit)
        else:
            schema = _types.schema_of(_table(topic, records).drop_columns([KEY, TIMESTAMP]).schema)
        if not len(schema):
            raise InvalidArgumentError(
                f"Topic {topic!r} of {self.url} has no rows yet, and so no columns. Say which it will have with "
                "schema='region string, amount double', or produce the first rows before the query starts."
            )
        return schema

    def _source(self, spark: SparkSession, topic: str) -> DataFrame:
        # The source asks for a topic's partitions when it starts, and fails where there is no topic.
        _kafka_client.make(self.servers, topic)
        try:
            return (
                spark.readStream.format("kafka")
                .option("kafka.bootstrap.servers", self.servers)
                .option("subscribe", topic)
                .option("startingOffsets", "earliest")
                # A backlog is read in batches that fit into memory.
                .option("maxOffsetsPerTrigger", MOST_ROWS)
                .load()
            )
        except PySparkException as theirs:
            if "kafka" not in str(theirs) or "find" not in str(theirs):
                raise
            raise UnsupportedError(
                "This Spark session has not got Spark's connector to Kafka. Start it with --packages "
                f"{self.session_options()['spark.jars.packages']}, or under that name in spark.jars.packages."
            ) from theirs


def _parsed(records: DataFrame, wanted: T.StructType, unfit: bool) -> DataFrame:
    """Kafka's records as rows of a topic. A tombstone has no value, and with ``unfit`` null for ``_columns``."""
    whole = F.col("value").cast("string")
    name = F.col("key").cast("string")
    text = whole
    if unfit:
        # What is no text is not parsed, and comes as its bytes.
        text = F.when(F.is_valid_utf8(whole), whole)
        name = F.when(F.is_valid_utf8(name), name).when(name.isNotNull(), _bytes_of("key"))
    plain = wanted.names == [VALUE]
    if plain:
        # As the field of a record, for what from_json reads begins with a bracket.
        text = F.concat(F.lit(f'{{"{VALUE}":'), text, F.lit("}"))
        had = F.lit(f"{SEPARATOR}{VALUE}{SEPARATOR}")
    else:
        mark = F.lit(SEPARATOR)
        names = F.array_join(F.json_object_keys(text), 2 * SEPARATOR)
        none = F.when(whole.isNotNull(), "") if unfit else F.lit("")
        had = F.when(F.length(names) > 0, F.concat(mark, names, mark)).otherwise(none)
    schema, options = wanted, {"mode": "FAILFAST"}
    if unfit:
        schema = T.StructType([*wanted, T.StructField(UNFIT, T.StringType())])
        options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": UNFIT}
    rows = records.select(
        whole.alias("_text"),
        F.from_json(text, schema, options).alias("_parsed"),
        name.alias(KEY),
        F.col("timestamp").alias(TIMESTAMP),
        had.alias(COLUMNS),
        *([_bytes_of("value").alias("_bytes")] if unfit else []),
    )
    columns = [F.col("_parsed").getField(name).alias(name) for name in wanted.names]
    if unfit:
        odd = F.col(f"_parsed.{UNFIT}").isNotNull() | F.col(KEY).startswith(NOT_TEXT)
        is_text = F.is_valid_utf8("_text")
        columns.append(F.when(~is_text, F.col("_bytes")).when(odd, F.coalesce("_text", F.lit("null"))).alias(UNFIT))
    return rows.select(*columns, KEY, TIMESTAMP, COLUMNS)


def _bytes_of(column: str) -> Column:
    """Bytes that are no text, as text that says so."""
    return F.concat(F.lit(NOT_TEXT), F.hex(column))


def _fit(records: Sequence[_kafka_client.Record]) -> list[Any]:
    """The values of those that are JSON; where some are objects, only these."""
    objects: list[Any] = []
    others: list[Any] = []
    for record in records:
        try:
            value = _json.read(record.value)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            objects.append(value)
        elif record.value is not None:
            others.append(value)
    return objects or others


def _table(topic: str, records: Sequence[_kafka_client.Record]) -> pa.Table:
    values = []
    for record in records:
        try:
            values.append(_json.read(record.value))
        except ValueError as no_json:
            raise InvalidArgumentError(
                f"Topic {topic!r}: the value at offset {record.offset} of partition {record.partition} is no JSON: "
                f"{(record.value or b'')[:80]!r}. What is read here must be JSON."
            ) from no_json
    if any(isinstance(value, dict) for value in values):
        # A record that was deleted has no value, and so no fields.
        values = [{} if value is None else value for value in values]
    table = normal(topic, table_of_values(topic, values))
    return table.append_column(KEY, pa.array([record.key for record in records], pa.string())).append_column(
        TIMESTAMP, pc.divide(pa.array([record.ms for record in records], pa.float64()), 1000.0)
    )


def _require_name(topic: object) -> None:
    if not isinstance(topic, str) or not _NAME.fullmatch(topic) or topic in (".", ".."):
        raise InvalidArgumentError(
            f"topic={topic!r} is not a topic's name. Use letters, digits, '.', '_' and '-', 249 at most."
        )
