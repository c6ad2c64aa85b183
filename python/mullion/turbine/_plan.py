"""From a window and its subscription to a query: the topic's rows, the window in the JVM, its callbacks over Arrow.

::

    topic -> [process in Python] -> panes in the JVM -> callbacks in Python -> topics
              only if it does        keyed, on the        over Arrow, once a
              more than update       window's clock       batch and shard

One query for each window, with a checkpoint under the window's name: windows can be added, removed and reordered, and
one that fails says so by its name. The schema of what callbacks return is kept beside the checkpoint.
"""

from __future__ import annotations

import base64
import difflib
import json
import pickle
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, final

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.accumulators import AccumulatorParam
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from mullion import _jvm, windowed
from mullion.errors import FunctionError, InvalidArgumentError, UnknownColumnError
from mullion.topics import Publisher, has_columns
from mullion.topics._dir_topic import replace_text
from mullion.topics._records import COLUMNS, TIMESTAMP
from mullion.turbine import _schemas
from mullion.turbine._callbacks import (
    CLOSE,
    EARLY,
    FAILED,
    FIRING,
    OUT,
    PROCESS,
    SKIPPED,
    Called,
    PaneCallbacks,
    told,
)
from mullion.turbine._process import place_of
from mullion.turbine._subscription import Subscription
from mullion.turbine._worker import Process, Returned, RowsForWindow
from mullion.turbine.aggregates import ARRIVAL, Aggregate, Sum
from mullion.turbine.functions import Expression, column_of
from mullion.turbine.state import NoState
from mullion.turbine.windowing import END, KAFKA_TIME, START, UPDATING, Spec, TurbineWindow
from mullion.windows import Early

if TYPE_CHECKING:
    from mullion.turbine import App

QUIET_MS: Final = 250
"""After how long without rows a persistent window's event clock goes on with the wall clock."""

_TIME: Final = "__mullion_time"
_LONGEST_MS: Final = (2**63 - 1) // 1000


class Counts:
    """What is counted in workers, by name."""

    def __init__(self, spark: SparkSession) -> None:
        self._all: Any = spark.sparkContext.accumulator(Counter(), _Adding())

    def __call__(self, name: str, by: int) -> None:
        """Counts so many, in a worker."""
        self._all.add(Counter({name: by}))

    def __getitem__(self, name: str) -> int:
        return int(self._all.value[name])


class _Adding(AccumulatorParam[Counter[str]]):
    def zero(self, value: Counter[str]) -> Counter[str]:
        return Counter()

    def addInPlace(self, value1: Counter[str], value2: Counter[str]) -> Counter[str]:  # noqa: N802
        value1.update(value2)
        return value1


@final
class Returns:
    """The schemas of what the callbacks of a query return, kept beside its checkpoint."""

    def __init__(self, file: Path) -> None:
        self._file = file
        noted = json.loads(file.read_text("utf-8")) if file.exists() else {}
        self._known = {kind: _schema_of(base64.b64decode(text)) for kind, text in noted.items()}

    def __getitem__(self, kind: str) -> pa.Schema | None:
        return self._known.get(kind)

    def take(self, kind: str, what: str, found: Iterable[bytes]) -> None:
        """Schemas that a batch had; raises :class:`FunctionError` for one that does not fit."""
        was = self._known.get(kind)
        now = was
        for schema in map(_schema_of, found):
            if now is not None:
                differs = _schemas.difference(now, schema)
                if differs is not None:
                    raise FunctionError(f"{what} returned two schemas: {differs}. What it returns has one schema.")
            now = schema if now is None else _schemas.merged(now, schema)
        if now is not None and (was is None or not now.equals(was)):
            self._known[kind] = now
            noted = {k: base64.b64encode(s.serialize().to_pybytes()).decode() for k, s in self._known.items()}
            replace_text(self._file, json.dumps(noted, indent=1))

    def complete(self, kinds: Iterable[str]) -> bool:
        """Whether the types of all columns are known."""
        return all(kind in self._known and not _has_null(self._known[kind]) for kind in kinds)


