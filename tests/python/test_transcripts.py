"""Runs the stories of ``tests/transcripts`` through the public API; its README says how a story reads.

``TranscriptSuite`` runs the same files in Scala.
"""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from decimal import Decimal
from functools import reduce
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pytest
import yaml
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from mullion import (
    Around,
    Count,
    Custom,
    Early,
    Global,
    MullionError,
    Session,
    Sliding,
    Tumbling,
    read_panes,
    together,
    windowed,
)
from mullion.testing import ClockedQuery
from mullion.windows import SplitOf, Window

FOLDER = Path(__file__).parents[1] / "transcripts"
STORES = ("rocksdb", "hdfs", "memory")
OPERATOR = "mullionWindow"
# No story but those that say `flood: false` comes near this second.
FAR = 1_000_000_000

Firing: TypeAlias = dict[str, Any]


# --- What a story says -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    """Something happens to the query; what it does then."""

    rows: list[list[Any]] | None = None
    advance: Decimal | int = 0
    restart: bool = False
    crash: bool = False
    fires: list[Firing] | None = None
    batches: list[list[Firing]] | None = None
    late: int = 0
    without_time: int = 0
    in_no_window: int = 0
    open: int | None = None

    @staticmethod
    def read(step: Any) -> Step:
        read: Step = checked(Step, {step: True} if isinstance(step, str) else step)
        assert read.fires is None or read.batches is None, f"{step}: either fires or batches"
        alone = read.rows is None or not read.advance or read.restart or read.crash
        assert alone, f"{step}: time may pass before rows come only while the query is down"
        return read


@dataclass(frozen=True)
class Spec:
    """A window and what its panes hold."""

    window: dict[str, Any]
    by: list[str] = field(default_factory=lambda: ["k"])
    aggs: dict[str, str] = field(default_factory=lambda: {"total": "sum(v)"})
    lateness: Decimal | int = 0
    early: dict[str, Any] | None = None
    on_time: bool = False
    accumulate: bool = True
    late: str = "drop"
    empty: str = "skip"
    time: str = "event"
    idle_after: Decimal | int | None = None
    running: bool = False
    per_key: bool = False
    collect: dict[str, Any] | None = None

    @property
    def kind(self) -> str:
        """Of windows on a grid (``tumbling`` and ``sliding``) are the lengths below."""
        (kind,) = {"tumbling", "sliding", "session", "around", "custom", "count", "global"} & set(self.window)
        return kind

    @property
    def is_numbered(self) -> bool:
        """Whether windows are of row numbers."""
        return self.kind in ("count", "global")

    @property
    def holds(self) -> list[str]:
        """The columns of a pane."""
        return list(self.aggs) if self.collect is None else ["rows"]

    @property
    def size(self) -> int:
        return micros(self.window.get("tumbling", self.window.get("sliding")))

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

    def over(self, rows: DataFrame, time: str, store: str) -> DataFrame:
        early = None
        if self.early is not None:
            every = self.early.get("every")
            early = Early(
                None if every is None else length(micros(every)),
                unchanged=self.early.get("unchanged", False),
                count=self.early.get("count"),
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
            empty=self.empty,
            idle_after=None if self.idle_after is None else length(micros(self.idle_after)),
            state=store,
            running=self.running,
            watermark="per key" if self.per_key else "stream",
        )
        if self.collect is not None:
            return panes.collect(
                "time" if self.by_time else "arrival", max_rows=self.collect.get("max_rows", 1_000_000)
            )
        return panes.agg(*self.columns)

    @property
    def by_time(self) -> bool:
        return self.collect is not None and self.collect.get("order") == "time"

    def windows(self) -> Window:
        match self.kind:
            case "count":
                return Count(self.window["count"], self.window.get("every"))
            case "global":
                ((trigger, what),) = self.window["global"].items()
                if trigger == "every":
                    return Global.every(what)
                if trigger == "split":
                    return Global.split(ends_and_begins(what))
                return Global.when(F.expr(what)) if trigger == "when" else Global.changes(F.expr(what))
            case "session":
                gap = self.window["session"]
                return Session(F.expr(gap) if isinstance(gap, str) else length(micros(gap)))
            case "custom":
                return Custom(F.expr(self.window["custom"]))
            case "around":
                return Around(length(micros(self.window["around"])), length(micros(self.window.get("after", 0))))
            case "tumbling":
                return Tumbling(length(self.size), length(self.offset))
        return Sliding(length(self.size), length(self.slide), length(self.offset))

    def far(self) -> tuple[int, int]:
        """When the last row of a story comes, and how many panes it is in: as many as a row can be."""
        if self.kind in ("session", "around", "custom"):
            return FAR * 1_000_000, 1
        return FAR * 1_000_000 // self.slide * self.slide + self.offset, -(-self.size // self.slide)

    @property
    def columns(self) -> list[Column]:
        return [F.expr(sql).alias(name) for name, sql in self.aggs.items()]


