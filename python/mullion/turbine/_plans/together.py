"""Several windows of a subscription in one query: they share the read of the topic, ``process`` and the shuffle.

::

    topic -> process, once -> rows, each with the windows     -> panes of all windows -> callbacks
             a batch          that it is for                     in one operator
                              ts  amount   takes_0  takes_1
                              7   5        true     true
                              8   2        false    true

Windows share a query if they share a clock: the same ``time_column``, and either all are persistent or all are in
memory with one ``idle_tick_ms``. Their event clock covers the rows of all of them. One checkpoint has the state of all
windows, by their names.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Final, final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from mullion._native.together import together
from mullion._program.host import Host
from mullion._program.manifest import Manifest
from mullion._util.files import reading
from mullion.errors import IncompatibleStateError, InvalidArgumentError
from mullion.topics._outputs import Make
from mullion.turbine._plans import schema_probe
from mullion.turbine._plans.topic_rows import TIME, on_event_time, timed, topic_rows, with_arrival
from mullion.turbine._plans.window_plan import QUIET_MS, UNBEGUN, Plan
from mullion.turbine._process.callbacks import key_column, part_column
from mullion.turbine._process.firings import WINDOW, WindowInQuery
from mullion.turbine._process.subscription import Subscription
from mullion.turbine._process.window_rows import WindowRows, spark_schema
from mullion.turbine._process.worker import Needed, RowsForWindows, takes_column
from mullion.turbine.functions import column_of
from mullion.turbine.windowing import TurbineWindow
from mullion.windows import OtherWindow, Upgrade

_WATERMARK: Final = "spark.watermarkDelayMs"
"""Spark's metadata of a column with a watermark: its delay."""
_PROGRAM_TIME: Final = "mullion.time"
"""The metadata that identifies the event time on restart. The numbers of windows change when windows come or go."""


@final
@dataclass(frozen=True)
class Columns:
    """The operator's columns of one of several windows: the columns of its key, and of its values."""

    key: tuple[str, ...]
    parts: tuple[str, ...]

    def as_alone(self) -> dict[str, str]:
        """The column names of the window in a query of its own, with its columns in this query."""
        names = {key_column(i): name for i, name in enumerate(self.key)}
        return names | {part_column(i): name for i, name in enumerate(self.parts)}


@final
@dataclass(frozen=True)
class Shared:
    """Windows that share a query, and the query's name.

    - ``first_keys``: the key columns with which the query began, in the order of their numbers.
    """

    name: str
    windows: tuple[TurbineWindow, ...]
    first_keys: tuple[str, ...] = ()

    @property
    def keys(self) -> tuple[str, ...]:
        """The key columns of all windows: each keeps the number with which it began."""
        return tuple(dict.fromkeys([*self.first_keys, *(name for each in self.windows for name in each.spec.key)]))

    def as_begun(self, folder: Path) -> Shared:
        """The same windows, with the key columns that the query's folder records."""
        noted = SharedNote.of(folder)
        return self if noted is None else replace(self, first_keys=noted.keys)

    def columns(self, window: TurbineWindow) -> Columns:
        """The columns of one window. Windows with the same key column share it."""
        name = engine_name(window.name)
        return Columns(
            tuple(key_column(self.keys.index(name)) for name in window.spec.key),
            tuple(f"{part_column(i)}_of_{name}" for i in range(len(window.spec.parts))),
        )

    def panes_of(self, name: str, panes: DataFrame) -> DataFrame:
        """The panes of one window, with the columns that they have in a query of its own."""
        window = next(each for each in self.windows if each.name == name)
        own = [sf.col(column).alias(alone) for alone, column in self.columns(window).as_alone().items()]
        return panes.where(sf.col(WINDOW) == engine_name(name)).select("window", *own)


@final
@dataclass(frozen=True)
class SharedNote:
    """The record of the windows that share a query, and of their key columns in the order of their numbers."""

    windows: tuple[str, ...]
    keys: tuple[str, ...]

    @staticmethod
    def of(folder: Path) -> SharedNote | None:
        """The record in the folder of a query; ``None`` if the query has not begun."""
        manifest = Manifest(folder)
        noted = manifest.read("together", dict)
        if noted is None:
            return None
        with reading(manifest.file):
            return SharedNote(tuple(noted["windows"]), tuple(noted["keys"]))

    def write(self, folder: Path) -> None:
        Manifest(folder).write("together", {"windows": self.windows, "keys": self.keys})


