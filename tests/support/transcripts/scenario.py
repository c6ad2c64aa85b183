"""The scenarios of ``tests/transcripts``. The notation is documented in its README."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import yaml
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from mullion import (
    Around,
    Count,
    Cumulate,
    Custom,
    Early,
    EmitFor,
    Global,
    PerKey,
    Session,
    Sliding,
    Tumbling,
    Upgrade,
    Watermark,
    together,
    windowed,
)
from mullion.windows import AtEnd, Empty, Late, SplitOf, Window

FOLDER = Path(__file__).parents[2] / "transcripts"
OPERATOR = "mullionWindow"
# Only scenarios with `flood: false` have rows near this second.
FAR = 1_000_000_000

Firing: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Step:
    """An event, and the query's expected reaction."""

    rows: list[list[Any]] | None = None
    other: list[list[Any]] | None = None
    advance: Decimal | int = 0
    restart: bool = False
    crash: bool = False
    fires: list[Firing] | None = None
    batches: list[list[Firing]] | None = None
    late: int = 0
    ahead: int = 0
    without_time: int = 0
    in_no_window: int = 0
    open: int | None = None
    drain: bool = False
    change: dict[str, Any] | None = None

    @property
    def starts_again(self) -> bool:
        return self.restart or self.crash or self.drain or self.change is not None

    @staticmethod
    def read(step: Any) -> Step:
        read: Step = checked(Step, {step: True} if isinstance(step, str) else step)
        assert read.fires is None or read.batches is None, f"{step}: either fires or batches"
        alone = (read.rows is None and read.other is None) or not read.advance or read.starts_again
        assert alone, f"{step}: time may pass before rows come only while the query is down"
        return read


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of a window apart from its shape."""

    by: list[str] = field(default_factory=lambda: ["k"])
    aggs: dict[str, str] = field(default_factory=lambda: {"total": "sum(v)"})
    lateness: Decimal | int = 0
    early: dict[str, Any] | None = None
    on_time: bool = False
    accumulate: bool = True
    late: Late = "drop"
    empty: Empty | dict[str, list[str]] = "skip"
    time: str = "event"
    clock: dict[str, Any] = field(default_factory=dict)
    collect: dict[str, Any] | None = None
    ids: bool = False
    dedupe_by: list[str] = field(default_factory=list)
    at_end: AtEnd = "keep"
    upgrade: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Spec(Options):
    """A window, and the contents of its panes."""

    window: dict[str, Any]

    @property
    def kind(self) -> str:
        """The kind of window. The lengths below exist for aligned windows (``tumbling`` and ``sliding``)."""
        (kind,) = {
            "tumbling",
            "calendar",
            "sliding",
            "cumulate",
            "session",
            "around",
            "custom",
            "count",
            "global",
        } & set(self.window)
        return kind

    @property
    def is_numbered(self) -> bool:
        """True if the windows are intervals of row numbers."""
        return self.kind in ("count", "global")

    @property
    def holds(self) -> list[str]:
        """The columns of a pane."""
        return list(self.aggs) if self.collect is None else ["rows"]

    @property
    def size(self) -> int:
        return micros(next(self.window[kind] for kind in ("tumbling", "sliding", "cumulate") if kind in self.window))

    @property
    def slide(self) -> int:
        return micros(self.window.get("every", self.window.get("tumbling")))

    @property
    def offset(self) -> int:
        return micros(self.window.get("offset", 0))

    @property
    def keys(self) -> list[str]:
        """The names of the key columns, which may be expressions: ``upper(k) AS k``."""
        return [key.rsplit(" AS ", 1)[-1] for key in self.by]

    def over(self, rows: DataFrame, time: str) -> DataFrame:
        early = None
        if self.early is not None:
            every = self.early.get("every")
            early = Early(
                None if every is None else length(micros(every)),
                unchanged=self.early.get("unchanged", False),
                count=self.early.get("count"),
                wall=length(micros(self.early["wall"])) if "wall" in self.early else None,
                each_row=self.early.get("each_row", False),
            )
        panes = windowed(
            rows,
            self.windows(),
            by=[F.expr(key) for key in self.by],
            time=None if self.time == "processing" or (self.is_numbered and not self.by_time) else time,
            allowed_lateness=length(micros(self.lateness)),
            early=early,
            on_time=self.on_time,
            accumulate=self.accumulate,
            late=self.late,
            empty=self.empty if isinstance(self.empty, str) else self.known_keys(rows.sparkSession),
            clock=self.closing_clock,
            ids=self.ids,
            dedupe_by=[F.expr(column) for column in self.dedupe_by],
            at_end=self.at_end,
            upgrade=Upgrade(**self.upgrade),
        )
        if self.collect is not None:
            return panes.collect(
                "time" if self.by_time else "arrival", max_rows=self.collect.get("max_rows", 1_000_000)
            )
        return panes.agg(*self.columns)

    def known_keys(self, spark: SparkSession) -> EmitFor:
        """Keys that have panes before their first row."""
        assert isinstance(self.empty, dict)
        return EmitFor(spark.createDataFrame([(key,) for key in self.empty["for"]], "k string"))

    @property
    def closing_clock(self) -> Watermark | PerKey:
        options = dict(self.clock)
        if options.pop("kind", None) == "per key":
            if "forget_after" in options:
                options["forget_after"] = length(micros(options["forget_after"]))
            return PerKey(**options)
        return Watermark(**{name: length(micros(time)) for name, time in options.items()})

    @property
    def running(self) -> bool:
        return self.early is not None and self.early.get("each_row", False)

    @property
    def by_time(self) -> bool:
        return self.collect is not None and self.collect.get("order") == "time"

    @property
    def forgetting(self) -> dict[str, Any]:
        """The option of windows of row numbers; for other windows the clock has it."""
        return {"forget_after": length(micros(self.window["forget_after"]))} if "forget_after" in self.window else {}

    def windows(self) -> Window:
        match self.kind:
            case "count":
                timeout = self.window.get("timeout")
                return Count(
                    self.window["count"],
                    self.window.get("every"),
                    timeout=None if timeout is None else length(micros(timeout)),
                    **self.forgetting,
                )
            case "global":
                options = dict(self.window["global"])
                ends_with = F.expr(options.pop("ends_with")) if "ends_with" in options else None
                ((trigger, what),) = options.items()
                if trigger == "every":
                    return Global.every(what, ends_with=ends_with, **self.forgetting)
                if trigger == "split":
                    return Global.split(ends_and_begins(what))
                if trigger == "when":
                    return Global.when(F.expr(what), **self.forgetting)
                return Global.changes(F.expr(what), ends_with=ends_with, **self.forgetting)
            case "session":
                gap, most, ends = (self.window.get(name) for name in ("session", "max_length", "ends_with"))
                return Session(
                    F.expr(gap) if isinstance(gap, str) else length(micros(gap)),
                    max_length=None if most is None else length(micros(most)),
                    ends_with=None if ends is None else F.expr(ends),
                )
            case "custom":
                return Custom(F.expr(self.window["custom"]))
            case "around":
                return Around(length(micros(self.window["around"])), length(micros(self.window.get("after", 0))))
            case "calendar":
                offset = self.window.get("offset", 0)
                options = {
                    "offset": offset if isinstance(offset, str) else length(micros(offset)),
                    "timezone": self.window["timezone"],
                    "week_start": self.window.get("week_start"),
                }
                if "every" in self.window:
                    return Sliding(self.window["calendar"], self.window["every"], **options)
                return Tumbling(self.window["calendar"], **options)
            case "cumulate":
                return Cumulate(length(self.size), length(self.slide), length(self.offset))
            case "tumbling":
                return Tumbling(length(self.size), length(self.offset), starts=self.window.get("starts", "grid"))
        return Sliding(length(self.size), length(self.slide), length(self.offset), gaps=True)

    def far(self) -> tuple[int, int]:
        """The time of a scenario's last row, and the number of its panes: the largest possible number."""
        if self.kind == "calendar" and "every" in self.window:
            return FAR * 1_000_000, int(self.window["calendar"].split()[0]) // int(self.window["every"].split()[0])
        if self.kind in ("session", "around", "custom", "calendar") or "starts" in self.window:
            return FAR * 1_000_000, 1
        if self.kind == "cumulate":
            return FAR * 1_000_000 // self.size * self.size + self.offset, self.size // self.slide
        return FAR * 1_000_000 // self.slide * self.slide + self.offset, -(-self.size // self.slide)

    @property
    def columns(self) -> list[Column]:
        return [F.expr(sql).alias(name) for name, sql in self.aggs.items()]


