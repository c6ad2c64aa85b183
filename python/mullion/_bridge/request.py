"""A serialized call of ``windowed(...).agg(...)``: the request as JSON, and its columns.

``CallDescription`` in Scala reads it, both over py4j and from Spark Connect.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql.functions import col, unix_micros
from pyspark.sql.types import StructType

from mullion._bridge.custom_ranges import ranges_of
from mullion._bridge.global_splits import splits_of
from mullion._bridge.options import Options
from mullion._version import __version__
from mullion.windows import (
    Around,
    Count,
    Cumulate,
    Custom,
    EmitFor,
    Global,
    PerKey,
    Session,
    Sliding,
    Tumbling,
    Watermark,
    Window,
)
from mullion.windows._calendar import Calendar


def quoted(name: str) -> str:
    """A column of that name, with special characters quoted."""
    return f"`{name.replace('`', '``')}`"


class Description:
    """The options of panes, and their columns with roles."""

    def __init__(self, call: str, window: Window, by: Sequence[Column | str], options: Options) -> None:
        self._content: dict[str, Any] = {"call": call, "window": _window(window), "options": _options(options, window)}
        self._roles: list[str] = []
        self.columns: list[Column] = []
        self._add("by", by)
        if options.time is not None:
            self._add("time", [options.time])
        self._add("dedupe_by", options.dedupe_by)
        match window:
            case Session():
                self._add("gap", [] if window.gap is None else [window.gap])
                self._add("trigger", [] if window.ends_with is None else [window.ends_with])
            case Global(condition=(Column() | str()) as condition):
                self._add("trigger", [condition])
            case Global(changing=(Column() | str()) as changing):
                self._add("trigger", [changing])
                self._add("ends_with", [] if window.ends_with is None else [window.ends_with])
            case Global(ends_with=(Column() | str()) as ends_with):
                self._add("ends_with", [ends_with])
            case Custom(ranges=(str() | Column()) as ranges):
                self._add("ranges", [ranges])
            case _:
                pass

    def with_functions(self, df: DataFrame, window: Window, options: Options, *, is_declared: bool) -> Description:
        """Adds the Python functions of a window; ``is_declared`` in a declarative pipeline."""
        match window:
            case Global(splitting=function) if function is not None:
                self._add("split", [splits_of(function, window.takes_offset)])
                if window.columns is not None:
                    self._add("seen", [quoted(name) for name in window.columns])
            case Custom(ranges=function) if not isinstance(function, (str, Column)):
                name = f"the function {window.function}"
                assert options.time is not None
                self._add("ranges", [ranges_of(function, name, _micros(df, options.time, is_declared))])
                self._content["options"]["ranges_text"] = name
            case _:
                pass
        return self

    def with_held(self, aggregates: Sequence[Column], collect: tuple[bool, str, int, bool] | None) -> Description:
        """Adds the contents of panes."""
        self._add("aggregate", aggregates)
        if collect is not None:
            by_time, name, max_rows, in_parts = collect
            self._content["collect"] = {
                "order": "time" if by_time else "arrival",
                "name": name,
                "max_rows": max_rows,
                "in_parts": in_parts,
            }
        return self

    def with_join(self, df: DataFrame, window: Window, options: Options, join: Mapping[str, Any]) -> Description:
        """Adds the options of a join, whose windows are over a timestamp."""
        self._content["join"] = dict(join)
        return self.with_functions(df, window, options, is_declared=True)

    @property
    def json(self) -> str:
        """The request as JSON."""
        return json.dumps({**self._content, "version": __version__, "columns": self._roles})

    def _add(self, role: str, columns: Sequence[Column | str]) -> None:
        for column in columns:
            self._roles.append(role)
            self.columns.append(col(column) if isinstance(column, str) else column)


def _window(window: Window) -> dict[str, Any]:
    match window:
        case Tumbling() | Sliding() if window.calendar is not None:
            return {"kind": "calendar", **_calendar(window.calendar)}
        case Tumbling(starts="first row"):
            return {"kind": "tumbling", "size": window.size_us, "starts": window.starts}
        case Tumbling():
            return {"kind": "tumbling", "size": window.size_us, "offset": window.offset_us}
        case Sliding():
            return {"kind": "sliding", "size": window.size_us, "slide": window.slide_us, "offset": window.offset_us}
        case Cumulate() if window.calendar is not None:
            return {"kind": "cumulate", "cycle": _calendar(window.calendar), **_calendar_step(window)}
        case Cumulate():
            return {"kind": "cumulate", "size": window.size_us, "step": window.step_us, "offset": window.offset_us}
        case Around():
            return {"kind": "around", "before": window.before_us, "after": window.after_us}
        case Session():
            session = {"kind": "session", "gap": window.gap_us, "max_length": window.max_length_us}
            return session if window.ends_with is None else {**session, "ends_with": True}
        case Count():
            return {"kind": "count", "size": window.size, "every": window.every, "timeout": window.timeout_us}
        case Global(condition=(Column() | str())):
            return {"kind": "when"}
        case Global(changing=(Column() | str())):
            return {"kind": "changes", "ends_with": window.ends_with is not None}
        case Global(splitting=function) if function is not None:
            return {"kind": "split", "function": window.function}
        case Global():
            return {"kind": "every", "rows": window.count, "ends_with": window.ends_with is not None}
        case Custom():
            return {"kind": "custom"}


def _calendar(calendar: Calendar) -> dict[str, Any]:
    return {
        "number": calendar.number,
        "unit": calendar.unit,
        "slides": calendar.slides,
        "timezone": calendar.timezone,
        "week_start": calendar.week_start,
        "offset_months": calendar.offset_months,
        "offset": calendar.offset_us,
    }


def _calendar_step(window: Cumulate) -> dict[str, int]:
    if window.calendar_step is None:
        return {"step": window.step_us}
    number, unit = window.calendar_step
    return {"step_months": number} if unit == "month" else {"step_days": number * (7 if unit == "week" else 1)}


def _options(options: Options, window: Window) -> dict[str, Any]:
    spec = window if isinstance(window, (Count, Global)) else options.clock
    forget_after = None if isinstance(spec, Watermark) else spec.forget_after_us
    request: dict[str, Any] = {
        "allowed_lateness": options.allowed_lateness_us,
        "on_time": options.on_time,
        "accumulate": options.accumulate,
        "late": options.late,
        **_empty(options.empty),
        "ids": options.ids,
        "at_end": options.at_end,
        "clock": _clock(options.clock),
        "forget_after": forget_after,
        "upgrade": {"new_aggregates": options.upgrade.new_aggregates, "window": options.upgrade.window},
    }
    if options.early is not None:
        request["early"] = {
            "every": options.early.every_us,
            "wall": options.early.wall_us,
            "count": options.early.count,
            "unchanged": options.early.unchanged,
            "each_row": options.early.each_row,
        }
    return request


def _empty(empty: str | EmitFor) -> dict[str, Any]:
    """A request contains columns only, so a DataFrame of keys travels as a temporary view of its session."""
    if not isinstance(empty, EmitFor):
        return {"empty": empty}
    if isinstance(empty.keys, DataFrame):
        empty.keys.createOrReplaceTempView(empty.table)
    return {"empty": "emit", "empty_for": empty.table}


def _clock(clock: Watermark | PerKey) -> dict[str, Any]:
    match clock:
        case Watermark():
            return {"kind": "watermark", "idle_after": clock.idle_after_us, "max_ahead": clock.max_ahead_us}
        case PerKey():
            return {"kind": "per key", "wall_time": clock.wall_time, "late_by": clock.late_by}


def _micros(df: DataFrame, time: Column | str, is_declared: bool) -> Column:
    """The event time in microseconds; for a window column, its last one."""
    column = col(time) if isinstance(time, str) else time
    if is_declared:
        # The type is not available yet.
        return unix_micros(column)
    kind = df.select(column).schema.fields[0].dataType
    return unix_micros(column["end"]) - 1 if isinstance(kind, StructType) else unix_micros(column)
