"""Random steps of a query that is compared with its model: rows near the edges of windows, wall time, and restarts.

Each key is a case of its own; many share a query, and with it an event clock.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

from tests.support.models.custom_model import CustomRules
from tests.support.models.model import SECOND, AroundRules, Row, Rules
from tests.support.models.session_model import SessionRules


@dataclass(frozen=True)
class Step:
    """An event before the query settles: rows arrive, wall time passes, or the query restarts."""

    rows: list[Row] | None = None
    advance: int = 0
    restart: bool = False


def steps(
    rng: random.Random,
    of: Rules | SessionRules | AroundRules | CustomRules,
    restart_after: int | None = None,
    number_of_keys: int = 240,
) -> Iterator[Step]:
    """Yields the steps of some batches: time advances, stays and jumps."""
    rules: Rules | SessionRules | AroundRules | CustomRules = of
    ids = count()
    if isinstance(rules, AroundRules):
        # As far from one another as rows of a session, with the window's length as its gap.
        gap = max(rules.before, rules.after, SECOND)
        rules = SessionRules(gap=gap, delay=rules.delay, lateness=rules.lateness, early=rules.early)
    leaps: tuple[int, ...]
    match rules:
        case CustomRules(unit=unit):
            leaps = (unit // 2, unit, 3 * unit + rules.lateness)
        case SessionRules(gap=gap):
            leaps = (gap // 2, gap, 2 * gap + rules.lateness)
        case Rules():
            leaps = (rules.slide // 2, rules.slide, rules.size, 3 * rules.size + rules.lateness)
    previous_times: dict[str | None, list[int]] = {}
    keys: list[str | None] = [None, "", *(f"key {i}" for i in range(number_of_keys - 2))]
    front = 0
    for number in range(7):
        rows = []
        for key in keys:
            for _ in range(rng.choice((0, 0, 0, 0, 1, 1, 2, 4))):
                if isinstance(rules, SessionRules):
                    time = _time_of_session(rng, rules, front, previous_times.setdefault(key, []))
                elif isinstance(rules, CustomRules):
                    time = _time_of_custom(rng, rules, front)
                else:
                    time = _time(rng, rules, front)
                rows.append(Row(next(ids), key, time))
        rng.shuffle(rows)
        yield Step(rows=rows)
        if restart_after == number:
            yield Step(restart=True)
        if rng.random() < 0.6:
            yield Step(advance=rng.choice((SECOND, rules.early or 5 * SECOND, 60 * SECOND)))
        front += rng.choice((0, SECOND, *leaps))


def _time(rng: random.Random, rules: Rules, front: int) -> int | None:
    match rng.randrange(20):
        case 0:
            return None
        case 1:  # long past, in the first batches before the epoch
            return front - rng.randrange(8 * (rules.size + rules.slide + rules.delay + rules.lateness))
        case 2 | 3 | 4:  # on an edge, or next to it
            edge = rng.choice(list(rules.starts(front)) or [front]) + rng.choice((0, rules.size, rules.slide))
            return edge + rng.choice((-1, 0, 0, 1))
        case _:
            return front + rng.randrange(-rules.size - rules.delay, rules.size)


def _time_of_custom(rng: random.Random, rules: CustomRules, front: int) -> int | None:
    """A time near previous ones, often on the edge of a unit, where ranges change."""
    unit, back = rules.unit, rules.delay + rules.lateness
    match rng.randrange(20):
        case 0:
            return None
        case 1:  # long past, in the first batches before the epoch
            return front - rng.randrange(8 * (unit + back))
        case 2 | 3 | 4:
            return front // unit * unit + rng.choice((-unit, 0, unit)) + rng.choice((-1, 0, 1))
        case _:
            return front + rng.randrange(-unit - back, unit)


def _time_of_session(rng: random.Random, rules: SessionRules, front: int, previous: list[int]) -> int | None:
    """A time that is often about a gap away from another one of the key, so that sessions overlap, touch or do not."""
    gap, back = rules.gap, rules.delay + rules.lateness
    match rng.randrange(20):
        case 0:
            return None
        case 1:  # long past, in the first batches before the epoch
            time = front - rng.randrange(8 * (gap + back))
        case 2 | 3 | 4 | 5 if previous:  # where a previous session starts, ends, or would end
            time = rng.choice(previous[-4:]) + rng.choice((-gap, gap)) + rng.choice((-1, 0, 0, 1))
        case 6 | 7 | 8 | 9 if len(previous) > 1:  # between two previous times
            time = sum(rng.sample(previous[-4:], 2)) // 2
        case _:
            time = front + rng.randrange(-gap - back, gap)
    previous.append(time)
    return time
