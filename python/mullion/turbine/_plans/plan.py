"""From a window and its subscription to a query: the topic's rows, the window in the JVM, its callbacks over Arrow.

::

    topic -> [process in Python] -> panes in the JVM -> callbacks in Python -> topics
              only if it does        keyed, on the        over Arrow, once a
              more than update       window's clock       batch and shard

One query for each window, with a checkpoint under the window's name: windows can be added, removed and reordered, and
one that fails says so by its name. A subscription with state is one query: ``process``, its windows and their callbacks
share the state of a shard in one task.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

import pyarrow as pa
from pyspark.accumulators import AccumulatorParam
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql import types as T  # noqa: N812

from mullion import _jvm, windowed
from mullion._panes import read_panes
from mullion._stateful.api import Branch, staged, stateful_map
from mullion.errors import FunctionError, InvalidArgumentError
from mullion.topics import Publisher, has_columns
from mullion.topics._outputs import NOTED, Make, Note, outputs_in
from mullion.topics._records import COLUMNS
from mullion.turbine import _callback_schemas, _schema_probe
from mullion.turbine._callbacks import (
    CLOSE,
    EARLY,
    FAILED,
    FIRING,
    GIVEN,
    PROCESS,
    SKIPPED,
    Called,
    PaneCallbacks,
    key_column,
    part_column,
)
from mullion.turbine._dynamic_windows import GAP, NAME, SIZE, SLIDE, FromData, Shape, note, shapes_in
from mullion.turbine._process_source import place_of
from mullion.turbine._schema_probe import rows_given
from mullion.turbine._subscription import Subscription
from mullion.turbine._topic_rows import (
    LONGEST_MS,
    TIME,
    on_event_time,
    require_columns,
    timed,
    topic_rows,
    with_arrival,
)
from mullion.turbine._window_rows import WindowRows, spark_schema
from mullion.turbine._window_spec import WindowSpec
from mullion.turbine._worker import (
    CallbacksOfMade,
    CallbacksOfShard,
    Needed,
    Process,
    ProcessOfShard,
    Returned,
    RowsForWindow,
)
from mullion.turbine.aggregates import Aggregate, Multi, Sum
from mullion.turbine.functions import Expression, column_of
from mullion.turbine.windowing import END, KAFKA_TIME, START, Spec, TurbineWindow
from mullion.windows import Custom, Early, Session, Sliding, Tumbling, Window

if TYPE_CHECKING:
    from mullion.turbine.app import App

QUIET_MS: Final = 250
"""After how long without rows a persistent window's event clock goes on with the wall clock."""


_ANSI: Final = "spark.sql.ansi.enabled"

UNBEGUN: Final = "spark.sql.streaming.stateStore.mullion.unbegun"
"""Lines with the names of windows that have no state yet, or ``*`` for a window alone."""


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
    """The schemas of what the callbacks of a query return, since the program started."""

    def __init__(self) -> None:
        self._known: dict[str, pa.Schema] = {}

    def __getitem__(self, name: str) -> pa.Schema | None:
        return self._known.get(name)

    def take(self, name: str, what: str, found: bytes) -> None:
        """A schema that a callback returned; raises :class:`FunctionError` for one that does not fit what was known."""
        was, now = self._known.get(name), pa.ipc.read_schema(pa.py_buffer(found))
        if was is not None:
            differs = _callback_schemas.difference(was, now)
            if differs is not None:
                raise FunctionError(
                    f"{what} returned another schema than before: {differs}. What it returns has one schema; a column "
                    "without values may be null."
                )
            now = _callback_schemas.merged(was, now)
        self._known[name] = now

    def is_known(self, name: str) -> bool:
        """Whether the types of all columns that a callback returns are known."""
        return name in self._known and not any(pa.types.is_null(field.type) for field in self._known[name])


