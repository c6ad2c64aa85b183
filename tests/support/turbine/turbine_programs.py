"""Random programs of Turbine as text, and their expected output by pandas, which shares no code with Mullion.

A program has a topic ``rows``, some windows, and three subscriptions with these windows: ``plain``, whose ``process``
only updates them; ``body``, which has random statements before; ``kept``, which has the same statements and state. ::

    rows ──┬── plain   self._w0.update(batch, state) ...            in the JVM
           ├── body    batch = batch.filter(...) ... update(...)    in Python
           └── kept    state[...] = ... and the same as body        in Python, with the state
"""

from __future__ import annotations

import importlib.util
import itertools
import json
import math
import random
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

Frame: TypeAlias = pd.DataFrame

COLUMNS = {"p": "string", "s": "string", "x": "Int64", "y": "Float64", "ok": "boolean", "n": "Int64", "ts": "Int64"}
LAST = 10**9
"""The time of the last row, which every ``process`` adds to every window, and which closes all other panes."""

LAST_ROW = {"p": "zz", "s": "zz", "x": 50, "y": 50.0, "ok": True, "n": 10**6, "ts": LAST}


def exactly(rank: float) -> Callable[[pd.Series], Any]:
    """A percentile that is a value of the data."""

    def of(values: pd.Series) -> Any:
        there = sorted(values.dropna())
        return there[max(math.ceil(rank * len(there)), 1) - 1] if there else None

    return of


AGGREGATES: dict[str, Callable[[Frame], Any]] = {
    "agg.Count()": len,
    'agg.Count("x")': lambda f: f.x.count(),
    'agg.CountIf(fn.col("x") > 3)': lambda f: (f.x > 3).sum(),
    'agg.CountIf(fn.starts_with("s", "b"))': lambda f: f.s.str.startswith("b").sum(),
    'agg.CountIf(fn.is_null("s"))': lambda f: f.s.isna().sum(),
    'agg.Sum("x")': lambda f: f.x.sum(),
    'agg.Sum("y")': lambda f: f.y.sum(),
    'agg.Sum("ok")': lambda f: f.ok.sum(),
    'agg.Sum(fn.col("x") * 2 + fn.col("n"))': lambda f: (f.x * 2 + f.n).sum(),
    'agg.Sum(fn.coalesce(fn.col("x"), -7))': lambda f: f.x.fillna(-7).sum(),
    'agg.Mean("x")': lambda f: f.x.mean(),
    'agg.Mean(fn.when(fn.col("ok"), fn.col("n")).otherwise(fn.col("x")))': lambda f: (
        f.n.astype("Float64").where(f.ok.fillna(False).astype(bool), f.x.astype("Float64")).mean()
    ),
    'agg.Max("x")': lambda f: f.x.max(),
    'agg.Max("s")': lambda f: max(f.s.dropna(), default=None),
    'agg.Max(fn.upper("s"))': lambda f: max(f.s.str.upper().dropna(), default=None),
    'agg.Min("y")': lambda f: f.y.min(),
    'agg.Min(fn.concat(fn.col("s"), fn.col("p")))': lambda f: min((f.s + f.p).dropna(), default=None),
    'agg.First("s")': lambda f: f.s.iloc[0],
    'agg.Last("x")': lambda f: f.x.iloc[-1],
    'agg.Last(fn.col("y") + 1)': lambda f: f.y.iloc[-1] + 1,
    'agg.MaxBy("s", "n")': lambda f: f.s[f.n == f.n.max()].iloc[0],
    'agg.MinBy("y", "n")': lambda f: f.y[f.n == f.n.min()].iloc[0],
    'agg.Collect("x")': lambda f: sorted(f.x.dropna()),
    'agg.CollectSet("s")': lambda f: sorted(set(f.s.dropna())),
    'agg.Median("x")': lambda f: exactly(0.5)(f.x),
    'agg.Percentile("y", 0.9)': lambda f: exactly(0.9)(f.y),
    'agg.StdDev("x")': lambda f: f.x.std(ddof=0),
    'agg.Variance("y")': lambda f: f.y.var(ddof=0),
}
"""Each aggregate as text, and as a function of a pane's rows in order of arrival."""