@dataclass(frozen=True)
class Then:
    """A second window over the closes of the first, ours or Spark's own; what it has open when the steps are done."""

    window: dict[str, Any]
    by: list[str] = field(default_factory=list)
    aggs: dict[str, str] = field(default_factory=lambda: {"total": "sum(v)"})
    engine: str = "mullion"
    open: list[Firing] = field(default_factory=list)

    @property
    def spec(self) -> Spec:
        return Spec(self.window, self.by, self.aggs)

    def over(self, panes: DataFrame, store: str) -> DataFrame:
        if self.engine == "mullion":
            return self.spec.over(panes, "window", store)
        size, slide, offset = (f"{us} microseconds" for us in (self.spec.size, self.spec.slide, self.spec.offset))
        # Spark's closes look as ours do.
        groups = [F.window("window", size, slide, offset), *map(F.expr, self.by)]
        pane = F.expr("named_struct('firing', 'close', 'index', 0) AS pane")
        return panes.groupBy(*groups).agg(*self.spec.columns).select(*self.spec.keys, "window", pane, *self.aggs)


@dataclass(frozen=True)
class Story:
    """A document of the folder."""

    name: str
    rule: int | list[int]
    window: dict[str, Any] = field(default_factory=dict)
    together: dict[str, dict[str, Any]] = field(default_factory=dict)
    columns: str = "k string, v int"
    watermark: Decimal | int = 0
    before: str | None = None
    by: list[str] = field(default_factory=lambda: ["k"])
    aggs: dict[str, str] = field(default_factory=lambda: {"total": "sum(v)"})
    lateness: Decimal | int = 0
    early: dict[str, Any] | None = None
    on_time: bool = False
    accumulate: bool = True
    late: str = "drop"
    empty: str = "skip"
    time: str = "event"
    idle_after: Decimal | int | None = None
    running: bool = False
    per_key: bool = False
    collect: dict[str, Any] | None = None
    records: int | None = None
    then: dict[str, Any] | None = None
    mode: str = "append"
    refused: str | None = None
    steps: list[Any] = field(default_factory=list)
    open: list[Firing] = field(default_factory=list)
    end: list[Firing] | None = None
    flood: bool = True

    @property
    def parts(self) -> dict[str, Spec]:
        """The windows that are together, if several are, by their names."""
        return {name: checked(Spec, said) for name, said in self.together.items()}

    @property
    def spec(self) -> Spec:
        """What comes out; of several windows, panes with the name of their window among the keys."""
        if self.together:
            parts = list(self.parts.values())
            return replace(
                parts[0],
                by=list(dict.fromkeys(["window_name", *(key for part in parts for key in part.keys)])),
                aggs={name: name for part in parts for name in part.aggs},
                accumulate=all(part.accumulate for part in parts),
                late="emit" if any(part.late == "emit" for part in parts) else "drop",
                empty="emit" if any(part.empty == "emit" for part in parts) else "skip",
            )
        firings = (self.early, self.on_time, self.accumulate)
        spec = Spec(
            self.window, self.by, self.aggs, self.lateness, *firings, self.late, self.empty, self.time, self.idle_after
        )
        return replace(spec, running=self.running, per_key=self.per_key, collect=self.collect)

    def over(self, rows: DataFrame, store: str) -> DataFrame:
        if not self.together:
            return self.spec.over(rows, "ts", store)
        return together(**{name: part.over(rows, "ts", store) for name, part in self.parts.items()})

    def far(self) -> tuple[int, int]:
        """When the last row comes, and how many panes it is in."""
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
        """Of its rows as they are written; their time becomes a timestamp when they are read."""
        return f"ts bigint, {self.columns}"

    @property
    def names(self) -> list[str]:
        return [column.split()[0] for column in split(self.schema)]