class Plan(ABC):
    """One query: what it is called, what it counts, and what its callbacks return."""

    def __init__(self, app: App, subscription: Subscription, name: str, windows: Sequence[TurbineWindow]) -> None:
        self.app = app
        self.subscription = subscription
        self.name = name
        self.windows = {window.name: window for window in windows}
        self.counts = Counts(app.spark)
        self.returns = Returns()
        self.whole: dict[str, frozenset[str]] = {}
        self._lacking: dict[str, _jvm.Counter] = {}
        self._unbegun: dict[str, tuple[WindowRows, int]] = {}

    @property
    def settings(self) -> dict[str, str]:
        """What the session of the query is to be set to."""
        return {}

    @abstractmethod
    def rows(self, spark: SparkSession) -> DataFrame:
        """What the query streams."""

    @abstractmethod
    def make(self) -> Make:
        """What workers make of a batch of :meth:`rows`, to be published; what callbacks return is noted."""

    @property
    def steady(self) -> bool:
        """Whether workers know the schemas of all that callbacks return, and need not be looked after."""
        return all(self.returns.is_known(name) for name in self.callbacks())

    def learn(self, notes: Iterable[Note]) -> None:
        """Takes in which schemas the callbacks of a batch returned; raises :class:`FunctionError` if they differ."""
        callbacks = self.callbacks()
        for name, schema in dict.fromkeys(notes):
            self.returns.take(name, callbacks.get(name, f"The callback {name} of a window made from data"), schema)

    def mend(self, error: BaseException) -> bool:
        """Whether the query may start again after an error, for what was wrong is no more."""
        return _schema_probe.note(self.folder, error)

    def given(self, topic: DataFrame) -> dict[str, WindowRows]:
        """What ``process`` gives to each window, as far as it is known."""
        given = rows_given(self.subscription, topic, self.folder)
        # What came of an earlier start is in no batch.
        self._unbegun = {
            name: (given[name], self.counts[f"{name}.{GIVEN}"]) for name in self.windows if given[name].learns
        }
        return given

    def note_begun(self) -> None:
        """Notes windows that have been given their first rows, in a batch that is about to be committed."""
        begun = {n: rows for n, (rows, was) in self._unbegun.items() if self.counts[f"{n}.{GIVEN}"] > was}
        if begun:
            _schema_probe.note_begun(self.folder, begun)
            self._unbegun = {name: each for name, each in self._unbegun.items() if name not in begun}

    @property
    def unbegun(self) -> frozenset[str]:
        """Windows whose types may still be learnt, for they have been given no rows."""
        if self.subscription.process.python is None:
            return frozenset()
        return _schema_probe.unbegun(self.folder, self.windows)

    def gathered(self, panes: DataFrame) -> DataFrame:
        """The firings of a batch, so that one task has all those that one call of a callback is given.

        Panes are kept in many partitions. The table form is called once for all of a tick, or with a ``partition_key``
        once for those of a shard.
        """
        return panes

    def gathered_for(self, panes: DataFrame, tables: Sequence[Spec], partition_key: str | None) -> DataFrame:
        """The same for windows with callbacks of the table form; ``partition_key`` is what its column is called."""
        own = {self.subscription.partition_key} - {None}
        if all(set(spec.key) == own for spec in tables):
            # Panes are in partitions by their keys: they are together already.
            return panes
        if partition_key is None:
            return panes.repartition(1)
        shards = panes.sparkSession.conf.get("spark.sql.shuffle.partitions")
        return panes.repartition(int(shards or 1), column_of(partition_key))

    @property
    def folder(self) -> Path:
        """Where the query's checkpoint is, and what is noted beside it."""
        return self.app.folder_of(self.name)

    def callbacks(self) -> dict[str, str]:
        """The callbacks of the query by name, each in words."""
        found = {}
        for window in self.windows.values():
            for called in filter(None, self.called(window)):
                found[called.name] = f"{called.parameter}= of the window {window.name!r} ({place_of(called.function)})"
        return found

    def called(self, window: TurbineWindow) -> tuple[Called | None, Called]:
        """The early callback and the one of the close."""
        callbacks = window.spec.callbacks
        suffix = "_each" if callbacks.each else ""
        early = None
        if callbacks.early is not None:
            early = self._called(EARLY, window.name, f"on_early_fire{suffix}", callbacks.early)
        return early, self._called(CLOSE, window.name, f"on_close{suffix}", callbacks.close)

    def process(self) -> Process:
        """``process`` as workers run it."""
        options, subscription = self.subscription.options, self.subscription
        injected = (KAFKA_TIME,) if options.with_kafka_timestamp else ()
        called = self._called(PROCESS, subscription.name, PROCESS, subscription.function)
        own = None if subscription.makes_windows else frozenset(subscription.windows)
        return Process(subscription.name, called, injected, options.on_error, options.dead_letter, self.counts, own)

    def pane_callbacks(self, window: TurbineWindow) -> PaneCallbacks:
        """The callbacks of a window as workers run them."""
        spec, options = window.spec, self.subscription.options
        early, close = self.called(window)
        return PaneCallbacks(
            spec.name,
            spec.key,
            tuple(spec.parts),
            isinstance(spec.value, Multi),
            self.whole.get(spec.name, frozenset()),
            spec.callbacks.each,
            close,
            early,
            options.on_error,
            options.dead_letter,
            self.counts,
        )

    def panes(self, window: TurbineWindow, rows: DataFrame) -> DataFrame:
        """The panes of a window over the rows that it is given, as the operator makes them."""
        spec = window.spec
        keys = [column_of(name).alias(key_column(i)) for i, name in enumerate(spec.key)]
        asked = self.asked(spec.early_fire_interval_ms, self.store(window))
        if spec.time_column is not None:
            rows = timed(rows, spec.time_column, f"the window {spec.name!r}")
            asked |= on_event_time(spec.allowed_lateness_ms, spec.idle_tick_ms or QUIET_MS)
        return self.aggregated(rows, spec.name, spec.parts, spec.native(), keys, asked)

    def asked(self, early_ms: int | None, store: str) -> dict[str, Any]:
        """What all windows are asked for, as options of ``windowed``."""
        early = None if early_ms is None else Early(every=f"{early_ms} milliseconds", unchanged=True)
        return {"time": None, "early": early, "state": store}

    def aggregated(
        self,
        rows: DataFrame,
        name: str,
        parts: dict[str, Aggregate],
        window: Window,
        keys: list[Column],
        asked: dict[str, Any],
        part_name: Callable[[int], str] = part_column,
    ) -> DataFrame:
        """The panes of rows by keys; ``part_name`` says what the aggregates are called, by their places."""
        if any(part.by_arrival for part in parts.values()):
            rows = with_arrival(rows)

        def type_of(expression: Expression) -> T.DataType:
            return rows.select(expression.to_column()).schema[0].dataType

        self.whole[name] = frozenset(each for each, part in parts.items() if _is_whole(part, type_of))
        aggregates = [part.to_column(type_of).alias(part_name(i)) for i, part in enumerate(parts.values())]
        return windowed(rows, window, by=keys, **asked).agg(*aggregates)

    def store(self, window: TurbineWindow) -> str:
        """Where the panes of a window are."""
        return "memory" if window.spec.in_memory else "rocksdb"

    def failed(self, window: str) -> int:
        """How many panes of a window were left out because a callback failed."""
        return self.counts[f"{window}.{FAILED}"]

    def skipped(self, window: str) -> int:
        """How many rows were left out of a window because their batch lacked a column."""
        lacking = self._lacking.get(window)
        return self.counts[f"{window}.{SKIPPED}"] + (0 if lacking is None else lacking.value)

    def came_whole(self, topic: DataFrame, window: TurbineWindow) -> Column:
        """Whether a row of the topic came with all columns that a window needs; one that did not is counted."""
        spec, options = window.spec, self.subscription.options
        require_columns(topic, spec, options.topic)
        needs = (name for name in spec.needs if name != KAFKA_TIME or not options.with_kafka_timestamp)
        if spec.name not in self._lacking:
            self._lacking[spec.name] = _jvm.Counter(topic.sparkSession)
        # Rows of one call of produce came with the same columns.
        came = _jvm.per_text(topic.sparkSession, sf.col(COLUMNS), has_columns(*needs))
        return self._lacking[spec.name].counted(came)

    def _called(self, kind: str, of: str, parameter: str, function: Callable[..., Any]) -> Called:
        known = self.returns[f"{of}.{kind}"]
        return Called(kind, parameter, function, self.subscription.topic_of(kind, of), of, known)