@dataclass(frozen=True)
class Window:
    """A window of a program. Lengths are milliseconds."""

    name: str
    kind: str
    size: int
    slide: int
    gap: int
    lateness: int
    keys: tuple[str, ...]
    aggregates: tuple[str, ...]
    event_time: bool
    each: bool

    def text(self, store: str, of: str) -> str:
        """The expression for it in a program."""
        lengths = {
            "Tumbling": f"size_ms={self.size}",
            "Sliding": f"size_ms={self.size}, slide_ms={self.slide}",
            "Session": f"gap_ms={self.gap}",
        }[self.kind]
        parts = ", ".join(f"a{number}={text}" for number, text in enumerate(self.aggregates))
        close = f"on_close{'_each' * self.each}=self._over_{self.name}"
        time = f'time_column="ts", allowed_lateness_ms={self.lateness}, ' if self.event_time else ""
        return (
            f"win.{store}{self.kind}(self, name={f'{of} {self.name}'!r}, {lengths}, key={list(self.keys)}, "
            f"value=agg.Multi({parts}), {time}{close})"
        )

    @property
    def callback(self) -> tuple[str, str]:
        if self.each:
            return (
                f"def _over_{self.name}(self, state, window, value):",
                f"    return each({self.name!r}, window, value)",
            )
        return f"def _over_{self.name}(self, state, panes):", f"    return whole({self.name!r}, panes)"


@dataclass(frozen=True)
class Step:
    """A line of ``process``, and its equivalent for a DataFrame of pandas."""

    text: str
    of_pandas: Callable[[Frame], Frame]


def _listed(change: str) -> str:
    return f"batch = pa.RecordBatch.from_pylist([{{**r, {change}}} for r in batch.to_pylist()], schema=batch.schema)"