def checked(kind: Any, said: Mapping[str, Any]) -> Any:
    unknown = set(said) - {f.name for f in fields(kind)}
    assert not unknown, f"a {kind.__name__.lower()} has no {', '.join(sorted(unknown))}: {said}"
    return kind(**said)


class Loader(yaml.SafeLoader):
    """Keeps numbers exact: a time in microseconds is no binary fraction."""


Loader.add_constructor("tag:yaml.org,2002:float", lambda _, node: Decimal(node.value))


def ends_and_begins(column: str) -> SplitOf:
    """The function that splits windows of stories: a row of 0 is the last of a window, and one below 0 the first."""

    # Made here, so that it travels to the workers whole.
    def split(buffer: pa.RecordBatch) -> list[int]:
        values = buffer[column].to_pylist()
        ends = {i + 1 for i, value in enumerate(values) if value == 0}
        return sorted(ends | {i for i, value in enumerate(values) if value is not None and value < 0})

    return split


def stories() -> list[Story]:
    documents = (yaml.load_all(file.read_text("utf-8"), Loader) for file in sorted(FOLDER.glob("*.yaml")))
    return [checked(Story, document) for file in documents for document in file]


# --- Running it ------------------------------------------------------------------------------------------------------


class Run:
    """One story on one state store."""

    def __init__(self, spark: SparkSession, story: Story, store: str, folder: Path) -> None:
        self.spark = spark
        self.story = story
        self.store = store
        self.rows = folder / "rows"
        self.rows.mkdir(parents=True)
        self.checkpoint = folder / "checkpoint"
        self.now_ms = 0
        self.files = 0
        self.reports = 0
        self.open = 0
        self.panes = self.over(spark.readStream.schema(story.schema).json(str(self.rows)))
        self.query = self.start()

    def over(self, rows: DataFrame) -> DataFrame:
        """The panes of the story over its rows, whose time stands in them as microseconds."""
        rows = rows.withColumn("ts", F.timestamp_micros("ts"))
        rows = rows.withWatermark("ts", f"{micros(self.story.watermark)} microseconds")
        match self.story.before:
            case "dropDuplicates":
                rows = rows.dropDuplicates(["ts", "k"])
            case "join":
                names = self.spark.sql("SELECT * FROM VALUES ('a', 'Anna'), ('b', 'Bob') AS t(k, name)")
                rows = rows.join(names, "k", "left").select("ts", *self.story.names[1:], "name")
            case other:
                assert other is None, f"nothing comes before a window as {other!r}"
        panes = self.story.over(rows, self.store)
        if self.story.chained:
            panes = self.story.chained.over(panes, self.store)
        return panes

    def start(self) -> ClockedQuery:
        self.reports = 0
        return ClockedQuery(
            shown(self.panes, self.story.last),
            checkpoint=self.checkpoint,
            output_mode=self.story.mode,
            start_ms=self.now_ms,
        )

    def step(self, step: Step) -> list[list[Firing]]:
        """What the batches of a step fired, batch by batch."""
        if step.restart or step.crash:
            self.query.stop()
        if step.crash:
            self.forget_last_commit()
        if step.advance:
            self.now_ms += micros(step.advance) // 1000
        if step.rows is not None:
            self.write(step.rows)
        if step.restart or step.crash:
            self.query = self.start()
        elif step.advance:
            self.query.advance(length(micros(step.advance)))
        fired = said_by(self.query.settle(), self.story.names)

        # Spark reports now and then that nothing happened, with the numbers of the batch before.
        reports = [report for report in self.query.progress if "addBatch" in report["durationMs"]][self.reports :]
        self.reports += len(reports)
        operators = [ours for report in reports if (ours := self.operators(report))]
        for count in COUNTED:
            assert counted(operators, -1, f"rows{camel(count)}") == getattr(step, count)
            if len(operators[0] if operators else []) > 1:
                assert counted(operators, 0, f"rows{camel(count)}") == 0, "downstream"
        if self.story.chained is None or self.story.chained.engine == "mullion":
            for kind in [*FIRINGS, *(["running"] if self.story.running else [])]:
                assert counted(operators, 0, f"firings{camel(kind)}") == sum(kind in firing for firing in fired)
        if operators:
            self.open = operators[-1][-1]["customMetrics"]["panesOpen"]
        if step.open is not None:
            assert self.open == step.open, "open panes"

        batches = []
        for report in reports:
            count = report["sink"]["numOutputRows"]
            batches.append(fired[:count])
            fired = fired[count:]
        assert not fired, "rows that no batch wrote"
        return batches

    def operators(self, report: Mapping[str, Any]) -> list[Any]:
        """The windows of ours in a batch, the one downstream first."""
        return [operator for operator in report["stateOperators"] if operator["operatorName"] == OPERATOR]

    def forget_last_commit(self) -> None:
        """The last batch wrote its state and its output, and the query died before that was noted down."""
        last = max(int(file.name) for file in (self.checkpoint / "commits").iterdir() if file.name.isdigit())
        for name in (str(last), f".{last}.crc"):
            (self.checkpoint / "commits" / name).unlink(missing_ok=True)

    def write(self, rows: Sequence[Sequence[Any]]) -> None:
        names = self.story.names
        hidden = self.rows / "_next"
        with hidden.open("w", encoding="utf-8") as out:
            for row in rows:
                assert len(row) == len(names), f"{row} is not a row of {names}"
                values = dict(zip(names, row, strict=True))
                values["ts"] = None if row[0] is None else micros(row[0])
                out.write(json.dumps(values, default=float) + "\n")
        hidden.rename(self.rows / f"{self.files:04}.json")
        self.files += 1

    def as_batch(self, files: int) -> list[Firing]:
        """What the same panes are over a batch DataFrame of the rows in the first files."""
        # One after another: of several files Spark reads the longest first.
        read = self.spark.read.schema(self.story.schema)
        rows = reduce(DataFrame.union, [read.json(str(self.rows / f"{i:04}.json")) for i in range(files)])
        return said_by(shown(self.over(rows), self.story.last).collect(), self.story.names)

    def open_panes(self) -> list[list[Firing]]:
        """The open panes of each window of ours, the one downstream first."""
        then = self.story.chained
        specs = [then.spec] if then and then.engine == "mullion" else []
        # A checkpoint has windows in order of their names.
        specs.append(replace(self.story, together=dict(sorted(self.story.together.items()))).spec)
        ids = sorted(int(file.parts[-3]) for file in self.checkpoint.glob("state/*/_mullion/header.json"))
        assert len(ids) == len(specs)
        panes = []
        for spec, operator in zip(specs, ids, strict=True):
            read = read_panes(self.checkpoint, operator=operator, spark=self.spark)
            assert read.columns == [*spec.keys, "window", *spec.holds]
            panes.append(said_by(as_json(read, spec, pane=False).collect(), self.story.names))
        return panes

    def records(self) -> int:
        """How many records the state of our windows holds."""
        return sum(int(operator["numRowsTotal"]) for operator in self.operators(self.query.progress[-1]))


