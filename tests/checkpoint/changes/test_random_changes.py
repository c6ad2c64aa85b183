"""Queries that change at random between runs over one checkpoint, against a model of their panes."""

from __future__ import annotations

import os
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from mullion import Early, Upgrade, together
from mullion.windows import Session, Sliding, Tumbling, Window
from tests.support.cache_sizes import draw_size
from tests.support.change_runs import AGGREGATES, Runs
from tests.support.clocked import ClockedQuery
from tests.support.models.change_model import Changing, Firings, Gap, Grid, Several, Shown
from tests.support.seeds import SEED

LISTS = {"everything", "more"}
ROUNDS = int(os.environ.get("MULLION_TEST_ROUNDS", "2"))


def shown(row: Row, aggregates: Sequence[str]) -> Shown:
    start, end = (int(row.window[at].timestamp()) for at in ("start", "end"))
    fired = (row.pane.firing, row.pane.seq) if "pane" in row and "firing" in row.pane else ("open", 0)
    incomplete = tuple(row["incomplete"]) if "incomplete" in row else ()
    return row.k, start, end, tuple(row[name] for name in aggregates), incomplete, *fired


class Table:
    """The rows of a table with every firing, by key and id. An id belongs to one pane, and the seq of a pane continues
    across runs."""

    def __init__(self) -> None:
        self._firings: dict[tuple[str, str], int] = {}
        self._gone: set[tuple[str, str]] = set()

    def take(self, fired: Sequence[Row], history: str) -> None:
        for row in sorted(fired, key=lambda row: int(row.pane.seq)):
            pane = (row.k, row.pane.id)
            assert pane not in self._gone, f"{row} after its pane has closed or merged:\n{history}"
            assert row.pane.seq == self._firings.get(pane, -1) + 1, f"{row}\n{history}"
            self._firings[pane] = row.pane.seq
        for row in fired:
            self._gone |= {(row.k, merged) for merged in row.pane.merged}
            if row.pane.firing == "close":
                self._gone.add((row.k, row.pane.id))


def ordered(panes: Sequence[Shown]) -> list[Shown]:
    return sorted(panes, key=lambda pane: (*pane[:3], pane[5:]))


def next_aggregates(chance: random.Random, before: Sequence[str]) -> list[str]:
    """Other aggregates, or another order, with which the query may resume."""
    while True:
        aggregates = chance.sample(list(AGGREGATES), chance.randint(1, len(AGGREGATES)))
        previous, following = LISTS & set(before), LISTS & set(aggregates)
        if not before or previous <= following or not following:
            return aggregates


def next_firings(chance: random.Random, before: Firings | None, lateness: int) -> Firings:
    """Other firings with which the query may resume."""
    intervals = chance.random() < 0.5
    return Firings(
        chance.choice((3, 8)) if intervals else None,
        chance.random() < 0.5 if intervals else False,
        3 if chance.random() < 0.3 else None,
        lateness > 0 and chance.random() < 0.4,
    )


def options_of(firings: Firings) -> dict[str, Any]:
    if firings.every is None and firings.count is None:
        return {"on_time": firings.on_time}
    every = None if firings.every is None else f"{firings.every} seconds"
    return {"early": Early(every, unchanged=firings.unchanged, count=firings.count), "on_time": firings.on_time}


def changes(queries: Sequence[object]) -> int:
    """The number of changes between consecutive queries over the checkpoint. The report of a run (``--junitxml``) has
    the number of each round.
    """
    return sum(query != before for before, query in pairwise(queries))


def some_window(chance: random.Random) -> tuple[Window, Grid | Gap]:
    size, slide = chance.choice(((10, 10), (20, 20), (10, 5), (12, 4), (7, 7), (8, 3)))
    return chance.choice(
        (
            (Tumbling(f"{slide} seconds"), Grid(slide, slide)),
            (Sliding(f"{size} seconds", f"{slide} seconds"), Grid(size, slide)),
            (Session(f"{size} seconds"), Gap(size)),
        )
    )


def some_rows(chance: random.Random, watermark: int) -> list[tuple[int, str, int]]:
    """A batch with some late rows."""
    return [
        (max(0, watermark + chance.randint(-30, 12)), chance.choice("abc"), chance.randint(0, 9))
        for _ in range(chance.randint(1, 8))
    ]


