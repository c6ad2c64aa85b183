"""Kafka as a broker: topics with JSON values."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import pyarrow as pa
import pyarrow.compute as pc
import pyspark
import pyspark.sql.types as T
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from mullion._util.clock import Clock
from mullion._util.codec.json import read as read_json
from mullion._util.codec.json import text_of
from mullion.errors import InvalidArgumentError, UnsupportedError
from mullion.topics import _json, _types
from mullion.topics._broker import NO_COLUMNS, Publisher, SchemaLike
from mullion.topics._kafka import client as _kafka_client
from mullion.topics._kafka.inferred import schema_of_most
from mullion.topics._kafka.options import KafkaOptions, without_secrets
from mullion.topics._kafka.stream_rows import parsed_rows, raw_rows, rows_as_sent
from mullion.topics._records import (
    HEADERS,
    KEY,
    TIMESTAMP,
    VALUE,
    Data,
    Headers,
    HeadersOfRows,
    headers_of,
    keys_of,
    normal,
    table_of_values,
    timestamps_of,
    values_of,
)
from mullion.topics._schemas import remember, remembered_schema, spark_schema

_SERVERS = re.compile(r"[^\s,/:]+:\d+(,[^\s,/:]+:\d+)*")

LOOKED_AT = 1000
"""The number of records per partition, the last ones, from which a schema is inferred."""

MOST_ROWS = 200_000
"""The maximum number of records in a micro-batch, over all partitions of a topic."""


@final
@dataclass(frozen=True, slots=True, repr=False)
class KafkaBroker:
    """Topics of Kafka; see :func:`mullion.topics.broker`. ``servers`` are ``host:port``, separated by commas.

    Requires the extra ``kafka`` of this package, and Spark's connector, ``spark-sql-kafka-0-10``, for streams.

    - ``options``: connection options of the cluster, by the names of Kafka's clients: ``security.protocol``,
      ``sasl.mechanism``, ``sasl.username``, ``sasl.password``, ``ssl.ca.location`` and others. ``repr``, ``url`` and
      messages never contain their values.

    >>> KafkaBroker("localhost:9092").url
    'kafka://localhost:9092'
    """

    servers: str
    options: Mapping[str, Any] = dataclasses.field(default_factory=KafkaOptions)

    def __post_init__(self) -> None:
        if not isinstance(self.servers, str) or not _SERVERS.fullmatch(self.servers):
            raise InvalidArgumentError(
                f"servers={without_secrets(self.servers)!r} is not where Kafka is. Write 'host:port', or several with "
                "commas between. What it asks of those who connect goes into options=."
            )
        if not isinstance(self.options, KafkaOptions):
            object.__setattr__(self, "options", KafkaOptions(self.options))

    def __repr__(self) -> str:
        return f"KafkaBroker({self.servers!r}, {self.options!r})" if self.options else f"KafkaBroker({self.servers!r})"

    @property
    def cluster(self) -> _kafka_client.Cluster:
        """The connection of its clients."""
        return _kafka_client.Cluster(self.servers, KafkaOptions(self.options))

    @property
    def url(self) -> str:
        """The text that :func:`mullion.topics.broker` accepts, in addition to the options."""
        return f"kafka://{self.servers}"

    def produce(
        self,
        topic: str,
        data: Data,
        timestamps: Iterable[float] | None = None,
        keys: Sequence[str | None] | None = None,
        *,
        clock: Clock | None = None,
        headers: HeadersOfRows | None = None,
    ) -> None:
        """See :func:`mullion.topics.produce`. Times are in milliseconds. It returns after all rows are acknowledged."""
        self.require_topic(topic)
        values = values_of(topic, data)
        times = timestamps_of(timestamps, len(values), clock).cast(pa.int64()).to_pylist()
        names = keys_of(keys, len(values)).to_pylist()
        beside = None if headers is None else headers_of(headers, len(values))
        _kafka_client.produce(self.cluster, topic, zip(names, _json.written(values), times, strict=True), beside)

    def produce_json(
        self,
        topic: str,
        values: Sequence[Any],
        timestamps: Sequence[float],
        keys: Sequence[str | None],
        *,
        raw: bool = False,
        headers: HeadersOfRows | None = None,
    ) -> None:
        """See :meth:`mullion.topics.Broker.produce_json`."""
        self.require_topic(topic)
        times = timestamps_of(timestamps, len(values), None).cast(pa.int64()).to_pylist()
        texts = [(value if raw else text_of(value)).encode() for value in values]
        rows = zip(keys_of(keys, len(values)).to_pylist(), texts, times, strict=True)
        beside = None if headers is None else headers_of(headers, len(values))
        _kafka_client.produce(self.cluster, topic, rows, beside)

    def read(self, topic: str, *, headers: bool = False) -> pa.Table:
        """See :func:`mullion.topics.read`. Partitions are in order; rows of several are in order of their times."""
        _kafka_client.require_name(topic)
        records = _kafka_client.read(self.cluster, topic)
        table = _table(topic, records, exact=True)
        if not headers:
            return table
        _require_no_headers(topic, table.column_names)
        return table.append_column(HEADERS, pa.array([_listed(record.headers) for record in records], _HEADERS))

    def stream(
        self,
        spark: SparkSession,
        topic: str,
        schema: SchemaLike | None = None,
        remembered: str | os.PathLike[str] | None = None,
        *,
        unfit: bool = False,
        records: bool = False,
        raw: bool = False,
        fresh: T.StructType | None = None,
        headers: bool = False,
    ) -> DataFrame:
        """See :meth:`mullion.topics.Broker.stream`. It begins with the topic's first available row.

        Without a ``schema`` it is inferred from the last 1,000 records of each partition. A record that does not fit
        the schema, or is not JSON, fails the query. With ``unfit`` a record that the columns do not hold exactly is
        returned as text, in ``_unfit``; and new fields of a topic get columns from the next start on.
        """
        _kafka_client.require_name(topic)
        if headers and (raw or unfit):
            raise UnsupportedError("stream(headers=True) gives rows in columns: leave out raw= and unfit=.")
        if raw:
            wanted = NO_COLUMNS
        elif schema is not None:
            wanted = spark_schema(schema)
        else:
            initial = remembered_schema(remembered)
            if unfit and initial == NO_COLUMNS:
                # No field was known then.
                initial = None
            wanted = (
                self._inferred(topic, unfit, fresh)
                if initial is None
                else self._grown(topic, initial)
                if unfit
                else initial
            )
            remember(remembered, wanted)
        rows = self._source(spark, topic, headers)
        if headers:
            _require_no_headers(topic, wanted.names)
        if raw:
            return raw_rows(rows)
        if unfit:
            return rows_as_sent(spark, topic, rows, wanted, scalar=wanted.names == [VALUE] and not records)
        return parsed_rows(spark, topic, rows, wanted, headers)

    def make(self, topic: str) -> None:
        """Creates a topic with the cluster's defaults, if it does not exist."""
        _kafka_client.require_name(topic)
        _kafka_client.make(self.cluster, topic)

    def topics(self) -> list[str]:
        """See :meth:`mullion.topics.Broker.topics`."""
        return _kafka_client.topics(self.cluster)

    def require_topic(self, topic: object, parameter: str = "topic") -> None:
        """See :meth:`mullion.topics.Broker.require_topic`."""
        _kafka_client.require_topic(topic, parameter)

    def session_options(self) -> dict[str, str]:
        """Spark's connector, for the installed Spark."""
        return {"spark.jars.packages": f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"}

    def publisher(self, clock: Clock | None = None) -> Publisher:
        """The publisher of one query: exactly once; its rows have their sending time."""
        from mullion.topics._kafka.publisher import KafkaPublisher

        return KafkaPublisher(self.cluster)

    def _inferred(self, topic: str, unfit: bool, fresh: T.StructType | None) -> T.StructType:
        records = _kafka_client.read(self.cluster, topic, last=LOOKED_AT)
        fit = _fit(records) if unfit else []
        if fit and all(isinstance(value, dict) for value in fit):
            schema = schema_of_most(fit)
        elif unfit:
            schema = schema_of_most({VALUE: value} for value in fit)
        else:
            schema = _types.schema_of(_table(topic, records).drop_columns([KEY, TIMESTAMP]).schema)
        if not len(schema) and unfit and records:
            # Values without a suitable column are returned as text.
            return NO_COLUMNS
        if not len(schema) and fresh is not None:
            return fresh
        if not len(schema):
            raise InvalidArgumentError(
                f"Topic {topic!r} of {self.url} has no rows yet, and so no columns. Say which it will have with "
                "schema='region string, amount double', or produce the first rows before the query starts."
            )
        return schema

    def _grown(self, topic: str, schema: T.StructType) -> T.StructType:
        """The columns of a query at its first start, and those of later fields."""
        fit = _fit(_kafka_client.read(self.cluster, topic, last=LOOKED_AT))
        if not all(isinstance(value, dict) for value in fit):
            return schema
        names = {name.lower() for name in schema.names}
        return T.StructType([*schema, *(field for field in schema_of_most(fit) if field.name.lower() not in names)])

    def _source(self, spark: SparkSession, topic: str, headers: bool = False) -> DataFrame:
        # The source reads a topic's partitions when it starts, and fails if the topic does not exist.
        _kafka_client.make(self.cluster, topic)
        try:
            return (
                spark.readStream.format("kafka")
                .option("kafka.bootstrap.servers", self.servers)
                # Excludes uncommitted rows.
                .option("kafka.isolation.level", "read_committed")
                .option("subscribe", topic)
                .option("startingOffsets", "earliest")
                # A backlog is read in batches that fit into memory.
                .option("maxOffsetsPerTrigger", MOST_ROWS)
                .option("includeHeaders", headers)
                .options(**self.cluster.options.source())
                .load()
            )
        except PySparkException as cause:
            if "kafka" not in str(cause) or "find" not in str(cause):
                raise
            raise UnsupportedError(
                "This Spark session has not got Spark's connector to Kafka. Start it with --packages "
                f"{self.session_options()['spark.jars.packages']}, or under that name in spark.jars.packages."
            ) from cause


def _require_no_headers(topic: str, names: Sequence[str]) -> None:
    alike = next((name for name in names if name.lower() == HEADERS), None)
    if alike is not None:
        raise InvalidArgumentError(
            f"Topic {topic!r}: the column {alike!r} of its values has the name of the column for Kafka's headers. "
            "Leave out headers=, or name the columns that you need with schema=."
        )


_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def _listed(headers: Headers) -> list[dict[str, str | bytes | None]]:
    return [{"key": name, "value": value} for name, value in headers]


def _fit(records: Sequence[_kafka_client.Record]) -> list[Any]:
    """The values of valid JSON records; if some are objects, only these."""
    objects: list[Any] = []
    others: list[Any] = []
    for record in records:
        try:
            value = read_json(record.value)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            objects.append(value)
        elif record.value is not None:
            others.append(value)
    return objects or others


def _table(topic: str, records: Sequence[_kafka_client.Record], *, exact: bool = False) -> pa.Table:
    values = []
    for record in records:
        try:
            values.append(read_json(record.value, exact=exact))
        except ValueError as no_json:
            raise InvalidArgumentError(
                f"Topic {topic!r}: the value at offset {record.offset} of partition {record.partition} is not JSON: "
                f"{(record.value or b'')[:80]!r}. Values must be JSON."
            ) from no_json
    if any(isinstance(value, dict) for value in values):
        # A tombstone has no value, and so no fields.
        values = [{} if value is None else value for value in values]
    # Spark may not distinguish all names, but Arrow does. JSON has one kind of number: those with many digits become
    # decimals here, and the others floats.
    table = normal(topic, table_of_values(topic, values, _types.union), apart=False)
    return table.append_column(KEY, pa.array([record.key for record in records], pa.string())).append_column(
        TIMESTAMP, pc.divide(pa.array([record.ms for record in records], pa.float64()), 1000.0)
    )