@final
class WindowPlan:
    """The query of one window."""

    def __init__(self, app: App, subscription: Subscription, window: TurbineWindow) -> None:
        self.app = app
        self.subscription = subscription
        self.window = window
        self.name = window.name
        self.counts = Counts(app.spark)
        self._returns = Returns(app.folder_of(window.name) / "returns.json")
        self._whole: frozenset[str] = frozenset()
        self._skipped: dict[tuple[str, int], int] = {}

    def panes(self, spark: SparkSession) -> DataFrame:
        """The window's firings: the key, ``firing``, ``window_start_ms``, ``window_end_ms`` and the values."""
        session = sharded(spark, self.subscription)
        topic = topic_rows(self.app, self.subscription, session, self.window.name)
        given = self._as_they_are(topic) if self._in_jvm else self._of_process(topic)
        return self._fired(self._windowed(given))

    @property
    def _in_jvm(self) -> bool:
        return self.subscription.process.python is None

    def _as_they_are(self, topic: DataFrame) -> DataFrame:
        spec, options = self.window.spec, self.subscription.options
        require_columns(topic, spec, options.topic)
        came = has_columns(*(name for name in spec.needs if name != KAFKA_TIME or not options.with_kafka_timestamp))
        counted = topic.observe(SKIPPED, sf.count_if(~came).alias(SKIPPED))
        return counted.where(came).select(*(column_of(name) for name in spec.needs))

    def _of_process(self, topic: DataFrame) -> DataFrame:
        spec = self.window.spec
        schema = rows_given(self.subscription, self.window, topic)
        called = _called(self.subscription, PROCESS, None)
        rows = RowsForWindow(_process_of(self.subscription, called, self.counts), spec.name, schema)
        return topic.mapInArrow(rows, from_arrow_schema(schema))

    def _windowed(self, rows: DataFrame) -> DataFrame:
        spec = self.window.spec
        early = spec.early_fire_interval_ms
        asked: dict[str, Any] = {
            "by": [column_of(name).alias(_key(i)) for i, name in enumerate(spec.key)],
            "early": None if early is None else Early(every=f"{early} milliseconds", unchanged=True),
            "state": "memory" if spec.in_memory else "rocksdb",
        }
        if spec.time_column is None:
            asked["time"] = None
        else:
            rows = rows.withColumn(_TIME, _event_time(rows, spec)).withWatermark(_TIME, "0 seconds")
            asked |= {
                "time": _TIME,
                "allowed_lateness": f"{spec.allowed_lateness_ms} milliseconds",
                "late": "reopen",
                "idle_after": f"{spec.idle_tick_ms or QUIET_MS} milliseconds",
            }
        if any(part.by_arrival for part in spec.parts.values()):
            # Of batches that follow one another, and within one of the order in which it is read.
            row = _jvm.row_in_batch(rows.sparkSession)
            arrival = sf.struct(sf.current_timestamp().alias("batch"), row.alias("row"))
            rows = rows.withColumn(ARRIVAL, arrival)
        return windowed(rows, spec.native(), **asked).agg(*self._aggregates(rows))

    def _aggregates(self, rows: DataFrame) -> list[Column]:
        def type_of(expression: Expression) -> T.DataType:
            return rows.select(expression.to_column()).schema[0].dataType

        parts = self.window.spec.parts
        self._whole = frozenset(name for name, part in parts.items() if _is_whole(part, type_of))
        return [part.to_column(type_of).alias(_part(i)) for i, part in enumerate(parts.values())]

    def _fired(self, panes: DataFrame) -> DataFrame:
        spec = self.window.spec
        return panes.select(
            *(sf.col(_key(i)).alias(name) for i, name in enumerate(spec.key)),
            sf.col("pane.firing").alias(FIRING),
            sf.unix_millis("window.start").alias(START),
            sf.unix_millis("window.end").alias(END),
            *(sf.col(_part(i)).alias(name) for i, name in enumerate(spec.parts)),
        )

    def outputs(self, fired: DataFrame) -> DataFrame:
        """What the callbacks return for a batch of firings: rows of ``OUT``."""
        spec, options = self.window.spec, self.subscription.options
        suffix = "_each" if spec.callbacks.each else ""
        close = _called(self.subscription, CLOSE, self._returns[CLOSE], f"on_close{suffix}", spec.callbacks.close)
        early = None
        if spec.callbacks.early is not None:
            early = _called(
                self.subscription, EARLY, self._returns[EARLY], f"on_early_fire{suffix}", spec.callbacks.early
            )
        callbacks = PaneCallbacks(
            spec.name,
            spec.key,
            tuple(spec.parts),
            len(spec.parts) > 1 or not isinstance(spec.value, Aggregate),
            self._whole,
            spec.callbacks.each,
            close,
            early,
            options.on_error,
            options.dead_letter,
            self.counts,
        )
        return fired.mapInArrow(callbacks, OUT)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The callbacks that the window has."""
        return (CLOSE,) if self.window.spec.callbacks.early is None else (EARLY, CLOSE)

    @property
    def returns(self) -> Returns:
        """The schemas of what they return."""
        return self._returns

    @property
    def failed(self) -> int:
        """How many panes were left out because a callback failed."""
        return self.counts[FAILED]

    @property
    def skipped(self) -> int:
        """How many rows were left out because their batch lacked a column."""
        self.note(None)
        return self.counts[SKIPPED] + sum(self._skipped.values())

    def note(self, last: int | None) -> None:
        """Takes in what the latest batches of its query counted, at most so many of them."""
        query = self.app.queries.get(self.name)
        if query is not None:
            for report in _jvm.reports_of(query.query)[-(last or 0) :]:
                observed = report.get("observedMetrics", {}).get(SKIPPED)
                if observed is not None:
                    self._skipped[(report["runId"], report["batchId"])] = int(observed[SKIPPED] or 0)

    def what(self, kind: str) -> str:
        """A callback, for a message."""
        callbacks = self.window.spec.callbacks
        parameter = {EARLY: "on_early_fire", CLOSE: "on_close"}[kind] + ("_each" if callbacks.each else "")
        function = callbacks.early if kind == EARLY else callbacks.close
        assert function is not None
        return f"{parameter}= of the window {self.window.name!r} ({place_of(function)})"


@final
class ProcessPlan:
    """The query that publishes what ``process`` of a subscription returns."""

    kinds = (PROCESS,)

    def __init__(self, app: App, subscription: Subscription, name: str) -> None:
        self.app = app
        self.subscription = subscription
        self.name = name
        self.counts = Counts(app.spark)
        self.returns = Returns(app.folder_of(name) / "returns.json")

    def rows(self, spark: SparkSession) -> DataFrame:
        """The topic's rows."""
        return topic_rows(self.app, self.subscription, sharded(spark, self.subscription), self.name)

    def outputs(self, rows: DataFrame) -> DataFrame:
        """What ``process`` returns for a batch: rows of ``OUT``."""
        called = _called(self.subscription, PROCESS, self.returns[PROCESS])
        return rows.mapInArrow(Returned(_process_of(self.subscription, called, self.counts)), OUT)

    def what(self, kind: str) -> str:
        """The callback, for a message."""
        return f"process of {self.subscription.name} ({place_of(self.subscription.function)})"