CHANGES = [
    Step(
        'batch = batch.set_column(at(batch, "s"), "s", pc.utf8_upper(batch["s"]))',
        lambda f: f.assign(s=f.s.str.upper()),
    ),
    Step(
        'batch = batch.set_column(at(batch, "x"), "x", pc.add(batch["x"], batch["n"]))', lambda f: f.assign(x=f.x + f.n)
    ),
    Step(
        'batch = batch.set_column(at(batch, "ts"), "ts", pc.add(batch["ts"], 700))', lambda f: f.assign(ts=f.ts + 700)
    ),
    Step(_listed('"s": f"{r[\'s\']}!"'), lambda f: f.assign(s=f.s.fillna("None") + "!")),
    Step(_listed('"ts": None if r["ts"] is None else r["ts"] // 10 * 10'), lambda f: f.assign(ts=f.ts // 10 * 10)),
    Step(
        'rows = [{**r, "x": None if r["x"] is None else r["x"] / 4} for r in batch.to_pylist()]\n'
        "batch = pa.RecordBatch.from_pylist(rows) if rows else batch.slice(0, 0)",
        lambda f: f.assign(x=f.x.astype("Float64") / 4),
    ),
    Step(
        "frame = batch.to_pandas()\n"
        'frame["y"] = [None if pd.isna(y) else y * 2 for y in frame["y"]]\n'
        'frame["y"] = frame["y"].astype("Float64")\n'
        "batch = pa.RecordBatch.from_pandas(frame, schema=batch.schema, preserve_index=False)",
        lambda f: f.assign(y=f.y * 2),
    ),
]
"""The statements before the first update: a column has one type for all windows of a query."""

FILTERS = [
    Step('batch = batch.filter(pc.greater(batch["x"], 2))', lambda f: f[(f.x > 2).fillna(False)]),
    Step('batch = batch.filter(pc.is_valid(batch["s"]))', lambda f: f[f.s.notna()]),
    Step('batch = batch.filter(batch["ok"])', lambda f: f[f.ok.fillna(False).astype(bool)]),
    Step('batch = batch.filter(pc.not_equal(batch["p"], "a"))', lambda f: f[(f.p != "a").fillna(False)]),
    Step(
        'rows = [r for r in batch.to_pylist() if r["y"] is None or r["y"] >= -5]\n'
        "batch = pa.RecordBatch.from_pylist(rows, schema=batch.schema)",
        lambda f: f[f.y.isna() | (f.y >= -5)],
    ),
    Step("batch = self._without_b(batch)", lambda f: f[(f.p != "b").fillna(True)]),
]


UPDATES = [
    "self._{w}.update(batch, state)",
    "self._{w}.update(batch, state=state)",
    "window = self._{w}\nwindow.update(batch, state)",
    "for window in (self._{w},):\n    window.update(batch, state)",
    "if batch.num_rows:\n    self._{w}.update(batch, state)",
    "self._give(self._{w}, batch, state)",
    "update = self._{w}.update\nupdate(batch, state)",
    "self._{w}.update(pa.Table.from_batches([batch]), state)",
    "getattr(self, '_{w}').update(batch.slice(0), state)",
]

KEPT = [
    'state["n"] = state.get("n", 0) + batch.num_rows',
    'state.setdefault("seen", []).append(batch.num_rows)',
    "self._note(state)",
]

_HEAD = '''"""A random program."""

import json

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from mullion.turbine import aggregates as agg
from mullion.turbine import functions as fn
from mullion.turbine import windowing as win


def at(batch, name):
    return batch.schema.get_field_index(name)


def result_row(name, start, end, group, values):
    shown = {"group": json.dumps(group), "values": json.dumps(values, default=float)}
    return {"window": name, "start": start, "end": end, **shown}


def names_in(names):
    return [name for name in names if name.startswith("a") and name[1:].isdigit()]


def each(name, window, value):
    values = {part: getattr(value, part) for part in names_in(dir(value))}
    return pa.RecordBatch.from_pylist([result_row(name, window.start_ms, window.end_ms, window.group, values)])


def whole(name, panes):
    rows = []
    for pane in panes.to_pylist():
        start, end = pane.pop("window_start_ms"), pane.pop("window_end_ms")
        values = {part: pane.pop(part) for part in names_in(list(pane))}
        rows.append(result_row(name, start, end, pane, values))
    return pa.RecordBatch.from_pylist(rows)


class helpers:
    def _without_b(self, batch):
        return batch.filter(pc.fill_null(pc.not_equal(batch["p"], "b"), True))

    def _give(self, window, batch, state):
        window.update(batch, state)

    def _note(self, state):
        state["noted"] = True


def define(app):
'''


class Program:
    """A program that ``seed`` decides."""

    def __init__(self, seed: str) -> None:
        self.rng = rng = random.Random(seed)
        self.event_time = rng.random() < 0.75
        self.store = rng.choice(["Persistent", "InMemory"])
        self.together = rng.random() < 0.8
        self.partitioned = rng.random() < 0.6
        self.windows = [self._window(f"w{number}") for number in range(rng.randint(2, 4) if self.together else 2)]
        self.body: list[Step | str] = [*rng.sample(CHANGES, rng.choice([0, 1, 1, 2]))]
        self._updates()

    def _window(self, name: str) -> Window:
        rng = self.rng
        unit = rng.choice([1, 10, 100])
        size, slide = rng.randrange(4, 40) * unit, rng.randrange(2, 20) * unit
        keys = rng.sample(["s", "ok", "p"], rng.choice([0, 1, 1, 2]))
        if self.partitioned and "p" not in keys:
            keys.append("p")
        return Window(
            name,
            rng.choice(["Tumbling", "Sliding", "Session"]),
            max(size, slide),
            min(size, slide),
            rng.randrange(1, 12) * unit,
            rng.choice([0, 0, rng.randrange(1, 30) * unit]) if self.event_time else 0,
            tuple(keys),
            tuple(rng.sample(list(AGGREGATES), rng.randint(1, 6))),
            self.event_time,
            rng.random() < 0.5,
        )

    def _updates(self) -> None:
        """Adds filters between the updates of windows. One window is sometimes updated twice."""
        rng = self.rng
        updates = [window.name for window in self.windows]
        if rng.random() < 0.3:
            updates.append(rng.choice(updates))
        rng.shuffle(updates)
        for name in updates:
            if rng.random() < 0.4:
                self.body.append(rng.choice(FILTERS))
            if rng.random() < 0.15:
                self.body.append(Step("if not batch.num_rows:\n    return None", lambda f: f))
            self.body.append(name)

    def text(self) -> str:
        """The module."""
        rng = random.Random(self.rng.random())
        out = [_HEAD]
        updates = [f"self._{window.name}.update(batch, state)" for window in self.windows]
        lines: list[str] = []
        for step in self.body:
            text = step.text if isinstance(step, Step) else rng.choice(UPDATES).replace("{w}", step)
            lines += text.splitlines()
        stateful = [rng.choice(KEPT), *lines]
        for name, process in (("plain", updates), ("body", lines), ("kept", stateful)):
            shards = f', partition_key="p", parallelism={rng.randint(1, 3)}' if self.partitioned else ", parallelism=2"
            options = "" if name != "kept" else shards
            if name != "kept" and self.together:
                options += ", together=True"
            out += [
                f'    @app.subscribe("rows", publish_to="{name}"{options})',
                f"    class {name}(helpers):",
                "        def __init__(self):",
                *(f"            self._{w.name} = {w.text(self.store, name)}" for w in self.windows),
                *(line for w in self.windows for line in ("", *(f"        {line}" for line in w.callback))),
                "",
                "        def process(self, batch, state):",
                *(f"            {line}" for line in process),
                "",
            ]
        return "\n".join(out)

    def module(self, folder: Path, name: str) -> ModuleType:
        """Imports the program from a file, so that its source is available."""
        file = folder / f"{name}.py"
        file.write_text(self.text())
        spec = importlib.util.spec_from_file_location(name, file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        return module

    def rows(self, count: int, first: int, around: int) -> list[dict[str, Any]]:
        """Rows of a batch. Times are near ``around``, some of them long before."""
        rng = self.rng
        spread = max(w.size for w in self.windows) * 2

        def some(value: Any) -> Any:
            return None if rng.random() < 0.12 else value

        return [
            {
                "p": some(rng.choice("abcd")),
                "s": some(rng.choice(["a", "b", "ba", "ö", ""])),
                "x": some(rng.randrange(-9, 30)),
                "y": some(rng.randrange(-40, 40) / 4),
                "ok": some(rng.random() < 0.6),
                "n": first + number,
                "ts": some(max(1, around + rng.randrange(-spread, spread // 2))),
            }
            for number in range(count)
        ]


def expected(
    program: Program, subscription: str, batches: list[list[dict[str, Any]]], clocks: list[int]
) -> Counter[str]:
    """The rows that a subscription publishes until the end.

    ``clocks``: the readings of the wall clock in each batch, and at the end.
    """
    arrivals = itertools.count()
    received: dict[str, list[Frame]] = {window.name: [] for window in program.windows}
    for batch, clock in zip(batches, clocks[:-1], strict=True):
        frame = pd.DataFrame(batch, columns=list(COLUMNS)).astype(COLUMNS)
        of_batch: dict[str, list[Frame]] = {window.name: [] for window in program.windows}
        for step in program.body if subscription != "plain" else list(of_batch):
            if isinstance(step, Step):
                frame = step.of_pandas(frame)
            else:
                of_batch[step].append(frame)
        for name, frames in of_batch.items():
            rows = pd.concat(frames, ignore_index=True)
            rows["arrival"] = [next(arrivals) for _ in range(len(rows))]
            received[name].append(rows if program.event_time else rows.assign(ts=clock))
    shared = subscription == "kept" or program.together
    published: Counter[str] = Counter()
    for window in program.windows:
        of_clock = [frames for name, frames in received.items() if shared or name == window.name]
        marks, mark = [], 0
        for number in range(len(batches)):
            marks.append(mark if program.event_time else clocks[number])
            latest = [frames[number].ts.max() for frames in of_clock]
            mark = max([mark, *(int(time) for time in latest if not pd.isna(time))])
        panes = _sessions if window.kind == "Session" else _on_a_grid
        for group, start, end, rows in panes(window, received[window.name], marks, event_time=program.event_time):
            if end + window.lateness > (mark if program.event_time else clocks[-1]):
                continue
            values = {f"a{i}": plain(AGGREGATES[text](rows)) for i, text in enumerate(window.aggregates)}
            published[line(window.name, start, end, dict(zip(window.keys, group, strict=True)), values)] += 1
    return published


def line(window: str, start: int, end: int, group: dict[str, Any], values: dict[str, Any]) -> str:
    return json.dumps([window, int(start), int(end), plain(group), plain(values)], sort_keys=True)


def plain(value: Any) -> Any:
    """Numbers as rounded floats, and missing values of pandas as ``None``."""
    if isinstance(value, dict):
        return {name: plain(of) for name, of in value.items()}
    if isinstance(value, list):
        return sorted(plain(of) for of in value)
    if value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, str):
        return value
    return round(float(value), 6) + 0.0


Panes: TypeAlias = list[tuple[tuple[Any, ...], int, int, Frame]]


def _on_a_grid(window: Window, frames: list[Frame], marks: list[int], *, event_time: bool) -> Panes:
    slide = window.slide if window.kind == "Sliding" else window.size
    parts = []
    for number, (frame, mark) in enumerate(zip(frames, marks, strict=True)):
        rows = frame[frame.ts.notna()].copy()
        last = rows.ts - rows.ts % slide
        rows["start"] = [
            [int(start) - back for back in range(0, window.size, slide) if int(start) - back + window.size > int(time)]
            for start, time in zip(last, rows.ts, strict=True)
        ]
        rows = rows.explode("start", ignore_index=True)
        late = rows.start + window.size + window.lateness <= mark
        # Late rows have separate panes, which close with the batch.
        rows["life"] = late.map({True: number, False: -1}) if event_time else -1
        parts.append(rows)
    rows = pd.concat(parts, ignore_index=True)
    panes: Panes = []
    for (*group, start, _), of in rows.groupby([*window.keys, "start", "life"], dropna=False, sort=False):
        panes.append((tuple(group), int(start), int(start) + window.size, of))
    return panes


def _sessions(window: Window, frames: list[Frame], marks: list[int], *, event_time: bool) -> Panes:
    """Rows of a key that come no further apart than the gap; a row by itself is late where its session would be over,
    and none touches it that was open before the batch. Those that are late make sessions among themselves."""
    panes: Panes = []
    still: dict[Any, list[tuple[int, int, Frame]]] = {}
    for frame, mark in zip(frames, marks, strict=True):
        for key, sessions in still.items():
            over = [session for session in sessions if session[1] + window.lateness <= mark]
            panes += [(key, *session) for session in over]
            still[key] = [session for session in sessions if session[1] + window.lateness > mark]
        rows = frame[frame.ts.notna()]
        groups = rows.groupby(list(window.keys), dropna=False, sort=False) if window.keys else [((), rows)]
        for group, of in groups:
            key = tuple(None if pd.isna(one) else one for one in group)
            before = still.get(key, [])
            ended = of.ts + window.gap + window.lateness <= mark if event_time else of.ts < 0
            touches = [any(start - window.gap <= at <= end for start, end, _ in before) for at in of.ts]
            late = ended & ~pd.Series(touches, index=of.index, dtype=bool)
            panes += [(key, *session) for session in _merged(window.gap, [], of[late])]
            still[key] = _merged(window.gap, before, of[~late])
    return panes + [(key, *session) for key, sessions in still.items() for session in sessions]


def _merged(gap: int, before: list[tuple[int, int, Frame]], rows: Frame) -> list[tuple[int, int, Frame]]:
    alone = [(int(rows.ts.iloc[i]), int(rows.ts.iloc[i]) + gap, rows.iloc[i : i + 1]) for i in range(len(rows))]
    merged: list[tuple[int, int, list[Frame]]] = []
    for start, end, of in sorted([*before, *alone], key=lambda session: session[:2]):
        if merged and start <= merged[-1][1]:
            first, last, frames = merged[-1]
            merged[-1] = (first, max(last, end), [*frames, of])
        else:
            merged.append((start, end, [of]))
    return [(start, end, pd.concat(frames).sort_values("arrival")) for start, end, frames in merged]