@pytest.mark.parametrize("number", range(ROUNDS))
def test_random_changes_are_those_of_the_model(
    spark: SparkSession, tmp_path: Path, number: int, request: pytest.FixtureRequest
) -> None:
    seed = f"{SEED}-{number}"
    chance = random.Random(seed)
    window, of = some_window(chance)
    model = Changing(of)
    runs = Runs(spark, tmp_path, window)
    lateness = 0
    aggregates: list[str] = []
    firings: Firings | None = None
    watermark = 30
    ids, table = chance.random() < 0.5, Table()
    history = f"{seed}: {window!r}{' with ids' if ids else ''}"
    queries: list[object] = []
    for _ in range(chance.randint(3, 8)):
        aggregates = next_aggregates(chance, aggregates) if not aggregates or chance.random() < 0.8 else aggregates
        if not model.is_draining:
            lateness = chance.choice((0, 3, 10, 25))
        if firings is not None and model.may_drain() and chance.random() < 0.5:
            runs.window, other = some_window(chance)
            if other != of:
                model, of = model.drained(other), other
        if firings is None or chance.random() < 0.8 or (firings.on_time and not lateness):
            firings = next_firings(chance, firings, lateness)
        history += f"\n{runs.window!r}, {aggregates}, {lateness} seconds, {firings}"
        model.begin(aggregates, lateness, firings)
        queries.append((runs.window, aggregates, lateness, firings))
        history += f", {draw_size(spark, chance)}"
        options = {
            "allowed_lateness": f"{lateness} seconds",
            "ids": ids,
            **options_of(firings),
            "upgrade": Upgrade("from now", "drain"),
        }
        with runs.start(aggregates, **options) as query:
            for _ in range(chance.randint(1, 3)):
                rows = some_rows(chance, watermark)
                history += f"\n  {rows}"
                watermark = max([watermark, *(time for time, _, _ in rows)])
                runs.write(rows)
                firings_of_batch = query.settle()
                fired = [shown(row, aggregates) for row in firings_of_batch]
                assert ordered(fired) == ordered(model.write(rows)), history
                if ids:
                    table.take(firings_of_batch, history)
            open_panes = [shown(row, aggregates) for row in runs.open()]
            assert ordered(open_panes) == ordered(model.open()), history
    request.node.user_properties.append(("changes", changes(queries)))


@dataclass(frozen=True)
class Part:
    """One window of several, with its aggregates and options."""

    window: Window
    of: Grid | Gap
    aggregates: tuple[str, ...]
    lateness: int
    firings: Firings

    @staticmethod
    def random(chance: random.Random) -> Part:
        window, of = some_window(chance)
        lateness = chance.choice((0, 3, 10))
        aggregates = chance.sample(list(AGGREGATES), chance.randint(1, 3))
        return Part(window, of, tuple(aggregates), lateness, next_firings(chance, None, lateness))

    def over(self, runs: Runs, **options: Any) -> DataFrame:
        return runs.panes(
            self.aggregates,
            window=self.window,
            allowed_lateness=f"{self.lateness} seconds",
            **options_of(self.firings),
            **options,
        )


ALONE = ""


def regrouped(chance: random.Random, parts: dict[str, Part]) -> dict[str, tuple[Part, str | None]]:
    """Changed windows, each with its previous name. They are distinct."""
    stays = chance.sample(list(parts), chance.randint(1 if parts else 0, len(parts)))
    count = chance.randint(0 if parts else 1, 2)
    new = [part for part in (Part.random(chance) for _ in range(count)) if part not in parts.values()]
    several = len(stays) + len(new) > 1 or (not stays and not new)
    free = [name for name in "abcdefghijklmnopqrstuvw" if name not in parts]
    chance.shuffle(free)
    regrouping: dict[str, tuple[Part, str | None]] = {}
    for previous in stays:
        name = ALONE if not several else previous if previous != ALONE and chance.random() < 0.6 else free.pop()
        regrouping[name] = parts[previous], previous
    for part in dict.fromkeys(new):
        # A removed name becomes available with the next change.
        regrouping[free.pop() if several else ALONE] = part, None
    return regrouping


@pytest.mark.parametrize("number", range(ROUNDS))
def test_random_changes_of_windows_in_one_query_are_those_of_the_model(
    spark: SparkSession, tmp_path: Path, number: int, request: pytest.FixtureRequest
) -> None:
    seed = f"{SEED}-{number}"
    chance = random.Random(seed)
    runs = Runs(spark, tmp_path, Tumbling("10 seconds"))
    model = Several()
    parts: dict[str, Part] = {}
    watermark = 30
    history = f"{seed}:"
    queries: list[object] = []
    for _ in range(chance.randint(3, 8)):
        regrouping = regrouped(chance, parts)
        before, model.windows = model.windows, {}
        for name, (part, previous) in regrouping.items():
            if previous is None:
                model.add(name, part.of, part.aggregates, part.lateness, part.firings)
            else:
                model.windows[name] = before[previous]
        parts = {name: part for name, (part, _) in regrouping.items()}
        queries.append(parts)
        names = {name: (previous, part) for name, (part, previous) in regrouping.items()}
        history += f"\n{names}, {draw_size(spark, chance)}"
        frames = {name: part.over(runs, upgrade=Upgrade(window="drop")) for name, part in parts.items()}
        panes = frames[ALONE] if ALONE in frames else together(**frames)
        with ClockedQuery(panes, checkpoint=runs.checkpoint) as query:
            for _ in range(chance.randint(1, 2)):
                rows = some_rows(chance, watermark)
                history += f"\n  {rows}"
                watermark = max([watermark, *(time for time, _, _ in rows)])
                runs.write(rows)
                fired = [named(row, parts) for row in query.settle()]
                assert in_order(fired) == in_order(model.write(rows)), history
                count = query.progress[-1]["stateOperators"][0]["customMetrics"]["panesOpen"]
                assert count == len(model.open()), history
            open_panes = [named(row, parts) for row in runs.open()]
            assert in_order(open_panes) == in_order(model.open()), history
    request.node.user_properties.append(("changes", changes(queries)))


def named(row: Row, parts: Mapping[str, Part]) -> tuple[str, Shown]:
    name = row.window_name if "window_name" in row else ALONE
    return name, shown(row, parts[name].aggregates)


def in_order(panes: Sequence[tuple[str, Shown]]) -> list[tuple[str, Shown]]:
    return sorted(panes, key=lambda of: (of[0], *of[1][:3], of[1][5:]))
