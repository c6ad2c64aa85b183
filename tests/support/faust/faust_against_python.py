"""Compares Faust programs with Python: the same source in plain Python, in Spark's workers and in the JVM.

Many programs share one query. Programs in one shard have another query, because one of them puts all others of its App
there too. So have programs that fall back to Python, because the tables of some of them are unknown.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import linecache
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mullion.faust as faust
from mullion import MullionError, topics
from mullion._keyed.api import read_state
from mullion._util.clock import ManualClock
from mullion._util.codec import values as codec
from mullion.faust.tables.keys import encode_key
from mullion.faust.tables.records import _LENGTH, _TIMES, _hash
from tests.support.faust import faust_plain as plain

CLOCK_MS = 60_000
SIGNS = re.compile(r"'([^']*)'")
_NUMBER = itertools.count()

Batches = Mapping[str, Sequence[Sequence[plain.Sent]]]
"""The messages of topics by batch."""


@dataclass(frozen=True)
class Program:
    """The source of a program. Its name is the prefix of its tables, its agents, and its topic ``{name}-out``."""

    name: str
    text: str
    prelude: str = ""

    def __str__(self) -> str:
        numbered = "\n".join(f"{n:>4}  {line}" for n, line in enumerate(self.text.splitlines(), 1))
        return f"{self.name}\n{numbered}"


@dataclass
class Answer:
    """The results of a program: the contents of its tables, its output, and its dead letters with their reasons."""

    tables: dict[str, list[Any]] = field(default_factory=dict)
    sent: list[Any] = field(default_factory=list)
    aside: list[Any] = field(default_factory=list)

    def sorted(self) -> dict[str, Any]:
        tables = {name: sorted(records, key=repr) for name, records in self.tables.items() if records}
        return {"tables": tables, "sent": sorted(self.sent), "aside": sorted(self.aside)}


@dataclass
class Meaning:
    """The expected results of a program.

    - ``carries``: it depends on a variable that an earlier event has set, and so on the ends of batches.
    - ``misplaced``: it groups its stream by a field and uses a table by another key.
    - ``fails``: some of its events fail.
    """

    answer: Answer
    carries: bool
    misplaced: bool
    fails: bool


@dataclass
class Comparison:
    """The results of a comparison: rejected programs with their errors, and wrong answers."""

    refused: dict[str, str] = field(default_factory=dict)
    wrong: dict[str, str] = field(default_factory=dict)
    sharded: set[str] = field(default_factory=set)
    jvm: set[str] = field(default_factory=set)
    carries: set[str] = field(default_factory=set)
    misplaced: list[Program] = field(default_factory=list)
    folded: int = 0


class Scopes:
    """Runs sources of one App, with line numbers for tracebacks. A prelude runs once."""

    def __init__(self, **names: Any) -> None:
        self._names = names
        self._preludes: dict[str, dict[str, Any]] = {}

    def run(self, program: Program, **names: Any) -> None:
        if program.prelude not in self._preludes:
            scope = {"__name__": "programs_prelude", **self._names}
            self._preludes[program.prelude] = _run(program.prelude, scope)
        _run(program.text, {**self._preludes[program.prelude], "__name__": f"programs_{program.name}", **names})


def _run(text: str, scope: dict[str, Any]) -> dict[str, Any]:
    file = f"<program {next(_NUMBER)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    exec(compile(text, file, "exec", dont_inherit=True), scope)
    return scope


def meaning(program: Program, batches: Batches) -> Meaning:
    """Runs a program in plain Python."""
    answers, misplaced = [], False
    for alone in (True, False):
        app = plain.App(CLOCK_MS * 1000)
        Scopes(app=app, faust=plain.FAUST).run(program, ON_ERROR="dead_letter")
        asyncio.run(app.run(batches, alone))
        tables = {name: [_record(one, *record) for record in one.data.items()] for name, one in app.tables.items()}
        sent = [_line(to, value) for to, _, value in app.sent]
        aside = [(one.agent, one.timestamp, one.error) for one in app.aside]
        answers.append(Answer(tables, sent, aside))
        misplaced |= app.misplaced
    carries = answers[0].sorted() != answers[1].sorted()
    return Meaning(answers[1], carries, misplaced, any(error for _, _, error in answers[1].aside))


def _record(table: plain.Table, key: Any, value: Any) -> Any:
    key, start = key if table.windowed else (key, None)
    # 1.0 and 1 are the same key of a dict.
    key = codec.decode(encode_key(key, table.name))
    return repr((key, start) if table.windowed else key), repr(value)


def _line(to: str, value: Any) -> str:
    fields = value if isinstance(value, dict) else {"value": value}
    present = {name: float(one) if type(one) is int else one for name, one in fields.items() if one is not None}
    return f"{to} {json.dumps(present, sort_keys=True)}"


class Runs:
    """Runs programs on both paths over the same messages."""

    def __init__(self, folder: Path, batches: Batches) -> None:
        self.folder = folder
        self.batches = batches
        self.comparison = Comparison()
        self._apps = itertools.count()
        for compiled in (True, False):
            for topic, all_ in batches.items():
                for batch in all_:
                    keys, values, times = zip(*batch, strict=True)
                    topics.produce(self._broker(compiled), topic, values, timestamps=times, keys=keys)

    def _broker(self, compiled: bool) -> str:
        return f"dir:{self._folder(compiled)}"

    def _folder(self, compiled: bool) -> Path:
        return self.folder / ("jvm" if compiled else "python")

    def compare(self, programs: Sequence[Program], twice: bool = False) -> Comparison:
        """Runs programs. Returns the rejected ones and the wrong answers.

        A program that falls back to Python does the same with ``compiled=False``: with ``twice`` it runs that way too.
        """
        meant = {one.name: meaning(one, self.batches) for one in programs}
        self.comparison.carries = {name for name, one in meant.items() if one.carries}
        groups: dict[tuple[bool, bool], list[Program]] = {}
        for program in programs:
            way = self._explained(program, meant)
            if way is None:
                continue
            sharded, jvm = way
            self.comparison.sharded |= {program.name} if sharded else set()
            self.comparison.jvm |= {program.name} if jvm else set()
            if sharded and meant[program.name].misplaced:
                self.comparison.misplaced.append(program)
            else:
                groups.setdefault(way, []).append(program)
        for (sharded, jvm), of_group in groups.items():
            answers_by_path = {
                path: self._run(of_group, path, meant) for path in ((True, False) if jvm or twice else (True,))
            }
            for program in of_group:
                if program.name not in self.comparison.refused:
                    answers = {path: one[program.name] for path, one in answers_by_path.items()}
                    self._hold(program, sharded, meant[program.name], answers)
        # Each of these programs stops the others.
        for program in self.comparison.misplaced[:2]:
            self._run([program], True, meant)
            if program.name not in self.comparison.refused:
                self.comparison.wrong[program.name] = f"{program}\nuses keys of other shards, but is not rejected"
        self.comparison.refused |= {one.name: "WrongShardError" for one in self.comparison.misplaced[2:]}
        return self.comparison

    def _explained(self, program: Program, meant: Mapping[str, Meaning]) -> tuple[bool, bool] | None:
        """True if a program's events are in shards, and true if it runs in the JVM. ``None`` if it is rejected."""
        try:
            parts = self._new_app([program], True, meant).explain().parts
        except MullionError as refused:
            self.comparison.refused[program.name] = f"{type(refused).__name__}: {refused}"
            return None
        return not any("one shard" in part.why for part in parts), all(part.runs == "JVM" for part in parts)

    def _new_app(self, programs: Sequence[Program], compiled: bool, meant: Mapping[str, Meaning]) -> faust.App:
        number = next(self._apps)
        app = faust.App(f"app{number}", broker=self._broker(compiled), compiled=compiled, clock=ManualClock(CLOCK_MS))
        scopes = Scopes(app=app, faust=faust)
        for one in programs:
            stops = one.name in meant and not (meant[one.name].fails or meant[one.name].carries)
            scopes.run(one, ON_ERROR="stop" if stops else "dead_letter")
        return app

    def _run(self, programs: list[Program], compiled: bool, meant: Mapping[str, Meaning]) -> dict[str, Answer]:
        """Runs programs on a path. A program that stops the others is rejected, and the others run without it."""
        left = [one for one in programs if one.name not in self.comparison.refused]
        while left:
            app = self._new_app(left, compiled, meant)
            try:
                app.run(until="drained")
            except faust.WrongShardError as refused:
                name = SIGNS.findall(str(refused))[0].partition("-")[0]
                self.comparison.refused[name] = f"WrongShardError: {refused}"
                left = [one for one in left if one.name != name]
                continue
            if compiled:
                self.comparison.folded += folded(app)
            return self._answers(app, left, compiled)
        return {}

    def _answers(self, app: faust.App, programs: Sequence[Program], compiled: bool) -> dict[str, Answer]:
        answers = {one.name: Answer() for one in programs}
        for name, records in tables_of(app).items():
            answers[name.partition("-")[0]].tables[name] = records
        for one in programs:
            out = f"{one.name}-out"
            rows = topics.read(app.broker, out).to_pylist() if out in app.topics else []
            values = [{k: v for k, v in row.items() if k not in ("_key", "_timestamp")} for row in rows]
            answers[one.name].sent = [_line(out, value) for value in values]
        if (self._folder(compiled) / app.dead_letters).exists():
            for row in topics.read(app.broker, app.dead_letters).to_pylist():
                error = row["reason"].split(":")[0]
                answers[row["agent"].partition("-")[0]].aside.append((row["agent"], row["timestamp"], error))
        return answers

    def _hold(self, program: Program, sharded: bool, meant: Meaning, answers_by_path: Mapping[bool, Answer]) -> None:
        results = {"compiled=True" if path else "compiled=False": one for path, one in answers_by_path.items()}
        unfit = {(agent, at) for agent, at, error in meant.answer.aside if not error}
        for one in results.values():
            one.aside = [(agent, at, "" if (agent, at) in unfit else error) for agent, at, error in one.aside]
        if not (meant.carries and sharded):
            results["plain Python"] = meant.answer
        first, *others = results.items()
        for name, other in others:
            difference = _difference(first[1].sorted(), other.sorted())
            if difference:
                self.comparison.wrong.setdefault(
                    program.name,
                    f"{program}\n{'sharded' if sharded else 'one shard'}; {first[0]} and {name} differ:\n{difference}",
                )