def shared_by(subscription: Subscription) -> tuple[Shared, ...]:
    """The groups of windows of a subscription that share a query; none without ``together=True``."""
    if not subscription.options.together or subscription.state is not None:
        return ()
    groups: dict[str, list[TurbineWindow]] = {}
    for window in sorted(subscription.windows.values(), key=lambda window: window.name):
        spec, process = window.spec, subscription.process
        if process.python is None and window.name not in process.updates:
            continue
        if spec.time_column is None:
            # On processing time every row enters all windows.
            continue
        idle = "persistent" if spec.idle_tick_ms is None else f"in memory, every {spec.idle_tick_ms} ms"
        groups.setdefault(f"{subscription.name}.together on {spec.time_column}, {idle}", []).append(window)
    return tuple(Shared(name, tuple(windows)) for name, windows in groups.items() if len(windows) > 1)


def shared_with(subscription: Subscription, window: str) -> Shared | None:
    """The group of a window; ``None`` if it has its own query."""
    return next((each for each in shared_by(subscription) if any(w.name == window for w in each.windows)), None)


def why_alone_or_not(subscription: Subscription, window: TurbineWindow) -> str:
    """An explanation that names the windows in the same query, or gives the reason for a separate one."""
    shared = shared_with(subscription, window.name)
    if shared is not None:
        return "in one query with " + ", ".join(repr(each.name) for each in shared.windows if each is not window)
    if window.spec.time_column is None:
        return "a query of its own, because it is on processing time"
    return "a query of its own, because no other has its time_column and its idle_tick_ms"


def engine_name(window: str) -> str:
    """The name of a window in the engine: lower-case letters, digits and underscores."""
    return "w_" + "".join(c if c.isascii() and (c.islower() or c.isdigit()) else f"_{ord(c):x}_" for c in window)