@final
class WindowPlan(Plan):
    """The query of one window."""

    def __init__(self, app: App, subscription: Subscription, window: TurbineWindow) -> None:
        super().__init__(app, subscription, window.name, [window])
        self.window = window

    def rows(self, spark: SparkSession) -> DataFrame:
        """The window's firings: the key, ``firing``, ``window_start_ms``, ``window_end_ms`` and the values."""
        spec = self.window.spec
        topic = topic_rows(self.app, self.subscription, spark, self.name)
        given = self._as_they_are(topic) if self.subscription.process.python is None else self._of_process(topic)
        return in_words(self.panes(self.window, given), spec, sf.col("pane.firing").alias(FIRING))

    @property
    def settings(self) -> dict[str, str]:
        """Whether what the window's state means may still change."""
        return {UNBEGUN: "*"} if self.unbegun else {}

    def make(self) -> Make:
        """The callbacks."""
        return self.pane_callbacks(self.window)

    def gathered(self, panes: DataFrame) -> DataFrame:
        """Those of a tick, or of a tick and shard, where the callbacks take tables."""
        tables = [] if self.window.spec.callbacks.each else [self.window.spec]
        return self.gathered_for(panes, tables, self.subscription.partition_key)

    def _as_they_are(self, topic: DataFrame) -> DataFrame:
        rows = topic.where(self.came_whole(topic, self.window))
        return rows.select(*map(column_of, self.window.spec.needs))

    def _of_process(self, topic: DataFrame) -> DataFrame:
        given = self.given(topic)[self.name]
        process = self.process()
        return topic.mapInArrow(RowsForWindow(process, Needed(process, given)), given.spark_schema)


