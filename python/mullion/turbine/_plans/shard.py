"""The query of a subscription with state: ``process``, its windows and their callbacks in one task per shard."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from mullion._bridge import jvm
from mullion._keyed.api import Branch, staged, stateful_map
from mullion._native.panes import read_panes
from mullion._program.host import Host
from mullion.errors import InvalidArgumentError
from mullion.topics._outputs import NOTED, Make, outputs_in
from mullion.turbine._plans.process import of_process
from mullion.turbine._plans.topic_rows import LONGEST_MS, TIME, on_event_time, timed, topic_rows
from mullion.turbine._plans.window_plan import QUIET_MS, Plan
from mullion.turbine._process.callbacks import key_column
from mullion.turbine._process.dynamic_windows import GAP, NAME, SIZE, SLIDE, FromData, Shape, note, shapes_in
from mullion.turbine._process.firings import CallbacksOfMade, CallbacksOfShard
from mullion.turbine._process.source import place_of
from mullion.turbine._process.stored_window import WindowSpec
from mullion.turbine._process.subscription import Subscription
from mullion.turbine._process.window_rows import spark_schema
from mullion.turbine._process.worker import Needed, ProcessOfShard
from mullion.turbine.functions import column_of
from mullion.turbine.windowing import TurbineWindow
from mullion.windows import Custom, Session, Sliding, Tumbling, Window


@final
class ShardPlan(Plan):
    """The query of a subscription with state: ``process``, its windows and their callbacks in one task per shard."""

    def __init__(self, app: Host, subscription: Subscription, name: str) -> None:
        super().__init__(app, subscription, name, list(subscription.windows.values()))
        self.shapes: dict[str, Shape] = {}

    def rows(self, spark: SparkSession) -> DataFrame:
        """The batches that ``process`` and the callbacks return, as rows ``NOTED``."""
        subscription = self.subscription
        topic = topic_rows(self.app, subscription, spark, self.name)
        rows = self.input_rows(topic)
        process, options = self.process(), subscription.options
        self.shapes = {shape.name: shape for shape in shapes_in(self.folder)} if subscription.makes_windows else {}
        from_data = None
        if subscription.makes_windows:
            taken = frozenset(part.name for part in self.app.names.all())
            from_data = FromData(
                subscription.name, subscription.instance, subscription.partition_key, taken, dict(self.shapes)
            )
        first = ProcessOfShard(process, tuple(Needed(process, rows[name]) for name in self.windows), from_data)
        shard_by = [] if subscription.partition_key is None else [column_of(subscription.partition_key)]
        if not self.windows and not self.shapes:
            return stateful_map(topic, first, NOTED, shard_by=shard_by, wall_timers=True)
        of_new = None if from_data is None else CallbacksOfMade(from_data, {}, dict(options.publish_to))
        second = CallbacksOfShard(options.on_error, options.dead_letter, self.counts, {}, of_new)

        in_shard = self._in_shard(topic)

        def panes(name: str, rows: DataFrame) -> DataFrame:
            panes = self.panes(self.windows[name], in_shard(rows, f"the window {name!r}"))
            # ``self.panes`` has just found the integer sums. The callbacks need them before they are sent to workers.
            second.windows[name] = self.pane_callbacks(self.windows[name])
            return panes

        def panes_of(shape: Shape, rows: DataFrame) -> DataFrame:
            panes = self.panes_of(shape, in_shard(rows, "a window made from data"))
            assert of_new is not None
            of_new.integers[shape.name] = self.integers[shape.name]
            return panes

        branches = {
            name: Branch(rows[name].spark_schema, partial(panes, name), window.spec.time_column)
            for name, window in self.windows.items()
        }
        branches |= {
            name: Branch(spark_schema(shape.rows), partial(panes_of, shape), shape.time_column)
            for name, shape in self.shapes.items()
        }
        return staged(topic, first, branches, second, NOTED, shard_by=shard_by, wall_timers=True)

    def _in_shard(self, topic: DataFrame) -> Callable[[DataFrame, str], DataFrame]:
        """Returns a check that the rows of a window are in the shard of their key.

        Rows are sharded by the topic's ``partition_key``, and panes by the value in the rows from ``process``. If the
        two differ, a group would be split over several shards.
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
                "partition_key, so each shard would emit a part of the group. Keep the column of the topic, and put "
                "the new value into another column, which key= may also contain; or change the column where the "
                f"topic is produced. ({place_of(subscription.function)})"
            )
            in_shard = jvm.in_shard(
                rows.sparkSession, key if same else key.try_cast(kind), key.cast("string"), before, after
            )
            return rows.where(in_shard)

        return checked

    def mend(self, error: BaseException) -> bool:
        """Records the windows made from data that the error is about: the next start has operators for them."""
        return note(self.folder, error) or super().mend(error)

    def panes_of(self, shape: Shape, rows: DataFrame) -> DataFrame:
        """The panes of all windows of a shape; ``key_0`` is the window's name."""
        keys = [sf.col(NAME).alias(key_column(0))]
        keys += [column_of(name).alias(key_column(i)) for i, name in enumerate(shape.key, start=1)]
        options = self.common_options(shape.early_fire_interval_ms)
        if shape.time_column is not None:
            rows = timed(rows, shape.time_column, f"a window of {self.subscription.name}")
            options |= on_event_time(shape.allowed_lateness_ms, QUIET_MS)
        return self.aggregated(rows, shape.name, shape.parts, _window_of(shape), keys, options)

    def make(self) -> Make:
        """The rows are outputs already."""
        return outputs_in

    @property
    def steady(self) -> bool:
        """Always False: the schemas in workers are from the start of the query."""
        return False

    def callbacks(self) -> dict[str, str]:
        return {**super().callbacks(), **of_process(self.subscription)}

    def store(self, window: TurbineWindow) -> str:
        """The state store: the windows share the task's store."""
        return "rocksdb"


def _window_of(shape: Shape) -> Window:
    """The engine's window of a shape. On event time, each row contains the lengths."""
    if shape.time_column is None:
        size, slide, gap = (None if length is None else f"{length} milliseconds" for length in shape.lengths)
        if gap is not None:
            return Session(gap)
        assert size is not None
        return Tumbling(size) if slide is None else Sliding(size, slide, gaps=True)
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


def panes_of_made(folder: Path, checkpoint: Path, spec: WindowSpec, spark: SparkSession) -> DataFrame:
    """The open panes of a window that was made from data, without its name."""
    shape = Shape.of(spec, pa.schema([]))
    if shape not in shapes_in(folder):
        raise InvalidArgumentError(f"The window {spec.name!r} has been given no rows yet: it has no panes.")
    panes = read_panes(checkpoint, window=shape.name, spark=spark).where(sf.col(key_column(0)) == spec.name)
    keys = [sf.col(key_column(i + 1)).alias(key_column(i)) for i in range(len(spec.key))]
    named = [key_column(i) for i in range(len(spec.key) + 1)]
    return panes.select(*keys, *(each for each in panes.columns if each not in named))
