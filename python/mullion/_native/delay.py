"""The watermark delay that a stream needs, from the lateness of its rows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from math import ceil
from typing import Any, Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import IntegralType, TimestampType

from mullion._bridge.columns import ColumnOrName, field_of
from mullion._bridge.connect import is_remote
from mullion._util.delays import ROUND_US, SHARES, KeyLateness, SuggestedDelay, rounded_up
from mullion._util.signatures import explained
from mullion.errors import InvalidArgumentError
from mullion.testing import ClockedQuery

_PARTS: Final = 1000
_MOST_KEYS: Final = 20
_MICROSECOND: Final = timedelta(microseconds=1)
# The error of a quantile's rank is below one in this number of rows.
_ACCURACY: Final = 1_000_000


@explained("suggest_delay(rows, time='ts', arrival='ingested_at')")
def suggest_delay(
    source: DataFrame | StreamingQuery | ClockedQuery,
    *,
    time: ColumnOrName | None = None,
    arrival: ColumnOrName | None = None,
    by: ColumnOrName | Sequence[ColumnOrName] = (),
    keep: float = 0.999,
) -> SuggestedDelay:
    """Suggests the delay of ``withWatermark`` for a stream, from stored rows or from a query.

    The lateness of a row is the largest event time of all rows that arrived before it, minus its own. Spark's watermark
    is that largest time minus the delay, so a row is never late if its lateness is at most the delay. A larger lateness
    need not be too much: a row is late only if its pane has closed.

    - ``source``: a batch DataFrame of rows as the stream delivered them; or a query, running or finished.
    - ``time``: the column with the event time, for a DataFrame.
    - ``arrival``: the column that gives the order of arrival, for a DataFrame: a timestamp, such as that of ingestion,
      or a whole number, such as an offset of one Kafka partition or the number of a micro-batch. A table without such a
      column has no order of arrival, and lateness cannot be computed from it. Rows with the same value arrive together,
      as those of one micro-batch do, and cannot make each other late.
    - ``by``: columns, for a DataFrame. The result then also has the lateness of each of their values, so that you see
      which device, partition or country is late. The clock is the one of all rows.
    - ``keep``: the share of rows that must be in time, above 0 and at most 1.

    Rows without an event time or arrival are left out. It reads a DataFrame three times, and sorts its rows by arrival.

    For a query, the result has the lateness of the *latest row of each micro-batch*, from Spark's progress reports, and
    ``keep`` is a share of batches. Spark keeps the reports of the last 100 batches
    (``spark.sql.streaming.numRecentProgressUpdates``). The query needs a watermark.

    Raises :class:`UnknownColumnError` for a missing column, and :class:`InvalidArgumentError` for a stream, an
    invalid value, and rows or a query without any lateness to compute.

    >>> print(suggest_delay(flights, time="due", arrival="ingested_at"))  # doctest: +SKIP
    Delay: 20 minutes, for 99.9 % of 336776 rows
    """
    if isinstance(keep, bool) or not isinstance(keep, (int, float)) or not 0 < keep <= 1:
        raise InvalidArgumentError(f"keep={keep!r} is not a share of rows. Write, for instance, keep=0.999.")
    if isinstance(source, (StreamingQuery, ClockedQuery)) or (is_remote(source) and not isinstance(source, DataFrame)):
        for name, value in (("time", time), ("arrival", arrival), ("by", by or None)):
            if value is not None:
                raise InvalidArgumentError(
                    f"{name}={value!r} is for a DataFrame. The lateness of a query comes from its progress reports: "
                    "write suggest_delay(query)."
                )
        reports = source.progress if isinstance(source, ClockedQuery) else source.recentProgress
        return _of_reports(reports, keep)
    if not isinstance(source, DataFrame):
        raise InvalidArgumentError(
            f"suggest_delay() was given a {type(source).__name__}, which is neither a DataFrame nor a query."
        )
    if source.isStreaming:
        raise InvalidArgumentError(
            "suggest_delay() reads stored rows, and this DataFrame is a stream. Read the same source with spark.read, "
            "or pass a query that runs over it."
        )
    if time is None or arrival is None:
        name, column = ("time", "the event time") if time is None else ("arrival", "the order of arrival")
        raise InvalidArgumentError(
            f"suggest_delay() was not given {name}=, the column with {column}. Write, for instance, "
            "suggest_delay(rows, time='ts', arrival='ingested_at')."
        )
    keys = [by] if isinstance(by, (str, Column)) else [*by]
    return _of_rows(source, time, arrival, keys, keep)


def _of_rows(
    df: DataFrame, time: ColumnOrName, arrival: ColumnOrName, by: Sequence[ColumnOrName], keep: float
) -> SuggestedDelay:
    names = [f"_key{number}" for number in range(len(by))]
    for key in by:
        field_of(df, f"by={key!r}", key)
    rows = df.select(
        _micros(df, time, "time").alias("_time"),
        _place(df, arrival).alias("_arrival"),
        *(_column(key).cast("string").alias(name) for key, name in zip(by, names, strict=True)),
    ).where("_time IS NOT NULL AND _arrival IS NOT NULL")
    lateness = _with_lateness(rows)
    shares = [*SHARES, keep]
    counts = [F.count_if(F.col("_late") > bound) for bound in ROUND_US]
    result: Any = lateness.agg(
        F.count("*").alias("rows"),
        F.percentile_approx("_late", shares, _ACCURACY).alias("quantiles"),
        F.array(*counts).alias("late"),
    ).first()
    *quantiles, enough = result.quantiles
    return SuggestedDelay(
        rounded_up(enough),
        keep,
        tuple((share, us * _MICROSECOND) for share, us in zip(SHARES, quantiles, strict=True)),
        tuple((bound * _MICROSECOND, count) for bound, count in zip(ROUND_US, result.late, strict=True)),
        result.rows,
        keys=tuple(_latest_keys(lateness, names, keep)) if by else (),
    )


def _latest_keys(lateness: DataFrame, names: Sequence[str], keep: float) -> list[KeyLateness]:
    keys = lateness.groupBy(*names).agg(
        F.count("*").alias("rows"),
        F.percentile_approx("_late", keep, _ACCURACY).alias("late_by"),
        F.max("_late").alias("latest"),
    )
    latest = keys.orderBy(F.desc("late_by"), F.desc("latest"), *names).limit(_MOST_KEYS).collect()
    return [
        KeyLateness(tuple(row[name] for name in names), row.rows, row.late_by * _MICROSECOND, row.latest * _MICROSECOND)
        for row in latest
    ]


def _with_lateness(rows: DataFrame) -> DataFrame:
    """The rows with their lateness in microseconds, 0 for rows that are not behind.

    Arrival is cut into parts, so that no task needs all rows for the largest time before a row.
    """
    span: Any = rows.agg(F.min("_arrival").alias("first"), F.max("_arrival").alias("last")).first()
    if span.first is None:
        raise InvalidArgumentError(
            "suggest_delay() found no row that has both an event time and an arrival, so there is no lateness to "
            "compute. Check the columns of time= and arrival= for nulls."
        )
    width = (span.last - span.first) // _PARTS + 1
    in_parts = rows.withColumn("_part", F.expr(f"(_arrival - {span.first}) div {width}"))
    peaks = sorted(tuple(row) for row in in_parts.groupBy("_part").agg(F.max("_time")).collect())
    before: list[tuple[int, int | None]] = []
    largest: int | None = None
    for part, peak in peaks:
        before.append((part, largest))
        largest = peak if largest is None else max(largest, peak)
    earlier_parts = rows.sparkSession.createDataFrame(before, "_part long, _before long")
    earlier_rows = Window.partitionBy("_part").orderBy("_arrival").rangeBetween(Window.unboundedPreceding, -1)
    behind = F.greatest("_before", F.max("_time").over(earlier_rows)) - F.col("_time")
    joined = in_parts.join(F.broadcast(earlier_parts), "_part")
    return joined.withColumn("_late", F.greatest(F.coalesce(behind, F.lit(0)), F.lit(0)))


def _micros(df: DataFrame, column: ColumnOrName, name: str) -> Column:
    kind = field_of(df, f"{name}={column!r}", column).dataType
    if not isinstance(kind, TimestampType):
        raise InvalidArgumentError(
            f"{name}={column!r} is of the type {kind.simpleString()}, and must be a TIMESTAMP. Convert it, as in "
            "F.to_timestamp(...)."
        )
    return F.unix_micros(_column(column))


def _place(df: DataFrame, arrival: ColumnOrName) -> Column:
    kind = field_of(df, f"arrival={arrival!r}", arrival).dataType
    if isinstance(kind, IntegralType):
        return _column(arrival).cast("long")
    if isinstance(kind, TimestampType):
        return F.unix_micros(_column(arrival))
    raise InvalidArgumentError(
        f"arrival={arrival!r} is of the type {kind.simpleString()}, and must be a TIMESTAMP or a whole number, such as "
        "an offset or the number of a batch."
    )


def _column(column: ColumnOrName) -> Column:
    return column if isinstance(column, Column) else F.col(column)


def _of_reports(reports: Sequence[Any], keep: float) -> SuggestedDelay:
    lateness: list[int] = []
    largest: datetime | None = None
    for report in reports:
        times = report["eventTime"] or {}
        if "max" not in times:
            continue
        oldest, newest = (datetime.fromisoformat(times[name]) for name in ("min", "max"))
        if largest is not None:
            lateness.append(max((largest - oldest) // _MICROSECOND, 0))
        largest = newest if largest is None else max(largest, newest)
    if not lateness:
        raise InvalidArgumentError(
            "The progress reports of this query have event times for fewer than two micro-batches with rows, so there "
            "is no lateness to compute. The query needs a watermark, and rows in several batches; or pass the rows as "
            "a DataFrame."
        )
    lateness.sort()

    def quantile(share: float) -> int:
        return lateness[ceil(share * len(lateness)) - 1]

    return SuggestedDelay(
        rounded_up(quantile(keep)),
        keep,
        tuple((share, quantile(share) * _MICROSECOND) for share in SHARES),
        tuple((bound * _MICROSECOND, sum(us > bound for us in lateness)) for bound in ROUND_US),
        len(lateness),
        "batches",
    )
