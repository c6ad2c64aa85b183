"""Runs a scenario and compares every step with its expectations."""

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
from tests.support.transcripts.firings import as_json, firings_of, pane_of, same, same_batches, shown
from tests.support.transcripts.scenario import (
    FAR,
    OPERATOR,
    Firing,
    Scenario,
    Spec,
    Step,
    camel,
    length,
    micros,
    seconds,
)


class Run:
    """One scenario."""

    def __init__(self, spark: SparkSession, scenario: Scenario, folder: Path) -> None:
        self.spark = spark
        self.scenario = scenario
        self.folders = [folder / name for name in ("rows", "other")[: scenario.streams]]
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
        return self.over(*(self.spark.readStream.schema(self.scenario.schema).json(str(rows)) for rows in self.folders))

    @cached_property
    def query(self) -> ClockedQuery:
        """Starts with the first rows there: one with early firings runs a batch at its start."""
        return self.start()

    def over(self, *streams: DataFrame) -> DataFrame:
        """The panes of the scenario over its streams, with times in microseconds."""
        delay = f"{micros(self.scenario.watermark)} microseconds"
        timed = [rows.withColumn("ts", F.timestamp_micros("ts")).withWatermark("ts", delay) for rows in streams]
        rows = reduce(DataFrame.union, timed)
        match self.scenario.before:
            case "dropDuplicates":
                rows = rows.dropDuplicates(["ts", "k"])
            case "join":
                names = self.spark.sql("SELECT * FROM VALUES ('a', 'Anna'), ('b', 'Bob') AS t(k, name)")
                rows = rows.join(names, "k", "left").select("ts", *self.scenario.names[1:], "name")
            case other:
                assert other is None, f"nothing comes before a window as {other!r}"
        with warnings.catch_warnings():
            # These scenarios test duplicates that Spark drops before the window.
            warnings.simplefilter("ignore", DroppedRowsWarning)
            panes = self.scenario.over(rows)
        if self.scenario.chained:
            panes = self.scenario.chained.over(panes)
        return panes

    def another(self, scenario: Scenario, folder: Path) -> Run:
        """Returns a run of another scenario."""
        return Run(self.spark, scenario, folder)

    def start(self, *, drain: bool = False) -> ClockedQuery:
        self.reports = 0
        return ClockedQuery(
            shown(self.panes, self.scenario.last),
            checkpoint=self.checkpoint,
            output_mode=self.scenario.mode,
            start_ms=self.now_ms,
            drain=drain,
        )

    def step(self, step: Step) -> list[list[Firing]]:
        """Runs a step. Returns the firings of each batch."""
        # A query that drained its input has ended; the next step starts it again.
        down = step.starts_again or self.ended
        if down and "query" in vars(self):
            self.query.stop()
        if step.crash:
            self.forget_last_commit()
        if step.change is not None:
            self.scenario = self.scenario.changed(step.change)
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
        fired = firings_of(query.settle(), self.scenario.names)

        # Spark also reports progress without a batch, with the numbers of the previous batch.
        reports = [report for report in self.query.progress if "addBatch" in report["durationMs"]][self.reports :]
        self.reports += len(reports)
        operators = [ours for report in reports if (ours := self.operators(report))]
        for count in COUNTED:
            assert counted(operators, -1, f"rows{camel(count)}") == getattr(step, count)
            if len(operators[0] if operators else []) > 1:
                assert counted(operators, 0, f"rows{camel(count)}") == 0, "downstream"
        if self.scenario.chained is None or self.scenario.chained.engine == "mullion":
            for kind in [*FIRINGS, *(["running"] if self.scenario.spec.running else [])]:
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
        """The progress of Mullion's operators in a batch, the downstream one first."""
        return [operator for operator in report["stateOperators"] if operator["operatorName"] == OPERATOR]

    def forget_last_commit(self) -> None:
        """Removes the commit of the last batch, as if the query had died after it wrote state and output."""
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
        names = self.scenario.names
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
        # Files are read one at a time: Spark reads the longest of several files first.
        read = self.spark.read.schema(self.scenario.schema)
        rows = reduce(DataFrame.union, [read.json(str(file)) for files in self.files[:steps] for file in files])
        return firings_of(shown(self.over(rows), self.scenario.last).collect(), self.scenario.names)

    def open_panes(self) -> list[list[Firing]]:
        """The open panes of each of Mullion's operators, the downstream one first."""
        then = self.scenario.chained
        specs = [then.spec] if then and then.engine == "mullion" else []
        # A checkpoint contains windows in the order of their names.
        specs.append(replace(self.scenario, together=dict(sorted(self.scenario.together.items()))).spec)
        ids = sorted(int(file.parts[-3]) for file in self.checkpoint.glob("state/*/_mullion/header.json"))
        assert len(ids) == len(specs)
        panes = []
        for spec, operator in zip(specs, ids, strict=True):
            read = read_panes(self.checkpoint, operator=operator, spark=self.spark)
            assert read.columns == [*spec.keys, "window", *(["pane"] if spec.ids else []), *spec.holds]
            panes.append(firings_of(as_json(read, spec, pane=False).collect(), self.scenario.names))
        return panes

    def records(self) -> int:
        """The number of records in the state of Mullion's operators."""
        return sum(int(operator["numRowsTotal"]) for operator in self.operators(self.query.progress[-1]))


COUNTED = ("late", "ahead", "without_time", "in_no_window")
FIRINGS = ("early", "on_time", "update", "close")