COUNTED = ("late", "without_time", "in_no_window")
FIRINGS = ("early", "on_time", "update", "close")


def counted(operators: Sequence[Sequence[Any]], which: int, metric: str) -> int:
    """A metric of one of the windows, over the batches of a step."""
    return sum(batch[which]["customMetrics"][metric] for batch in operators)


def play(run: Run) -> None:
    story = run.story
    fired: list[Firing] = []
    late = 0
    for number, step in enumerate(map(Step.read, story.steps), start=1):
        batches = run.step(step)
        at = f"step {number}"
        if step.batches is None:
            told = [firing for batch in batches for firing in batch]
            same(told, step.fires or [], story.last, at)
        else:
            same_batches(batches, step.batches, story.last, at)
            told = [firing for batch in batches for firing in batch]
        if not step.crash:
            fired += told
        late += step.late

    *downstream, open_here = run.open_panes()
    same(open_here, story.open, story.spec, "open at the end")
    assert run.open == len(story.open), "the metric panesOpen"
    if story.records is not None:
        assert run.records() == story.records, "records in state"
    for panes in downstream:
        same(panes, story.chained.open if story.chained else [], story.last, "open downstream at the end")
    if not story.flood:
        last = []
    elif story.spec.time == "processing":
        last = outwaited(run, fired)
    else:
        last = drowned(run, fired)
    closes = [{**firing, "close": 0} for firing in fired + last if "close" in firing]
    # What a firing has taken away a batch still has, on processing time its rows have one time, and it ends elsewhere
    # than a clock that closes windows without rows.
    if late == 0 and story.spec.accumulate and story.spec.time == "event" and story.spec.empty == "skip":
        files = run.files - 1 if story.flood else run.files
        still_open = [] if story.flood or story.spec.is_numbered else [{"close": 0, **pane} for pane in story.open]
        same(run.as_batch(files), closes + still_open, story.last, "the same as a batch")