@final
class TogetherPlan(Plan):
    """The query of windows that share one."""

    def __init__(self, app: Host, subscription: Subscription, shared: Shared, upgrade: Upgrade) -> None:
        super().__init__(app, subscription, shared.name, shared.windows)
        self.shared = shared.as_begun(self.folder)
        self._upgrade = upgrade

    def rows(self, spark: SparkSession) -> DataFrame:
        """The firings of all windows, each with its window's name."""
        topic = topic_rows(self.app, self.subscription, spark, self.name)
        windows = self.shared.windows
        input_rows = self._as_they_are(topic) if self.subscription.process.python is None else self._of_process(topic)
        time_column = windows[0].spec.time_column
        assert time_column is not None
        rows = timed(input_rows, time_column, f"the windows of {self.subscription.name}")
        if any(part.by_arrival for window in windows for part in window.spec.parts.values()):
            rows = with_arrival(rows)
        # A row without time enters no window.
        own = [sf.when(sf.col(takes_column(i)), sf.col(TIME)) for i in range(len(windows))]
        about = {_WATERMARK: 0, _PROGRAM_TIME: time_column}
        rows = rows.select("*", *(time.alias(_time_of(i), metadata=about) for i, time in enumerate(own)))
        return together(
            **{engine_name(window.name): self._panes_of(i, window, rows) for i, window in enumerate(windows)}
        )

    def _panes_of(self, number: int, window: TurbineWindow, rows: DataFrame) -> DataFrame:
        spec, columns = window.spec, self.shared.columns(window)
        options = self.common_options(spec.early_fire_interval_ms)
        options |= on_event_time(spec.allowed_lateness_ms, spec.idle_tick_ms or QUIET_MS) | {"time": _time_of(number)}
        # A query of several windows cannot drain one of them.
        of_window: OtherWindow = "drop" if self._upgrade.window == "drop" else "reject"
        options |= {"upgrade": Upgrade(self._upgrade.new_aggregates, of_window)}
        # The order is the same for all windows: if all keys are equal, rows are shuffled by the keys alone.
        aliases = dict(zip(spec.key, columns.key, strict=True))
        keys = [column_of(name).alias(aliases[name]) for name in self.shared.keys if name in aliases]
        return self.aggregated(rows, spec.name, spec.parts, spec.native(), keys, options, columns.parts.__getitem__)

    @property
    def settings(self) -> dict[str, str]:
        """The windows whose state's meaning may still change."""
        unbegun = sorted(map(engine_name, self.unbegun))
        return {UNBEGUN: "\n".join(unbegun)} if unbegun else {}

    def make(self) -> Make:
        return self.callbacks_of(
            [
                WindowInQuery(
                    self.pane_callbacks(window), engine_name(window.name), self.shared.columns(window).as_alone()
                )
                for window in self.shared.windows
            ]
        )

    def gathered(self, panes: DataFrame) -> DataFrame:
        name, one = self.subscription.partition_key, self.shared.windows[0]
        tables = [window.spec for window in self.shared.windows if not window.spec.callbacks.each]
        # It is in the key of every window, and all of them share its column.
        column = None if name is None else self.shared.columns(one).key[one.spec.key.index(name)]
        return self.gathered_for(panes, tables, column)

    def _as_they_are(self, topic: DataFrame) -> DataFrame:
        windows = self.shared.windows
        needed = dict.fromkeys(name for window in windows for name in window.spec.needs)
        marks = [self.came_whole(topic, window).alias(takes_column(i)) for i, window in enumerate(windows)]
        taken: Column = reduce(Column.__or__, (sf.col(takes_column(i)) for i in range(len(windows))))
        return topic.select(*map(column_of, needed), *marks).where(taken)

    def known_rows(self, topic: DataFrame) -> dict[str, WindowRows]:
        return schema_probe.with_one_type(super().known_rows(topic), self.folder)

    def _of_process(self, topic: DataFrame) -> DataFrame:
        rows, process = self.input_rows(topic), self.process()
        fields: dict[str, tuple[str, pa.Field]] = {}
        for window in self.shared.windows:
            for field in rows[window.name].schema:
                of, first = fields.setdefault(field.name, (window.name, field))
                if first.type != field.type:
                    schema_probe.forget_guesses(self.folder)
                    raise InvalidArgumentError(
                        f"process passes the column {field.name!r} to the window {of!r} as {first.type} and to "
                        f"{window.name!r} as {field.type}. In windows that share a query, a column has one type. Use "
                        "another name in one of them, or leave together=True out."
                    )
        marks = [pa.field(takes_column(i), pa.bool_()) for i in range(len(self.shared.windows))]
        schema = pa.schema([*(field for _, field in fields.values()), *marks])
        needed = tuple(Needed(process, rows[window.name]) for window in self.shared.windows)
        return topic.mapInArrow(RowsForWindows(process, needed, schema), spark_schema(schema))

    def require_same_keys(self) -> None:
        """Raises :class:`IncompatibleStateError` if the key columns have changed.

        The state has only the columns' numbers, so that its panes would get the names of other columns.
        """
        noted, now = SharedNote.of(self.folder), {name for spec in self.specs for name in spec.key}
        if noted is not None and set(noted.keys) != now:
            raise IncompatibleStateError(
                f"The windows of {self.subscription.name} share a query. Its keys had the columns "
                f"{', '.join(noted.keys)}, and have {', '.join(sorted(now))}. The place of a key's state depends on "
                "them. Nothing was overwritten. Restore the columns, or start the changed program with another "
                "checkpoint=. Without together=True each window has a query of its own, and can be changed alone."
            )

    @property
    def has_other_windows(self) -> bool:
        """True if windows were added, removed or renamed since the query began."""
        noted = SharedNote.of(self.folder)
        return noted is not None and set(noted.windows) != set(self.windows)

    def in_words(self, message: str) -> str:
        """A message of the engine, with the names that windows have in the program."""
        noted = SharedNote.of(self.folder)
        for name in [*(noted.windows if noted else ()), *self.windows]:
            quoted = repr(name).replace("\\", r"\\")
            message = re.sub(rf"'{engine_name(name)}'|(?<![\w']){engine_name(name)}(?![\w'])", quoted, message)
        return message

    def note(self) -> None:
        """Records the windows of the query, which is about to start."""
        now = SharedNote(tuple(sorted(self.windows)), self.shared.keys)
        if SharedNote.of(self.folder) != now:
            now.write(self.folder)


def _time_of(window: int) -> str:
    return f"{TIME}_{window}"
