"""The rows of a subscription's topic for its windows: with their order of arrival, or their event time."""

from __future__ import annotations

import difflib
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql import types as T  # noqa: N812

from mullion._bridge import jvm
from mullion._program.host import Host
from mullion.errors import InvalidArgumentError, UnknownColumnError
from mullion.topics._records import COLUMNS, TIMESTAMP
from mullion.turbine._aggregate import ARRIVAL
from mullion.turbine._process.subscription import Subscription
from mullion.turbine._spec import KAFKA_TIME, Spec
from mullion.turbine.functions import column_of
from mullion.windows import Watermark

TIME: Final = "__mullion_time"

LONGEST_MS: Final = (2**63 - 1) // 1000
"""The greatest number of milliseconds in a Spark timestamp, before and after the epoch."""


def topic_rows(app: Host, subscription: Subscription, spark: SparkSession, job: str) -> DataFrame:
    """The topic of a subscription: its columns, ``_columns`` and, optionally, ``_kafka_ts_ms``."""
    options = subscription.options
    rows = app.stream(job, options.topic, options.schema, spark)
    if options.with_kafka_timestamp:
        if KAFKA_TIME in rows.columns:
            raise InvalidArgumentError(
                f"with_kafka_timestamp=True adds the column {KAFKA_TIME!r}, and the topic {options.topic!r} has one of "
                "that name already. Leave with_kafka_timestamp out, or rename the topic's."
            )
        rows = rows.withColumn(KAFKA_TIME, sf.unix_millis(TIMESTAMP))
    return rows


def with_arrival(rows: DataFrame) -> DataFrame:
    if ARRIVAL in rows.columns:
        return rows
    # Batches are ordered by number, because two may have one time; rows of a batch by the order in which they are read.
    batch, row = jvm.batch_number(rows.sparkSession), jvm.row_in_batch(rows.sparkSession)
    return rows.withColumn(ARRIVAL, sf.struct(batch.alias("batch"), row.alias("row")))


def own_columns(topic: DataFrame) -> list[str]:
    """The columns of a topic's values, without the columns about rows."""
    return [name for name in topic.columns if name not in (COLUMNS, TIMESTAMP, "_key")]


def require_columns(topic: DataFrame, spec: Spec, name: str) -> None:
    """Raises :class:`UnknownColumnError` if the topic lacks a column that a window needs."""
    columns = own_columns(topic)
    for needed in spec.needs:
        if needed in columns:
            continue
        if needed == KAFKA_TIME:
            raise UnknownColumnError(
                f"The window {spec.name!r} reads {KAFKA_TIME!r}, which its subscription does not ask for. Write "
                f"@app.subscribe({name!r}, with_kafka_timestamp=True, ...)."
            )
        meant = difflib.get_close_matches(needed, columns, 1)
        raise UnknownColumnError(
            f"The window {spec.name!r} reads the column {needed!r}, which no row of the topic {name!r} has. "
            f"{f'Did you mean {meant[0]!r}?' if meant else 'It has ' + ', '.join(map(repr, columns)) + '.'} Where it "
            "comes later, say so with schema= of @app.subscribe."
        )


def timed(rows: DataFrame, time_column: str, what: str) -> DataFrame:
    """The rows with their event time, which has the watermark."""
    return rows.withColumn(TIME, _event_time(rows, time_column, what)).withWatermark(TIME, "0 seconds")


def on_event_time(allowed_lateness_ms: int, idle_ms: int) -> dict[str, Any]:
    """The additional options of a window on event time."""
    return {
        "time": TIME,
        "allowed_lateness": f"{allowed_lateness_ms} milliseconds",
        "late": "reopen each",
        "clock": Watermark(idle_after=f"{idle_ms} milliseconds"),
    }


def _event_time(rows: DataFrame, time_column: str, what: str) -> Column:
    kind = rows.select(column_of(time_column)).schema[0].dataType
    if not isinstance(kind, T.LongType):
        fix = {
            T.TimestampType: "Give the instant in milliseconds, as in pc.cast(ts, pa.int64()) in process",
            T.StringType: "Parse it in process",
            T.DoubleType: "Give whole milliseconds, not seconds as a float",
        }.get(type(kind), "Cast it to int64 in process")
        raise InvalidArgumentError(
            f"time_column={time_column!r} of {what} is {_arrow_name(kind)}, and has to be "
            f"Int64: milliseconds since the epoch. {fix}, or where it is produced."
        )
    column = column_of(time_column)
    limits = sf.lit(LONGEST_MS), sf.lit(-LONGEST_MS)
    saturated = sf.least(sf.greatest(column, limits[1]), limits[0])
    return sf.when(column.isNotNull(), sf.timestamp_millis(saturated))


def _arrow_name(kind: T.DataType) -> str:
    names = {T.IntegerType: "Int32", T.ShortType: "Int16", T.ByteType: "Int8", T.StringType: "String"}
    names |= {T.DoubleType: "Float64", T.FloatType: "Float32", T.TimestampType: "Timestamp", T.NullType: "Null"}
    return names.get(type(kind), kind.simpleString())