def outwaited(run: Run, fired: Sequence[Firing]) -> list[Firing]:
    """Time passes, and all closes; then nothing is left in state."""
    batches = run.step(Step(advance=FAR))
    told = [pane for batch in batches for pane in batch]
    same(told, expected_at_end(run.story, fired), run.story.last, "when all closes")
    assert not any(run.open_panes())
    assert (run.open, run.records()) == (0, 0)
    return told


def expected_at_end(story: Story, fired: Sequence[Firing]) -> list[Firing]:
    if story.end is not None:
        return story.end
    assert story.then is None, "a story of two windows says what comes at its end"
    return [{"close": times_fired(pane, fired, story.spec), **pane} for pane in story.open]


def drowned(run: Run, fired: Sequence[Firing]) -> list[Firing]:
    """A row comes far in the future, and all closes; then nothing is left in state but what that row put there."""
    story = run.story
    at, windows = story.far()
    batches = run.step(Step(rows=[[seconds(at), *([None] * (len(story.names) - 1))]]))
    mine = [pane for batch in batches for pane in batch if micros(pane["window"][1]) > at]
    told = [pane for batch in batches for pane in batch if pane not in mine]
    assert all("early" in pane or "running" in pane for pane in mine)
    same(told, expected_at_end(story, fired), story.last, "when all closes")

    *downstream, open_here = run.open_panes()
    assert len(open_here) == windows, f"panes left besides those of the last row: {open_here}"
    assert all(micros(pane["window"][1]) > at for pane in open_here)
    assert run.open == windows
    assert not any(downstream)
    assert run.records() == one_row(run), "records in state besides those of the last row"
    return told


def times_fired(pane: Firing, fired: Iterable[Firing], spec: Spec) -> int:
    """How often a pane that is open has fired: the index of its close."""
    here = [other for other in fired if pane_of(other, spec) == pane_of(pane, spec)]
    return len(here) - max((i + 1 for i, other in enumerate(here) if "close" in other), default=0)


_one_row: dict[tuple[object, ...], int] = {}


