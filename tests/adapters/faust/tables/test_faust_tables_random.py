"""Random steps on Faust's windowed tables, against dicts."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import mullion.faust as faust
from mullion.faust import (
    HoppingWindow,
    Table,
    TumblingWindow,
)
from tests.support.faust.faust_shards import Shards

OPERATIONS = st.sampled_from(["+", "-", "=", "read", "expire"])
STEPS = st.lists(
    st.tuples(OPERATIONS, st.sampled_from("abc"), st.integers(-400, 400).map(lambda n: n / 4), st.integers(-5, 5)),
    max_size=30,
)
WINDOWS = st.one_of(
    st.builds(TumblingWindow, st.integers(1, 40), st.integers(0, 60)),
    st.builds(HoppingWindow, st.integers(1, 40), st.integers(1, 20), st.integers(0, 60)),
)


@settings(max_examples=200, deadline=None)
@given(WINDOWS, STEPS)
def test_a_windowed_table_is_a_dict_by_key_and_range(
    window: faust.Window, steps: list[tuple[str, str, float, int]]
) -> None:
    closed: list[Any] = []
    table = Table("t", default=int, on_window_close=lambda key, value: closed.append((key, value)))
    windowed = table.using_window(window, key_index=True)
    shards = Shards(table)
    model: dict[tuple[str, tuple[float, float]], int] = {}
    gone: list[Any] = []
    latest: float | None = None
    for step, (operation, key, timestamp, n) in enumerate(steps):
        if operation == "expire":
            stale = [at for at in model if latest is not None and window.stale(at[1][1], latest)]
            gone += [(at, model.pop(at)) for at in stale]
            assert shards.shard.expire() == len(stale)
            continue
        if step % 7 == 6:
            shards.restarted()
        with shards.at(timestamp):
            if operation == "read":
                current = window.current(timestamp)
                expected = 0 if current is None else model.get((key, current), 0)
                assert windowed[key].value() == expected
                continue
            latest = timestamp if latest is None else max(latest, timestamp)
            if operation == "+":
                windowed[key] += n
            elif operation == "-":
                windowed[key] -= n
            else:
                windowed[key] = n
        for one in window.ranges(timestamp):
            if not window.stale(one[1], latest):
                before = model.get((key, one), 0)
                model[key, one] = before + n if operation == "+" else before - n if operation == "-" else n
    assert sorted(closed) == sorted(gone)
    with shards.timer():
        for key in "abc":
            there = sorted((at[1], value) for at, value in model.items() if at[0] == key)
            fresh_ranges = [one for one in there if latest is None or not window.stale(one[0][1], latest)]
            assert windowed.windows_for_key(key) == fresh_ranges
    shards.shard.advance(10**12)
    shards.shard.expire()
    if window.expires is not None:
        assert len(shards.store) <= 1, "the clock alone is left"
        assert shards.store.timers == []