@dataclass(frozen=True)
class Then:
    """A second window, Mullion's or Spark's, over the closes of the first; and its open panes after the last step."""

    window: dict[str, Any]
    by: list[str] = field(default_factory=list)
    aggs: dict[str, str] = field(default_factory=lambda: {"total": "sum(v)"})
    at_end: AtEnd = "keep"
    engine: str = "mullion"
    open: list[Firing] = field(default_factory=list)

    @property
    def spec(self) -> Spec:
        return Spec(self.window, by=self.by, aggs=self.aggs, at_end=self.at_end)

    def over(self, panes: DataFrame) -> DataFrame:
        if self.engine == "mullion":
            return self.spec.over(panes, "window")
        size, slide, offset = (f"{us} microseconds" for us in (self.spec.size, self.spec.slide, self.spec.offset))
        # Spark's closes have the columns of Mullion's.
        groups = [F.window("window", size, slide, offset), *map(F.expr, self.by)]
        pane = F.expr("named_struct('firing', 'close', 'seq', 0) AS pane")
        return panes.groupBy(*groups).agg(*self.spec.columns).select(*self.spec.keys, "window", pane, *self.aggs)


@dataclass(frozen=True)
class Scenario(Options):
    """A YAML document of ``tests/transcripts``."""

    name: str
    rule: int | list[int]
    window: dict[str, Any] = field(default_factory=dict)
    together: dict[str, dict[str, Any]] = field(default_factory=dict)
    columns: str = "k string, v int"
    watermark: Decimal | int = 0
    streams: int = 1
    before: str | None = None
    records: int | None = None
    then: dict[str, Any] | None = None
    mode: str = "append"
    refused: str | None = None
    steps: list[Any] = field(default_factory=list)
    open: list[Firing] = field(default_factory=list)
    end: list[Firing] | None = None
    flood: bool = True
    batch: list[Firing] | None = None

    def changed(self, changes: Mapping[str, Any]) -> Scenario:
        """The scenario with changed fields, for a query that resumes this one's checkpoint."""
        unknown = set(changes) - {f.name for f in fields(Scenario)}
        assert not unknown, f"a scenario has no {', '.join(sorted(unknown))}: {changes}"
        defaults = Scenario(self.name, self.rule)
        return replace(self, **{name: getattr(defaults, name) if to is None else to for name, to in changes.items()})

    @property
    def parts(self) -> dict[str, Spec]:
        """The windows of a query with several windows, by name."""
        return {name: checked(Spec, options) for name, options in self.together.items()}

    @property
    def spec(self) -> Spec:
        """The output. Panes of several windows have the window's name among the keys."""
        if self.together:
            parts = list(self.parts.values())
            return replace(
                parts[0],
                by=list(dict.fromkeys(["window_name", *(key for part in parts for key in part.keys)])),
                aggs={name: name for part in parts for name in part.aggs},
                accumulate=all(part.accumulate for part in parts),
                late="emit" if any(part.late == "emit" for part in parts) else "drop",
                empty=next((part.empty for part in parts if part.empty != "skip"), "skip"),
                ids=any(part.ids for part in parts),
            )
        return Spec(self.window, **{option.name: getattr(self, option.name) for option in fields(Options)})

    def over(self, rows: DataFrame) -> DataFrame:
        if not self.together:
            return self.spec.over(rows, "ts")
        return together(**{name: part.over(rows, "ts") for name, part in self.parts.items()})

    def far(self) -> tuple[int, int]:
        """The time of the last row, and the number of its panes."""
        parts = [part.far() for part in self.parts.values()] or [self.spec.far()]
        assert len({at for at, _ in parts}) == 1, "windows that no time is the start of"
        return parts[0][0], sum(panes for _, panes in parts)

    @property
    def chained(self) -> Then | None:
        return None if self.then is None else checked(Then, self.then)

    @property
    def last(self) -> Spec:
        return self.chained.spec if self.chained else self.spec

    @property
    def schema(self) -> str:
        """The schema of the files. Times become timestamps when they are read."""
        return f"ts bigint, {self.columns}"

    @property
    def names(self) -> list[str]:
        return [column.split()[0] for column in split(self.schema)]