def one_row(run: Run) -> int:
    """The records of a state that never saw another row than the last."""
    spec = run.story.spec
    window: dict[str, Any] = {spec.kind: 10}
    if spec.kind == "custom":
        window = {"custom": "mullion_windows(ts, '10 seconds')"}
    elif spec.kind in ("tumbling", "sliding"):
        sliding = {"sliding": seconds(spec.size), "every": seconds(spec.slide)}
        window = sliding if spec.slide < spec.size else {"tumbling": 10}
    several = run.story.together
    shape = (
        run.store,
        str(several or window),
        str(spec.early),
        spec.on_time,
        spec.accumulate,
        spec.running,
        str(spec.collect),
    )
    if shape not in _one_row:
        story = Story(
            "one row",
            0,
            window,
            lateness=spec.lateness,
            early=spec.early,
            on_time=spec.on_time,
            accumulate=spec.accumulate,
            running=spec.running,
            collect=spec.collect,
        )
        if several:
            story = Story("one row", 0, together=several, columns=run.story.columns)
        with_one = Run(run.spark, story, run.store, run.rows.parent / "one_row")
        try:
            with_one.step(Step(rows=[[FAR, *([None] * (len(story.names) - 1))]]))
            _one_row[shape] = with_one.records()
        finally:
            with_one.query.stop()
    return _one_row[shape]


# --- Panes as a story tells them -------------------------------------------------------------------------------------


def shown(panes: DataFrame, spec: Spec) -> DataFrame:
    columns = [*spec.keys, "window", "pane", *spec.holds]
    assert panes.columns == (columns if spec.late != "emit" else [*columns, "late_row"])
    return as_json(panes, spec, pane=True)


def as_json(panes: DataFrame, spec: Spec, *, pane: bool) -> DataFrame:
    """Panes as JSON, with times as microseconds: the same in every language, over the whole range of time."""
    bounds = "unix_micros(window.start), unix_micros(window.end)"
    if spec.is_numbered:
        # Row numbers as if they were seconds, as a story says them.
        bounds = "window.start * 1000000, window.end * 1000000"
    window = f"if(window IS NULL, NULL, array({bounds})) AS window"
    values = [f"`{name}`" for name in spec.holds]
    if spec.collect is not None:
        row: Any = panes.schema["rows"].dataType
        fields = ["unix_micros(r.ts) AS ts", *(f"r.`{name}`" for name in row.elementType.names[1:])]
        values = [f"transform(rows, r -> struct({', '.join(fields)})) AS rows"]
    told = [*(f"`{key}`" for key in spec.keys), window, *values]
    if pane:
        told += ["pane.firing", "pane.index"]
    if pane and spec.late == "emit":
        late: Any = panes.schema["late_row"].dataType
        late_fields = ["unix_micros(late_row.ts) AS ts", *(f"late_row.`{name}`" for name in late.names[1:])]
        told.append(f"if(late_row IS NULL, NULL, struct({', '.join(late_fields)})) AS late_row")
    return panes.select(F.to_json(F.struct(*map(F.expr, told))).alias("told"))


def said_by(told: Iterable[Row], names: Sequence[str]) -> list[Firing]:
    """Firings as a story says them: ``{close: 0, k: a, window: [0, 10], n: 1}``, ``{late: [3, a, 9], k: a}``."""
    return [as_said(json.loads(row[0], parse_float=Decimal), names) for row in told]


def as_said(told: Firing, names: Sequence[str]) -> Firing:
    if "window" in told:
        told["window"] = [seconds(us) for us in told["window"]]
    if isinstance(told.get("rows"), list):
        told["rows"] = [row_of(row, names) for row in told["rows"]]
    firing, index = told.pop("firing", None), told.pop("index", None)
    if firing != "late":
        return told if firing is None else {firing: index, **told}
    assert index is None
    return {"late": row_of(told.pop("late_row"), names), **told}


def row_of(row: dict[str, Any], names: Sequence[str]) -> list[Any]:
    """A row as a story writes it."""
    time = seconds(row["ts"]) if "ts" in row else None
    return [time, *(row.get(name) for name in names[1:])]


