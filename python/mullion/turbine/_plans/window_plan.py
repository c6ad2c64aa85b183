"""The plan from a window and its subscription to a query: topic rows, the window in the JVM, its callbacks over Arrow.

::

    topic -> [process in Python] -> panes in the JVM -> callbacks in Python -> topics
              only if it does        keyed, on the        over Arrow, once a
              more than update       window's clock       batch and shard

Each window has its own query, with a checkpoint under the window's name. Windows can therefore be added, removed and
reordered, and a failure names its window. A subscription with state is one query: ``process``, its windows and their
callbacks share the state of a shard in one task.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql import types as T  # noqa: N812

from mullion._bridge import jvm
from mullion._native.windowed import windowed
from mullion._program.host import Host
from mullion.topics import has_columns
from mullion.topics._outputs import Make, Note
from mullion.topics._records import COLUMNS
from mullion.turbine._plans import schema_probe
from mullion.turbine._plans.counts import Counts
from mullion.turbine._plans.return_schemas import Returns
from mullion.turbine._plans.schema_probe import rows_given
from mullion.turbine._plans.topic_rows import on_event_time, require_columns, timed, with_arrival
from mullion.turbine._process.callbacks import (
    FAILED,
    PROCESS,
    RECEIVED,
    SKIPPED,
    Called,
    PaneCallbacks,
    key_column,
    part_column,
)
from mullion.turbine._process.firings import CallbacksOfWindows, WindowInQuery
from mullion.turbine._process.source import place_of
from mullion.turbine._process.subscription import Subscription
from mullion.turbine._process.window_rows import WindowRows
from mullion.turbine._process.worker import Process
from mullion.turbine._spec import KAFKA_TIME, Spec
from mullion.turbine.aggregates import Aggregate, Sum
from mullion.turbine.functions import Expression, column_of
from mullion.turbine.windowing import TurbineWindow
from mullion.windows import Early, Window

QUIET_MS: Final = 250
"""The time without rows after which the event clock of a persistent window follows the wall clock."""


UNBEGUN: Final = "spark.sql.streaming.stateStore.mullion.unbegun"
"""One window name per line, for windows that have no state yet; ``*`` for a query of one window."""


class Plan(ABC):
    """One query: its name, its counters, and the schemas of its callbacks."""

    def __init__(self, app: Host, subscription: Subscription, name: str, windows: Sequence[TurbineWindow]) -> None:
        self.app = app
        self.subscription = subscription
        self.name = name
        self.windows = {window.name: window for window in windows}
        self.counts = Counts(app.spark)
        self.returns = Returns()
        self.integers: dict[str, frozenset[str]] = {}
        self._lacking: dict[str, jvm.Counter] = {}
        self._unbegun: dict[str, tuple[WindowRows, int]] = {}

    @property
    def specs(self) -> list[Spec]:
        """The parameters of its windows."""
        return [window.spec for window in self.windows.values()]

    @property
    def settings(self) -> dict[str, str]:
        """Spark settings for the session of the query."""
        return {}

    @abstractmethod
    def rows(self, spark: SparkSession) -> DataFrame:
        """The streaming DataFrame of the query."""

    @abstractmethod
    def make(self) -> Make:
        """The function that turns a batch of :meth:`rows` into outputs in workers, and records callback schemas."""

    @property
    def steady(self) -> bool:
        """True if workers have the schemas of all callbacks, so that the driver need not check them."""
        return all(self.returns.is_known(name) for name in self.callbacks())

    def learn(self, notes: Iterable[Note]) -> None:
        """Records the schemas that a batch's callbacks returned; raises :class:`FunctionError` if they differ."""
        callbacks = self.callbacks()
        for name, schema in dict.fromkeys(notes):
            self.returns.take(name, callbacks.get(name, f"The callback {name} of a window made from data"), schema)

    def mend(self, error: BaseException) -> bool:
        """Returns True if the query may restart because the cause of the error is fixed."""
        return schema_probe.note(self.folder, error)

    def input_rows(self, topic: DataFrame) -> dict[str, WindowRows]:
        """The columns that ``process`` passes to each window, as far as they are known."""
        rows = self.known_rows(topic)
        # Counts left from an earlier start are not part of any batch.
        self._unbegun = {
            name: (rows[name], self.counts[f"{name}.{RECEIVED}"]) for name in self.windows if rows[name].learns
        }
        return rows

    def known_rows(self, topic: DataFrame) -> dict[str, WindowRows]:
        """The input of each window, as far as it is known before the query starts."""
        return rows_given(self.subscription, topic, self.folder)

    def note_begun(self) -> None:
        """Records windows that get their first rows in a batch, before it is committed."""
        begun = {n: rows for n, (rows, before) in self._unbegun.items() if self.counts[f"{n}.{RECEIVED}"] > before}
        if begun:
            schema_probe.note_begun(self.folder, begun)
            self._unbegun = {name: each for name, each in self._unbegun.items() if name not in begun}

    @property
    def unbegun(self) -> frozenset[str]:
        """Windows without rows so far: their types may still change."""
        if self.subscription.process.python is None:
            return frozenset()
        return schema_probe.unbegun(self.folder, self.windows)

    def gathered(self, panes: DataFrame) -> DataFrame:
        """The firings of a batch, partitioned so that one task has all panes of one call of a callback.

        Panes are in many partitions. A callback that accepts a table is called once for all panes of a tick or, with a
        ``partition_key``, once for each shard.
        """
        return panes

    def gathered_for(self, panes: DataFrame, tables: Sequence[Spec], partition_key: str | None) -> DataFrame:
        """The same for windows with table callbacks; ``partition_key`` is the name of its column in ``panes``."""
        own = {self.subscription.partition_key} - {None}
        if all(set(spec.key) == own for spec in tables):
            # Panes are already partitioned by their keys.
            return panes
        if partition_key is None:
            return panes.repartition(1)
        shards = panes.sparkSession.conf.get("spark.sql.shuffle.partitions")
        return panes.repartition(int(shards or 1), column_of(partition_key))

    @property
    def folder(self) -> Path:
        """The folder of the query's checkpoint and of the records about it."""
        return self.app.folder_of(self.name)

    def callbacks(self) -> dict[str, str]:
        """A description of each callback of the query, by name."""
        texts = {}
        for window in self.windows.values():
            callbacks = self.pane_callbacks(window)
            for called in filter(None, (callbacks.early, callbacks.close)):
                texts[called.name] = f"{called.parameter}= of the window {window.name!r} ({place_of(called.function)})"
        return texts

    def process(self) -> Process:
        """``process``, for workers."""
        options, subscription = self.subscription.options, self.subscription
        injected = (KAFKA_TIME,) if options.with_kafka_timestamp else ()
        name, topic = subscription.name, subscription.topic_of(PROCESS, subscription.name)
        called = Called(PROCESS, PROCESS, subscription.function, topic, name, self.returns[f"{name}.{PROCESS}"])
        own = None if subscription.makes_windows else frozenset(subscription.windows)
        return Process(name, called, injected, options.on_error, options.dead_letter, self.counts, own)

    def pane_callbacks(self, window: TurbineWindow) -> PaneCallbacks:
        """The callbacks of a window, for workers."""
        integers = self.integers.get(window.name, frozenset())
        topic_of = self.subscription.topic_of
        return PaneCallbacks.of(
            window.spec, integers, lambda kind: topic_of(kind, window.name), self.returns.__getitem__
        )

    def callbacks_of(self, windows: Sequence[WindowInQuery]) -> CallbacksOfWindows:
        """The callbacks of windows without state, for workers."""
        options = self.subscription.options
        return CallbacksOfWindows(windows, options.on_error, options.dead_letter, self.counts)

    def panes(self, window: TurbineWindow, rows: DataFrame) -> DataFrame:
        """The operator's panes of a window over its rows."""
        spec = window.spec
        keys = [column_of(name).alias(key_column(i)) for i, name in enumerate(spec.key)]
        options = self.common_options(spec.early_fire_interval_ms)
        if spec.time_column is not None:
            rows = timed(rows, spec.time_column, f"the window {spec.name!r}")
            options |= on_event_time(spec.allowed_lateness_ms, spec.idle_tick_ms or QUIET_MS)
        options |= self.changing(spec)
        return self.aggregated(rows, spec.name, spec.parts, spec.native(), keys, options)

    def changing(self, spec: Spec) -> dict[str, Any]:
        """Options of ``windowed`` for a window that has changed. There are none for windows in the query of a state."""
        return {}

    def common_options(self, early_ms: int | None) -> dict[str, Any]:
        """The options of ``windowed`` that all windows have."""
        early = None if early_ms is None else Early(every=f"{early_ms} milliseconds", unchanged=True)
        return {"time": None, "early": early}

    def aggregated(
        self,
        rows: DataFrame,
        name: str,
        parts: dict[str, Aggregate],
        window: Window,
        keys: list[Column],
        options: dict[str, Any],
        part_name: Callable[[int], str] = part_column,
    ) -> DataFrame:
        """The panes of rows by keys; ``part_name`` gives the column of each aggregate by its position."""
        if any(part.by_arrival for part in parts.values()):
            rows = with_arrival(rows)

        def type_of(expression: Expression) -> T.DataType:
            return rows.select(expression.to_column()).schema[0].dataType

        self.integers[name] = frozenset(each for each, part in parts.items() if _is_integer_sum(part, type_of))
        aggregates = [part.to_column(type_of).alias(part_name(i)) for i, part in enumerate(parts.values())]
        return windowed(rows, window, by=keys, **options).agg(*aggregates)

    def failed(self, window: str) -> int:
        """The number of panes of a window that were left out because a callback failed."""
        return self.counts[f"{window}.{FAILED}"]

    def skipped(self, window: str) -> int:
        """The number of rows that a window left out because their batch lacked a column."""
        lacking = self._lacking.get(window)
        return self.counts[f"{window}.{SKIPPED}"] + (0 if lacking is None else lacking.value)

    def came_whole(self, topic: DataFrame, window: TurbineWindow) -> Column:
        """True for topic rows that have all columns that a window needs; other rows are counted."""
        spec, options = window.spec, self.subscription.options
        require_columns(topic, spec, options.topic)
        needs = (name for name in spec.needs if name != KAFKA_TIME or not options.with_kafka_timestamp)
        if spec.name not in self._lacking:
            self._lacking[spec.name] = jvm.Counter(topic.sparkSession)
        # All rows of one call of ``produce`` have the same columns.
        came = jvm.per_text(topic.sparkSession, sf.col(COLUMNS), has_columns(*needs))
        return self._lacking[spec.name].counted(came)


def _is_integer_sum(part: Aggregate, type_of: Callable[[Expression], T.DataType]) -> bool:
    # Spark reads Arrow's uint64 as a decimal of 20 digits.
    return isinstance(part, Sum) and type_of(part.inputs[0]) in (T.LongType(), T.DecimalType(20, 0))
