"""Runs a story, and looks at each step at all that it says."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, reduce
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from mullion import DroppedRowsWarning, read_panes
from tests.support.clocked import ClockedQuery
from tests.support.transcripts.story import FAR, OPERATOR, Firing, Spec, Step, Story, camel, length, micros, seconds
from tests.support.transcripts.told import as_json, pane_of, said_by, same, same_batches, shown


class Run:
    """One story."""

    def __init__(self, spark: SparkSession, story: Story, folder: Path) -> None:
        self.spark = spark
        self.story = story
        self.folders = [folder / name for name in ("rows", "other")[: story.streams]]
        for rows in self.folders:
            rows.mkdir(parents=True)
        self.checkpoint = folder / "checkpoint"
        self.now_ms = 0
        # One list per step with rows.
        self.files: list[list[Path]] = []
        self.reports = 0
        self.open = 0
        self.ended = False
        self.panes = self.streamed()

    def streamed(self) -> DataFrame:
        return self.over(*(self.spark.readStream.schema(self.story.schema).json(str(rows)) for rows in self.folders))

    @cached_property
    def query(self) -> ClockedQuery:
        """Starts with the first rows there: one with early firings runs a batch at its start."""
        return self.start()

    def over(self, *streams: DataFrame) -> DataFrame:
        """The panes of the story over its streams, with times in microseconds."""
        delay = f"{micros(self.story.watermark)} microseconds"
        timed = [rows.withColumn("ts", F.timestamp_micros("ts")).withWatermark("ts", delay) for rows in streams]
        rows = reduce(DataFrame.union, timed)
        match self.story.before:
            case "dropDuplicates":
                rows = rows.dropDuplicates(["ts", "k"])
            case "join":
                names = self.spark.sql("SELECT * FROM VALUES ('a', 'Anna'), ('b', 'Bob') AS t(k, name)")
                rows = rows.join(names, "k", "left").select("ts", *self.story.names[1:], "name")
            case other:
                assert other is None, f"nothing comes before a window as {other!r}"
        with warnings.catch_warnings():
            # Of duplicates that are dropped before the window, which is what the story is about.
            warnings.simplefilter("ignore", DroppedRowsWarning)
            panes = self.story.over(rows)
        if self.story.chained:
            panes = self.story.chained.over(panes)
        return panes

    def another(self, story: Story, folder: Path) -> Run:
        """A run of another story."""
        return Run(self.spark, story, folder)

    def start(self, *, drain: bool = False) -> ClockedQuery:
        self.reports = 0
        return ClockedQuery(
            shown(self.panes, self.story.last),
            checkpoint=self.checkpoint,
            output_mode=self.story.mode,
            start_ms=self.now_ms,
            drain=drain,
        )

    def step(self, step: Step) -> list[list[Firing]]:
        """What the batches of a step fired, batch by batch."""
        # A query that drained its input has ended, and what comes next starts it again.
        down = step.starts_again or self.ended
        if down and "query" in vars(self):
            self.query.stop()
        if step.crash:
            self.forget_last_commit()
        if step.change is not None:
            self.story = self.story.changed(step.change)
            self.panes = self.streamed()
        self.write(step)
        if not down:
            _ = self.query
        if step.advance:
            self.now_ms += micros(step.advance) // 1000
        if down:
            self.query = self.start(drain=step.drain)
        elif step.advance:
            self.query.advance(length(micros(step.advance)))
        self.ended = step.drain
        query = self.query
        fired = said_by(query.settle(), self.story.names)

        # Spark reports now and then that nothing happened, with the numbers of the batch before.
        reports = [report for report in self.query.progress if "addBatch" in report["durationMs"]][self.reports :]
        self.reports += len(reports)
        operators = [ours for report in reports if (ours := self.operators(report))]
        for count in COUNTED:
            assert counted(operators, -1, f"rows{camel(count)}") == getattr(step, count)
            if len(operators[0] if operators else []) > 1:
                assert counted(operators, 0, f"rows{camel(count)}") == 0, "downstream"
        if self.story.chained is None or self.story.chained.engine == "mullion":
            for kind in [*FIRINGS, *(["running"] if self.story.spec.running else [])]:
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

    def write(self, step: Step) -> None:
        written = [
            self.write_file(folder, rows)
            for folder, rows in zip(self.folders, (step.rows, step.other), strict=False)
            if rows is not None
        ]
        if written:
            self.files.append(written)

    def write_file(self, folder: Path, rows: Sequence[Sequence[Any]]) -> Path:
        names = self.story.names
        hidden = folder / "_next"
        with hidden.open("w", encoding="utf-8") as out:
            for row in rows:
                assert len(row) == len(names), f"{row} is not a row of {names}"
                values = dict(zip(names, row, strict=True))
                values["ts"] = None if row[0] is None else micros(row[0])
                out.write(json.dumps(values, default=float) + "\n")
        return hidden.rename(folder / f"{len(self.files):04}.json")

    def as_batch(self, steps: int) -> list[Firing]:
        """The same panes over a batch DataFrame of the rows of the first steps."""
        # One after another: of several files Spark reads the longest first.
        read = self.spark.read.schema(self.story.schema)
        rows = reduce(DataFrame.union, [read.json(str(file)) for files in self.files[:steps] for file in files])
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
            assert read.columns == [*spec.keys, "window", *(["pane"] if spec.ids else []), *spec.holds]
            panes.append(said_by(as_json(read, spec, pane=False).collect(), self.story.names))
        return panes

    def records(self) -> int:
        """How many records the state of our windows holds."""
        return sum(int(operator["numRowsTotal"]) for operator in self.operators(self.query.progress[-1]))


COUNTED = ("late", "ahead", "without_time", "in_no_window")
FIRINGS = ("early", "on_time", "update", "close")


def counted(operators: Sequence[Sequence[Any]], which: int, metric: str) -> int:
    """A metric of one of the windows, over the batches of a step."""
    return sum(batch[which]["customMetrics"][metric] for batch in operators)


def play(run: Run) -> None:
    fired: list[Firing] = []
    left_out = 0
    steps = [*map(Step.read, run.story.steps)]
    for number, step in enumerate(steps, start=1):
        batches = run.step(step)
        story = run.story
        at = f"step {number}"
        if step.batches is None:
            told = [firing for batch in batches for firing in batch]
            same(told, step.fires or [], story.last, at)
        else:
            same_batches(batches, step.batches, story.last, at)
            told = [firing for batch in batches for firing in batch]
        if not step.crash:
            fired += told
        left_out += step.late + step.ahead

    story = run.story
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
    forgets = "forget_after" in story.spec.window or "forget_after" in story.spec.clock
    alike = not forgets and story.spec.accumulate and story.spec.time == "event" and story.spec.empty == "skip"
    # Of a run after the end of another one a batch knows nothing, nor of another query before it.
    is_one = not any(step.drain for step in steps[:-1]) and not any(step.change is not None for step in steps)
    if left_out == 0 and alike and is_one:
        files = len(run.files) - 1 if story.flood else len(run.files)
        still_open = [] if story.flood or story.spec.is_numbered else [{"close": 0, **pane} for pane in story.open]
        closed = [*map(without_id, run.as_batch(files))]
        wanted = closes + still_open if story.batch is None else story.batch
        same(closed, [*map(without_id, wanted)], story.last, "the same as a batch")


def without_id(firing: Firing) -> Firing:
    """As a batch has it: what a stream calls a pane may depend on its batches."""
    return {name: value for name, value in firing.items() if name not in ("id", "merged")}


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
    last = [[seconds(at), *([None] * (len(story.names) - 1))]]
    batches = run.step(Step(rows=last, other=last if story.streams > 1 else None))
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
    """How often a pane that is open has fired: the seq of its close."""
    here = [other for other in fired if pane_of(other, spec) == pane_of(pane, spec)]
    return len(here) - max((i + 1 for i, other in enumerate(here) if "close" in other), default=0)


_one_row: dict[tuple[object, ...], int] = {}


def one_row(run: Run) -> int:
    """The records of a state with a row far in the future, after a row whose panes it closes.

    The earlier row gives the clock its first reading, so that the pane of the other fires early as at a story's end.
    """
    spec = run.story.spec
    window: dict[str, Any] = {spec.kind: 10}
    if spec.kind == "custom":
        window = {"custom": "mullion_windows(ts, '10 seconds')"}
    elif (
        spec.kind in ("calendar", "cumulate")
        or "starts" in spec.window
        or (spec.kind == "session" and len(spec.window) > 1)
    ):
        window = spec.window
    elif spec.kind in ("tumbling", "sliding"):
        sliding = {"sliding": seconds(spec.size), "every": seconds(spec.slide)}
        window = sliding if spec.slide < spec.size else {"tumbling": 10}
    several = run.story.together
    shape = (
        run.spark.conf.get("spark.sql.shuffle.partitions"),
        str(several or window),
        str(spec.early),
        spec.on_time,
        spec.accumulate,
        str(spec.collect),
        spec.ids,
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
            collect=spec.collect,
            ids=spec.ids,
        )
        if several:
            story = Story("one row", 0, together=several, columns=run.story.columns)
        with_one = run.another(story, run.folders[0].parent / "one_row")
        try:
            for time in (FAR // 2, FAR):
                with_one.step(Step(rows=[[time, *([None] * (len(story.names) - 1))]]))
            _one_row[shape] = with_one.records()
        finally:
            with_one.query.stop()
    return _one_row[shape]