Plan: TypeAlias = WindowPlan | ProcessPlan


def sharded(spark: SparkSession, subscription: Subscription) -> SparkSession:
    """The session, with as many shuffle partitions as the subscription asks for."""
    shards = subscription.options.parallelism
    return spark if shards is None else _jvm.session_with(spark, {"spark.sql.shuffle.partitions": str(shards)})


def topic_rows(app: App, subscription: Subscription, spark: SparkSession, job: str) -> DataFrame:
    """The topic of a subscription: its columns, ``_columns``, and ``_kafka_ts_ms`` where that is asked for."""
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


def require_columns(topic: DataFrame, spec: Spec, name: str) -> None:
    """Raises :class:`UnknownColumnError` for a column that a window needs and its topic has not."""
    known = [column for column in topic.columns if column not in (COLUMNS, TIMESTAMP, "_key")]
    for needed in spec.needs:
        if needed in known:
            continue
        if needed == KAFKA_TIME:
            raise UnknownColumnError(
                f"The window {spec.name!r} reads {KAFKA_TIME!r}, which its subscription does not ask for. Write "
                f"@app.subscribe({name!r}, with_kafka_timestamp=True, ...)."
            )
        meant = difflib.get_close_matches(needed, known, 1)
        raise UnknownColumnError(
            f"The window {spec.name!r} reads the column {needed!r}, which no row of the topic {name!r} has. "
            f"{f'Did you mean {meant[0]!r}?' if meant else 'It has ' + ', '.join(map(repr, known)) + '.'} Where it "
            "comes "
            "later, say so with schema= of @app.subscribe."
        )


def rows_given(subscription: Subscription, window: TurbineWindow, topic: DataFrame) -> pa.Schema:
    """The columns that a window needs, in the types in which ``process`` gives them to it.

    Found by one call of ``process`` with a batch of the topic's columns and no rows, on a copy of the subscription. A
    ``process`` that gives such a batch to no window, or that fails, is taken to give the topic's own columns.
    """
    spec = window.spec
    columns = [name for name in topic.columns if name not in (COLUMNS, TIMESTAMP, "_key")]
    whole = to_arrow_schema(topic.select(*map(column_of, columns)).schema, timezone="UTC")
    given: dict[str, pa.Schema] = {}
    failed = ""
    token = UPDATING.set(lambda updated, batch: given.setdefault(updated.name, batch.schema) and None)
    try:
        copy = pickle.loads(cloudpickle.dumps(subscription.instance))  # type: ignore[no-untyped-call]  # noqa: S301
        copy.process(pa.RecordBatch.from_pylist([], schema=whole), NoState())
    except Exception as error:
        failed = f" A call with no rows failed with {told(error, subscription.function)}."
    finally:
        UPDATING.reset(token)
    found = given.get(window.name, pa.schema([]))
    fields = []
    for needed in spec.needs:
        for schema in (found, whole):
            if needed in schema.names:
                fields.append(schema.field(needed).with_nullable(True).remove_metadata())
                break
        else:
            raise UnknownColumnError(
                f"The window {window.name!r} needs the column {needed!r}, whose type is not known: the topic "
                f"{subscription.options.topic!r} has none, and process, called with a batch of no rows, gave the "
                "window "
                f"none.{failed} Have process treat a batch of no rows like any other, or name the column with "
                "schema= of "
                "@app.subscribe."
            )
    return pa.schema(fields)