def _difference(one: dict[str, Any], other: dict[str, Any]) -> str:
    lines = []
    tables = {
        name: (one["tables"].get(name, []), other["tables"].get(name, []))
        for name in {**one["tables"], **other["tables"]}
    }
    for name, (left, right) in {
        **tables,
        "sent": (one["sent"], other["sent"]),
        "aside": (one["aside"], other["aside"]),
    }.items():
        only, more = Counter(left) - Counter(right), Counter(right) - Counter(left)
        if only or more:
            lines.append(f"    {name}: {sorted(only.elements())[:8]} for {sorted(more.elements())[:8]}")
    return "\n".join(lines)


def folded(app: faust.App) -> int:
    """The number of rows that the JVM processed in the last run."""
    return sum(
        operator["customMetrics"]["rowsFolded"]
        for report in app.queries["agents"].progress
        # Progress without a batch repeats the counts of the previous batch.
        if report["numInputRows"]
        for operator in report["stateOperators"]
    )


def tables_of(app: faust.App) -> dict[str, list[Any]]:
    """The contents of all tables of a program in all shards, in one read because there may be hundreds."""
    records = [
        (bytes(row.key), bytes(row.value)) for row in read_state(app.folder_of("agents").absolute() / "query").collect()
    ]
    keys = {_key_in(record) for record, _ in records}
    at = {
        _hash(name, b"r", key): (name, key)
        for name, table in app.tables.items()
        if table.window is not None
        for key in keys
        if key is not None
    }
    of = {_hash(name, b"v"): name for name, table in app.tables.items() if table.window is None}
    contents: dict[str, list[Any]] = {}
    for record, value in records:
        name, key = at.get(record[:8], ("", b""))
        if record[:8] in of:
            contents.setdefault(of[record[:8]], []).append((repr(codec.decode(record[8:])), repr(codec.decode(value))))
        elif name and _key_in(record) == key:
            start, _ = _TIMES.unpack(record[-_TIMES.size :])
            contents.setdefault(name, []).append((repr((codec.decode(key), start)), repr(codec.decode(value))))
    return contents


def _key_in(record: bytes) -> bytes | None:
    """The key in a record of a range."""
    if len(record) < 12 + _TIMES.size:
        return None
    (length,) = _LENGTH.unpack_from(record, 8)
    return record[12 : -_TIMES.size] if len(record) == 12 + length + _TIMES.size else None