def checked(kind: Any, values: Mapping[str, Any]) -> Any:
    unknown = set(values) - {f.name for f in fields(kind)}
    assert not unknown, f"a {kind.__name__.lower()} has no {', '.join(sorted(unknown))}: {values}"
    return kind(**values)


class Loader(yaml.CSafeLoader):
    """Reads numbers as decimals, because a time in microseconds is no binary fraction.

    It extends the loader in C: every worker of pytest reads all scenarios, and the one in Python is seven times slower.
    """


Loader.add_constructor("tag:yaml.org,2002:float", lambda _, node: Decimal(node.value))


def ends_and_begins(column: str) -> SplitOf:
    """The split function of scenarios: a row of 0 ends a window, and a row below 0 begins one."""

    # A local function, so that cloudpickle sends it to the workers by value.
    def split(buffer: pa.RecordBatch) -> list[int]:
        values = buffer[column].to_pylist()
        ends = {i + 1 for i, value in enumerate(values) if value == 0}
        return sorted(ends | {i for i, value in enumerate(values) if value is not None and value < 0})

    return split


def scenarios() -> list[Scenario]:
    documents = (yaml.load_all(file.read_text("utf-8"), Loader) for file in sorted(FOLDER.glob("*.yaml")))
    return [checked(Scenario, document) for file in documents for document in file]


def micros(seconds: Any) -> int:
    us = Decimal(str(seconds)) * 1_000_000
    assert us == int(us), f"{seconds} s is not a whole number of microseconds"
    return int(us)


def seconds(us: int) -> Decimal:
    return Decimal(us) / 1_000_000


def length(us: int) -> timedelta:
    return timedelta(microseconds=us)


def camel(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


def split(columns: str) -> list[str]:
    """Splits a schema into columns, at commas outside brackets."""
    parts, depth = [""], 0
    for letter in columns:
        depth += (letter in "<(") - (letter in ">)")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]