def counted(operators: Sequence[Sequence[Any]], which: int, metric: str) -> int:
    """A metric of one operator, summed over the batches of a step."""
    return sum(batch[which]["customMetrics"][metric] for batch in operators)


def play(run: Run) -> None:
    fired: list[Firing] = []
    left_out = 0
    steps = [*map(Step.read, run.scenario.steps)]
    for number, step in enumerate(steps, start=1):
        batches = run.step(step)
        scenario = run.scenario
        at = f"step {number}"
        if step.batches is None:
            actual = [firing for batch in batches for firing in batch]
            same(actual, step.fires or [], scenario.last, at)
        else:
            same_batches(batches, step.batches, scenario.last, at)
            actual = [firing for batch in batches for firing in batch]
        if not step.crash:
            fired += actual
        left_out += step.late + step.ahead

    scenario = run.scenario
    *downstream, open_here = run.open_panes()
    same(open_here, scenario.open, scenario.spec, "open at the end")
    assert run.open == len(scenario.open), "the metric panesOpen"
    if scenario.records is not None:
        assert run.records() == scenario.records, "records in state"
    for panes in downstream:
        same(panes, scenario.chained.open if scenario.chained else [], scenario.last, "open downstream at the end")
    if not scenario.flood:
        last = []
    elif scenario.spec.time == "processing":
        last = outwaited(run, fired)
    else:
        last = drowned(run, fired)
    closes = [{**firing, "close": 0} for firing in fired + last if "close" in firing]
    # What a firing has taken away a batch still has, on processing time its rows have one time, and it ends elsewhere
    # than a clock that closes windows without rows.
    forgets = "forget_after" in scenario.spec.window or "forget_after" in scenario.spec.clock
    alike = not forgets and scenario.spec.accumulate and scenario.spec.time == "event" and scenario.spec.empty == "skip"
    # A batch DataFrame cannot show runs that follow the end of another run, or an earlier query.
    is_one = not any(step.drain for step in steps[:-1]) and not any(step.change is not None for step in steps)
    if left_out == 0 and alike and is_one:
        files = len(run.files) - 1 if scenario.flood else len(run.files)
        still_open = (
            [] if scenario.flood or scenario.spec.is_numbered else [{"close": 0, **pane} for pane in scenario.open]
        )
        closed = [*map(without_id, run.as_batch(files))]
        wanted = closes + still_open if scenario.batch is None else scenario.batch
        same(closed, [*map(without_id, wanted)], scenario.last, "the same as a batch")


def without_id(firing: Firing) -> Firing:
    """A firing without its id: in a stream the id may depend on the batches."""
    return {name: value for name, value in firing.items() if name not in ("id", "merged")}


def outwaited(run: Run, fired: Sequence[Firing]) -> list[Firing]:
    """Advances the wall clock until all panes have closed; then the state must be empty."""
    batches = run.step(Step(advance=FAR))
    actual = [pane for batch in batches for pane in batch]
    same(actual, expected_at_end(run.scenario, fired), run.scenario.last, "when all closes")
    assert not any(run.open_panes())
    assert (run.open, run.records()) == (0, 0)
    return actual


def expected_at_end(scenario: Scenario, fired: Sequence[Firing]) -> list[Firing]:
    if scenario.end is not None:
        return scenario.end
    assert scenario.then is None, "a scenario of two windows needs `end`"
    return [{"close": times_fired(pane, fired, scenario.spec), **pane} for pane in scenario.open]


def drowned(run: Run, fired: Sequence[Firing]) -> list[Firing]:
    """Adds a row far in the future, which closes all panes; then the state must contain only that row's records."""
    scenario = run.scenario
    at, windows = scenario.far()
    last = [[seconds(at), *([None] * (len(scenario.names) - 1))]]
    batches = run.step(Step(rows=last, other=last if scenario.streams > 1 else None))
    mine = [pane for batch in batches for pane in batch if micros(pane["window"][1]) > at]
    actual = [pane for batch in batches for pane in batch if pane not in mine]
    assert all("early" in pane or "running" in pane for pane in mine)
    same(actual, expected_at_end(scenario, fired), scenario.last, "when all closes")

    *downstream, open_here = run.open_panes()
    assert len(open_here) == windows, f"panes left besides those of the last row: {open_here}"
    assert all(micros(pane["window"][1]) > at for pane in open_here)
    assert run.open == windows
    assert not any(downstream)
    assert run.records() == one_row(run), "records in state besides those of the last row"
    return actual


def times_fired(pane: Firing, fired: Iterable[Firing], spec: Spec) -> int:
    """The number of firings of an open pane, which is the seq of its close."""
    here = [other for other in fired if pane_of(other, spec) == pane_of(pane, spec)]
    return len(here) - max((i + 1 for i, other in enumerate(here) if "close" in other), default=0)


_one_row: dict[tuple[object, ...], int] = {}


def one_row(run: Run) -> int:
    """The number of records in a state with a row far in the future, after a row whose panes it closes.

    The earlier row gives the clock its first reading, so that the other pane fires early, as at a scenario's end.
    """
    spec = run.scenario.spec
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
    several = run.scenario.together
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
        scenario = Scenario(
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
            scenario = Scenario("one row", 0, together=several, columns=run.scenario.columns)
        with_one = run.another(scenario, run.folders[0].parent / "one_row")
        try:
            for time in (FAR // 2, FAR):
                with_one.step(Step(rows=[[time, *([None] * (len(scenario.names) - 1))]]))
            _one_row[shape] = with_one.records()
        finally:
            with_one.query.stop()
    return _one_row[shape]