@final
class ProcessPlan(Plan):
    """The query that publishes what ``process`` of a subscription returns."""

    def __init__(self, app: App, subscription: Subscription, name: str) -> None:
        super().__init__(app, subscription, name, [])

    def rows(self, spark: SparkSession) -> DataFrame:
        """The topic's rows."""
        return topic_rows(self.app, self.subscription, spark, self.name)

    def make(self) -> Make:
        """``process``."""
        return Returned(self.process())

    def callbacks(self) -> dict[str, str]:
        """``process`` alone."""
        return _of_process(self.subscription)


@final
class ShardPlan(Plan):
    """The one query of a subscription with state: ``process``, its windows and their callbacks in one task a shard."""

    def __init__(self, app: App, subscription: Subscription, name: str) -> None:
        super().__init__(app, subscription, name, list(subscription.windows.values()))
        self.shapes: dict[str, Shape] = {}

    def rows(self, spark: SparkSession) -> DataFrame:
        """What ``process`` and the callbacks return, as rows ``NOTED``."""
        subscription = self.subscription
        topic = topic_rows(self.app, subscription, spark, self.name)
        given = self.given(topic)
        process, options = self.process(), subscription.options
        self.shapes = {shape.name: shape for shape in shapes_in(self.folder)} if subscription.makes_windows else {}
        known = None
        if subscription.makes_windows:
            taken = frozenset(part.name for part in self.app.names.all())
            known = FromData(
                subscription.name, subscription.instance, subscription.partition_key, taken, dict(self.shapes)
            )
        first = ProcessOfShard(process, tuple(Needed(process, given[name]) for name in self.windows), known)
        shard_by = [] if subscription.partition_key is None else [column_of(subscription.partition_key)]
        if not self.windows and not self.shapes:
            return stateful_map(topic, first, NOTED, shard_by=shard_by, wall_timers=True)
        made = None
        if known is not None:
            made = CallbacksOfMade(
                known, {}, dict(options.publish_to), options.on_error, options.dead_letter, self.counts
            )
        second = CallbacksOfShard(options.on_error, options.dead_letter, self.counts, {}, made)

        in_shard = self._in_shard(topic)

        def panes(name: str, given: DataFrame) -> DataFrame:
            made = self.panes(self.windows[name], in_shard(given, f"the window {name!r}"))
            # Which of its values are whole numbers is known now, before the callbacks go to workers.
            second.windows[name] = self.pane_callbacks(self.windows[name])
            return made

        def panes_of(shape: Shape, given: DataFrame) -> DataFrame:
            panes = self.panes_of(shape, in_shard(given, "a window made from data"))
            assert made is not None
            made.wholes[shape.name] = self.whole[shape.name]
            return panes

        branches = {
            name: Branch(given[name].spark_schema, partial(panes, name), window.spec.time_column)
            for name, window in self.windows.items()
        }
        branches |= {
            name: Branch(spark_schema(shape.rows), partial(panes_of, shape), shape.time_column)
            for name, shape in self.shapes.items()
        }
        return staged(topic, first, branches, second, NOTED, shard_by=shard_by, wall_timers=True)

    def _in_shard(self, topic: DataFrame) -> Callable[[DataFrame, str], DataFrame]:
        """What lets rows that ``process`` gives to a window pass if they are in the shard of their key.

        Rows are in shards by the ``partition_key`` of the topic, and panes by what ``process`` gives. Where that is
        another value, a group would be in several shards, and come out in pieces.
        """
        subscription, name = self.subscription, self.subscription.partition_key
        if name is None:
            return lambda rows, what: rows
        kind = topic.select(column_of(name)).schema[0].dataType

        def checked(rows: DataFrame, what: str) -> DataFrame:
            key = column_of(name)
            same = rows.select(key).schema[0].dataType == kind
            before = f"process of {subscription.name} gave {what} a row whose {name!r} is "
            after = (
                f" in a shard that has other values of {name!r}: process changed the column, which is the "
                "partition_key, and the group would come out in pieces, one a shard. Leave the column as it is in the "
                "topic, and put what you make of it into another one, which key= may name beside it; or change it "
                f"where the topic is produced. ({place_of(subscription.function)})"
            )
            in_shard = _jvm.in_shard(
                rows.sparkSession, key if same else key.try_cast(kind), key.cast("string"), before, after
            )
            return rows.where(in_shard)

        return checked

    def mend(self, error: BaseException) -> bool:
        """Has the next start have operators for windows that were made from data, if that is what failed."""
        return note(self.folder, error) or super().mend(error)

    def panes_of(self, shape: Shape, rows: DataFrame) -> DataFrame:
        """The panes of all windows of a shape; ``key_0`` is the window's name."""
        keys = [sf.col(NAME).alias(key_column(0))]
        keys += [column_of(name).alias(key_column(i)) for i, name in enumerate(shape.key, start=1)]
        asked = self.asked(shape.early_fire_interval_ms, "rocksdb")
        if shape.time_column is not None:
            rows = timed(rows, shape.time_column, f"a window of {self.subscription.name}")
            asked |= on_event_time(shape.allowed_lateness_ms, QUIET_MS)
        return self.aggregated(rows, shape.name, shape.parts, _window_of(shape), keys, asked)

    def make(self) -> Make:
        """What there is already."""
        return outputs_in

    @property
    def steady(self) -> bool:
        """Never: what workers know of earlier batches is as old as the query."""
        return False

    def callbacks(self) -> dict[str, str]:
        """Those of all windows, and ``process``."""
        return {**super().callbacks(), **_of_process(self.subscription)}

    def store(self, window: TurbineWindow) -> str:
        """All that is in one task is in one store."""
        return "rocksdb"