def pane_of(firing: Firing, spec: Spec) -> str:
    return plain({name: firing.get(name) for name in [*spec.keys, "window"]})


def plain(value: Any) -> str:
    """A text that is the same for equal values: numbers by their value, without fields that are null."""

    def of(value: Any) -> Any:
        match value:
            case bool() | None:
                return value
            case int() | Decimal() | float():
                return f"number {Decimal(str(value)).normalize():f}"
            case Mapping():
                return {str(k): of(v) for k, v in value.items() if v is not None}
            case list():
                return [of(v) for v in value]
        return value

    return json.dumps(of(value), sort_keys=True)


def same(told: Sequence[Firing], expected: Sequence[Firing], spec: Spec, at: str) -> None:
    """The same firings in any order, but those of one pane in theirs."""

    def panes(firings: Sequence[Firing]) -> dict[str, list[str]]:
        of: dict[str, list[str]] = {}
        for firing in firings:
            of.setdefault(pane_of(firing, spec), []).append(plain(firing))
        return {pane: sorted(of[pane]) if '"window"' not in pane else of[pane] for pane in of}

    if panes(told) != panes(expected):
        pytest.fail(f"{at}:\n{difference(told, expected)}", pytrace=False)


def same_batches(told: Sequence[list[Firing]], expected: Sequence[list[Firing]], spec: Spec, at: str) -> None:
    for number, (batch, wanted) in enumerate(zip(told, expected, strict=False)):
        same(batch, wanted, spec, f"{at}, batch {number}")
    assert len(told) == len(expected), f"{at}: batches that ran"


def difference(told: Sequence[Firing], expected: Sequence[Firing]) -> str:
    told_, expected_ = Counter(map(plain, told)), Counter(map(plain, expected))
    missing = [f"  missing: {line}" for line in (expected_ - told_).elements()]
    more = [f"  instead: {line}" for line in (told_ - expected_).elements()]
    return "\n".join(missing + more) or "  the firings of a pane in another order"


def micros(seconds: Any) -> int:
    us = Decimal(str(seconds)) * 1_000_000
    assert us == int(us), f"{seconds} s is no whole number of microseconds"
    return int(us)


def seconds(us: int) -> Decimal:
    return Decimal(us) / 1_000_000


def length(us: int) -> timedelta:
    return timedelta(microseconds=us)


def camel(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


def split(columns: str) -> list[str]:
    """The columns of a schema: what its commas part that are in no bracket."""
    parts, depth = [""], 0
    for letter in columns:
        depth += (letter in "<(") - (letter in ">)")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


# --- The tests -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    own = spark.newSession()
    own.conf.set("spark.sql.shuffle.partitions", "2")
    own.conf.set("spark.sql.session.timeZone", "UTC")
    # A file of a few rows is read by several tasks.
    own.conf.set("spark.sql.files.maxPartitionBytes", "64")
    return own


def on_a_store() -> list[Any]:
    """Every story, on the stores in turn.

    The Scala suite is one ahead: every story is run in both languages, each on another store.
    ``MULLION_TEST_STORE=memory`` has all of them run on that.
    """
    stores = [os.environ.get("MULLION_TEST_STORE", STORES[number % len(STORES)]) for number in range(len(stories()))]
    return [
        pytest.param(story, store, id=f"{story.name} ({store})") for story, store in zip(stories(), stores, strict=True)
    ]


@pytest.mark.parametrize(("story", "store"), on_a_store())
def test_the_story_is_true(story: Story, store: str, session: SparkSession, tmp_path: Path) -> None:
    try:
        if story.refused is not None:
            with pytest.raises(MullionError, match=story.refused):
                Run(session, story, store, tmp_path)
            return
        run = Run(session, story, store, tmp_path)
        try:
            play(run)
        finally:
            run.query.stop()
    finally:
        shutil.rmtree(tmp_path)