def _event_time(rows: DataFrame, spec: Spec) -> Column:
    assert spec.time_column is not None
    kind = rows.select(column_of(spec.time_column)).schema[0].dataType
    if not isinstance(kind, T.LongType):
        fix = {
            T.TimestampType: "Give the instant in milliseconds, as in pc.cast(ts, pa.int64()) in process",
            T.StringType: "Parse it in process",
            T.DoubleType: "Give whole milliseconds, not seconds as a float",
        }.get(type(kind), "Cast it to int64 in process")
        raise InvalidArgumentError(
            f"time_column={spec.time_column!r} of the window {spec.name!r} is {_arrow_name(kind)}, and has to be "
            "Int64: "
            f"milliseconds since the epoch. {fix}, or where it is produced."
        )
    column = column_of(spec.time_column)
    limits = sf.lit(_LONGEST_MS), sf.lit(-_LONGEST_MS)
    saturated = sf.least(sf.greatest(column, limits[1]), limits[0])
    return sf.when(column.isNotNull(), sf.timestamp_millis(saturated))


def _called(
    subscription: Subscription,
    kind: str,
    schema: pa.Schema | None,
    parameter: str = PROCESS,
    function: Callable[..., Any] | None = None,
) -> Called:
    return Called(kind, parameter, function or subscription.function, subscription.topic_of(kind), schema)


def _process_of(subscription: Subscription, called: Called, counts: Counts) -> Process:
    options = subscription.options
    injected = (KAFKA_TIME,) if options.with_kafka_timestamp else ()
    return Process(subscription.name, called, injected, options.on_error, options.dead_letter, counts)


def _is_whole(part: Aggregate, type_of: Callable[[Expression], T.DataType]) -> bool:
    return isinstance(part, Sum) and isinstance(type_of(part.inputs[0]), T.LongType)


def publish(plan: Plan, publisher: Publisher, batch: DataFrame, number: int) -> None:
    """Calls the callbacks for a batch, and publishes what they return.

    Until each of them has returned something, with no column all null, the types of what they return are not known, and
    a batch's are compared before any of it is published. From then on workers compare with what is known.
    """
    if isinstance(plan, WindowPlan):
        # Spark keeps the reports of some batches only.
        plan.note(last=1)
    outputs, plain = plan.outputs(batch), ("topic", "key", "batch")
    if plan.returns.complete(plan.kinds):
        publisher.publish(outputs.select(*plain), number)
        return
    outputs = outputs.persist()
    try:
        found = outputs.where("schema is not null").select("kind", "schema").collect()
        for kind, schema in dict.fromkeys((row.kind, bytes(row.schema)) for row in found):
            plan.returns.take(kind, plan.what(kind), [schema])
        publisher.publish(outputs.select(*plain), number)
    finally:
        outputs.unpersist()


def has_run(checkpoint: Path) -> bool:
    """Whether a query has committed a batch in a checkpoint."""
    return any((checkpoint / "commits").glob("[0-9]*"))


def open_panes(panes: DataFrame, window: TurbineWindow) -> DataFrame:
    """The panes of a checkpoint as callbacks have them."""
    spec = window.spec
    return panes.select(
        *(sf.col(_key(i)).alias(name) for i, name in enumerate(spec.key)),
        sf.unix_millis("window.start").alias(START),
        sf.unix_millis("window.end").alias(END),
        *(sf.col(_part(i)).alias(name) for i, name in enumerate(spec.parts)),
    )


def _key(index: int) -> str:
    return f"key_{index}"


def _part(index: int) -> str:
    return f"value_{index}"


def _schema_of(written: bytes) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(written))


def _has_null(schema: pa.Schema) -> bool:
    return any(pa.types.is_null(field.type) for field in schema)


def _arrow_name(kind: T.DataType) -> str:
    names = {T.IntegerType: "Int32", T.ShortType: "Int16", T.ByteType: "Int8", T.StringType: "String"}
    names |= {T.DoubleType: "Float64", T.FloatType: "Float32", T.TimestampType: "Timestamp", T.NullType: "Null"}
    return names.get(type(kind), kind.simpleString())