@contextmanager
def session_of(
    spark: SparkSession, subscription: Subscription | None = None, more: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """The session that a query of a subscription is made in, which is the active one meanwhile.

    It has as many shuffle partitions as the subscription asks for. Numbers that do not fit are errors in it, and are
    neither wrapped nor cut, also where the program's session has ``spark.sql.ansi.enabled=false``.
    """
    settings = dict(more or {})
    if spark.conf.get(_ANSI) != "true":
        settings[_ANSI] = "true"
    if subscription is not None and subscription.options.parallelism is not None:
        settings["spark.sql.shuffle.partitions"] = str(subscription.options.parallelism)
    session = _jvm.session_with(spark, settings) if settings else spark
    with _jvm.active(session):
        yield session


def _window_of(shape: Shape) -> Window:
    """The window of a shape as the operator knows it: each row brings its lengths, where it has a time of its own."""
    if shape.time_column is None:
        size, slide, gap = (None if length is None else f"{length} milliseconds" for length in shape.lengths)
        if gap is not None:
            return Session(gap)
        assert size is not None
        return Tumbling(size) if slide is None else Sliding(size, slide)
    if shape.session:
        return Session(sf.expr("INTERVAL '0.001' SECOND") * sf.col(GAP))
    at, size_ms, slide_ms = sf.unix_millis(TIME), sf.col(SIZE), sf.col(SLIDE)
    last = at - sf.pmod(at, slide_ms)
    first = at - size_ms - sf.pmod(at - size_ms, slide_ms) + slide_ms

    def window(start: Column) -> Column:
        return sf.struct(_moment(start).alias("start"), _moment(start + size_ms).alias("end"))

    return Custom(sf.when(sf.col(TIME).isNotNull(), sf.transform(sf.sequence(first, last, slide_ms), window)))


def _moment(ms: Column) -> Column:
    return sf.timestamp_millis(sf.least(sf.greatest(ms, sf.lit(-LONGEST_MS)), sf.lit(LONGEST_MS)))


def _of_process(subscription: Subscription) -> dict[str, str]:
    if not subscription.process.returns:
        return {}
    return {f"{subscription.name}.{PROCESS}": f"process of {subscription.name} ({place_of(subscription.function)})"}


def _is_whole(part: Aggregate, type_of: Callable[[Expression], T.DataType]) -> bool:
    # What Arrow has as uint64 is 20 digits in Spark.
    return isinstance(part, Sum) and type_of(part.inputs[0]) in (T.LongType(), T.DecimalType(20, 0))


def publish(plan: Plan, publisher: Publisher, batch: DataFrame, number: int) -> None:
    """Calls the callbacks for a batch, and publishes what they return.

    Until each of them has returned something, with no column all null, the types of what they return are not known, and
    a batch's are compared before any of it is published. From then on workers compare with what is known.
    """
    publisher.publish_made(plan.gathered(batch), number, plan.make(), None if plan.steady else plan.learn)
    plan.note_begun()


def has_run(checkpoint: Path) -> bool:
    """Whether a query has committed a batch in a checkpoint."""
    return any((checkpoint / "commits").glob("[0-9]*"))


def panes_of_made(folder: Path, checkpoint: Path, spec: WindowSpec, spark: SparkSession) -> DataFrame:
    """The open panes of a window that was made from data, without its name."""
    shape = Shape.of(spec, pa.schema([]))
    if shape not in shapes_in(folder):
        raise InvalidArgumentError(f"The window {spec.name!r} has been given no rows yet: it has no panes.")
    panes = read_panes(checkpoint, window=shape.name, spark=spark).where(sf.col(key_column(0)) == spec.name)
    keys = [sf.col(key_column(i + 1)).alias(key_column(i)) for i in range(len(spec.key))]
    named = [key_column(i) for i in range(len(spec.key) + 1)]
    return panes.select(*keys, *(each for each in panes.columns if each not in named))


def in_words(panes: DataFrame, spec: Spec | WindowSpec, *more: Column) -> DataFrame:
    """The operator's panes with the columns that callbacks have."""
    return panes.select(
        *(sf.col(key_column(i)).alias(name) for i, name in enumerate(spec.key)),
        *more,
        sf.unix_millis("window.start").alias(START),
        sf.unix_millis("window.end").alias(END),
        *(sf.col(part_column(i)).alias(name) for i, name in enumerate(spec.parts)),
    )
