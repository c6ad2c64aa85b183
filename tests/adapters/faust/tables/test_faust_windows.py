"""Faust's windows: which ranges hold a time, which are stale. Held against faust-streaming where the two agree."""

from __future__ import annotations

import copy
import inspect
import math
import pickle
import zoneinfo
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any

import faust as original
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mullion.faust as faust
from mullion import InvalidArgumentError
from mullion.faust import HoppingWindow, SlidingWindow, TumblingWindow, WindowRange
from tests.support.faust.programs import faust_programs as programs

MICROSECONDS = st.integers(-(10**14), 4 * 10**15)
TIMES = MICROSECONDS.map(lambda us: us / 1_000_000)
LENGTHS = st.integers(1, 10**11).map(lambda us: timedelta(microseconds=us))
SMALL = st.integers(1, 60)
GRIDS = st.one_of(
    st.builds(TumblingWindow, LENGTHS),
    st.builds(TumblingWindow, LENGTHS, expires=LENGTHS),
    st.builds(
        lambda step, parts, rest: HoppingWindow(step * parts + rest % step, step),
        LENGTHS,
        st.integers(1, 30),
        LENGTHS,
    ),
)
SPECS = st.one_of(
    GRIDS, st.builds(SlidingWindow, LENGTHS, LENGTHS), st.builds(SlidingWindow, LENGTHS, LENGTHS, LENGTHS)
)


def us(seconds: float) -> int:
    return round(Fraction(seconds) * 1_000_000)


# -- which ranges hold a time


@given(SPECS, TIMES)
def test_every_range_holds_its_time_and_they_come_in_order(window: faust.Window, time: float) -> None:
    ranges = window.ranges(time)
    assert ranges == sorted(set(ranges))
    assert ranges
    for start, end in ranges:
        assert us(start) <= us(time) <= us(end)
        if not isinstance(window, SlidingWindow):
            assert us(time) < us(end)


@given(GRIDS, TIMES)
def test_ranges_of_a_grid_are_all_that_hold_the_time(window: Any, time: float) -> None:
    size, step, at = us(window.size), us(window.step), us(time)
    # Ends are the multiples of step after the time, and no more than size after it.
    first_end = (at // step + 1) * step
    ends = range(first_end, at + size + 1, step)
    assert [(us(start), us(end)) for start, end in window.ranges(time)] == [(end - size, end) for end in ends]


@given(GRIDS, TIMES)
def test_current_starts_last_and_earliest_first(window: faust.Window, time: float) -> None:
    ranges = window.ranges(time)
    assert window.current(time) == ranges[-1]
    assert window.earliest(time) == ranges[0]


@given(GRIDS, TIMES, LENGTHS)
def test_delta_is_the_current_range_of_an_earlier_time(window: faust.Window, time: float, back: timedelta) -> None:
    earlier = (us(time) - us(back.total_seconds())) / 1_000_000
    assert window.delta(time, back) == window.delta(time, back.total_seconds()) == window.current(earlier)


@given(st.integers(-10_000, 10_000), st.sampled_from([0.1, 0.2, 0.3, 0.7, 1.1, 2.3]))
def test_a_fractional_edge_belongs_to_the_range_that_it_starts(n: int, size: float) -> None:
    edge = us(size) * n / 1_000_000
    (window,) = TumblingWindow(size).ranges(edge)
    assert window.start == edge
    assert window.end == us(size) * (n + 1) / 1_000_000


def test_ranges_before_the_epoch_are_on_the_same_grid() -> None:
    assert TumblingWindow(10).ranges(-0.5) == [(-10.0, 0.0)]
    assert TumblingWindow(10).ranges(-10.0) == [(-10.0, 0.0)]
    assert HoppingWindow(10, 5).ranges(-7.0) == [(-15.0, -5.0), (-10.0, 0.0)]


def test_where_step_does_not_divide_size_ranges_end_at_multiples_of_it() -> None:
    assert HoppingWindow(10, 4).ranges(3.0) == [(-6.0, 4.0), (-2.0, 8.0), (2.0, 12.0)]


def test_a_step_longer_than_size_leaves_gaps() -> None:
    window = HoppingWindow(5, 10)
    assert window.ranges(4.0) == []
    assert window.current(4.0) is None
    assert window.earliest(4.0) is None
    assert window.ranges(5.0) == [(5.0, 10.0)] == [window.current(9.999999)]


def test_a_sliding_range_is_about_its_time() -> None:
    window = SlidingWindow(before=300, after=timedelta(minutes=2))
    assert window.ranges(1000.5) == [(700.5, 1120.5)] == [window.current(1000.5)] == [window.earliest(1000.5)]
    assert window.delta(1000.5, 100) == (600.5, 1020.5)
    assert SlidingWindow(before=0.1, after=0.2).current(0.3) == (0.2, 0.5)


# -- stale ranges


@pytest.mark.parametrize(
    ("window", "expires"),
    [
        (TumblingWindow(300), 600.0),
        (HoppingWindow(600, 300), 1200.0),
        (SlidingWindow(300, 120), 480.0),
        (TumblingWindow(300, expires=10), 10.0),
        (TumblingWindow(300, expires=timedelta(hours=1)), 3600.0),
        (HoppingWindow(600, 300, expires=1.5), 1.5),
        (SlidingWindow(300, 120, expires=1), 1.0),
        (TumblingWindow(300, expires=0), None),
        (HoppingWindow(600, 300, expires=0), None),
        (SlidingWindow(300, 120, expires=timedelta(0)), None),
    ],
)
def test_expires_follows_from_the_size_unless_it_is_given(window: faust.Window, expires: float | None) -> None:
    assert window.expires == expires


def test_a_range_is_stale_once_the_window_that_was_current_before_expires_starts_at_its_end() -> None:
    window = TumblingWindow(10, expires=20)
    assert not window.stale(10.0, 29.999999)
    assert window.stale(10.0, 30.0)
    assert window.stale(10.0, 39.0)
    assert not window.stale(20.0, 39.0)
    assert SlidingWindow(10, 0, expires=20).stale(10.0, 30.0)
    assert not SlidingWindow(10, 0, expires=20).stale(10.000001, 30.0)


@given(st.sampled_from([TumblingWindow(10, expires=0), HoppingWindow(10, 5, 0), SlidingWindow(1, 1, 0)]), TIMES, TIMES)
def test_without_expires_nothing_is_ever_stale(window: faust.Window, time: float, latest: float) -> None:
    assert not window.stale(time, latest)


@given(SPECS, TIMES, TIMES, TIMES)
def test_a_stale_range_stays_stale(window: faust.Window, time: float, latest: float, later: float) -> None:
    if window.stale(time, min(latest, later)):
        assert window.stale(time, max(latest, later))


# -- windows of one's own


class BusinessHoursWindow(faust.Window):
    """As in Faust's document."""

    def __init__(self, *, start_hour: int = 9, end_hour: int = 17, timezone: str = "UTC") -> None:
        super().__init__()
        self.start_hour = start_hour
        self.end_hour = end_hour
        self.timezone = timezone

    def ranges(self, timestamp: float) -> Sequence[tuple[float, float]]:
        dt = datetime.fromtimestamp(timestamp, zoneinfo.ZoneInfo(self.timezone))
        if self.start_hour <= dt.hour < self.end_hour:
            start = dt.replace(hour=self.start_hour, minute=0, second=0, microsecond=0)
            end = dt.replace(hour=self.end_hour, minute=0, second=0, microsecond=0)
            return [(start.timestamp(), end.timestamp())]
        return []


def test_a_custom_window_only_defines_its_ranges() -> None:
    window = BusinessHoursWindow(timezone="US/Eastern")
    noon = datetime(2024, 1, 10, 12, tzinfo=zoneinfo.ZoneInfo("US/Eastern")).timestamp()
    opening = noon - 3 * 3600
    assert window.current(noon) == window.earliest(noon) == (opening, opening + 8 * 3600)
    assert window.delta(noon, timedelta(days=1)) == (opening - 86_400, opening - 86_400 + 8 * 3600)
    assert window.current(noon - 6 * 3600) is None
    assert window.expires is None
    assert not window.stale(0.0, noon)
    assert window.ident == "BusinessHoursWindow_9_17_US/Eastern"
    assert repr(window) == "BusinessHoursWindow(start_hour=9, end_hour=17, timezone='US/Eastern')"
    assert window == BusinessHoursWindow(timezone="US/Eastern") != BusinessHoursWindow()


class Pairs(faust.Window):
    def ranges(self, timestamp: float) -> Sequence[tuple[float, float]]:
        return [(2.0, 9.0), (1.0, 5.0)]


def test_a_window_of_ones_own_may_expire() -> None:
    window = Pairs(expires=10)
    assert window.current(3.0) == (2.0, 9.0)
    assert window.earliest(3.0) == (1.0, 5.0)
    assert window.stale(2.0, 100.0)
    assert not window.stale(2.1, 100.0)
    assert repr(window) == "Pairs(expires=10)"


def test_a_range_that_does_not_end_after_it_starts_is_rejected() -> None:
    class Backwards(faust.Window):
        def ranges(self, timestamp: float) -> Sequence[tuple[float, float]]:
            return [(2.0, 2.0)]

    with pytest.raises(InvalidArgumentError, match=r"\(2\.0, 2\.0\), which does not end after it starts"):
        Backwards().current(2.0)


def test_a_window_without_ranges_cannot_be_made() -> None:
    with pytest.raises(TypeError, match="abstract"):
        faust.Window()  # type: ignore[abstract]
    with pytest.raises(TypeError):
        Pairs(expire=5)


class Plain:
    """A window without a base class, with only the required methods."""

    expires: float | None = None
    ident = "plain"

    def ranges(self, timestamp: float) -> list[tuple[float, float]]:
        return [self.current(timestamp)]

    def stale(self, timestamp: float, latest_timestamp: float) -> bool:
        return False

    def current(self, timestamp: float) -> tuple[float, float]:
        return (timestamp, timestamp + 1)


def test_the_protocols_tell_windows_by_what_they_have() -> None:
    plain: faust.WindowT = Plain()
    tumbling: faust.TumblingWindowT = TumblingWindow(10)
    hopping: faust.HoppingWindowT = HoppingWindow(10, 5)
    sliding: faust.SlidingWindowT = SlidingWindow(10, 5)
    for window in (plain, tumbling, hopping, sliding):
        assert isinstance(window, faust.WindowT)
    assert not isinstance(plain, faust.TumblingWindowT)
    assert not isinstance(sliding, faust.HoppingWindowT)
    assert not isinstance("10 seconds", faust.WindowT)


# -- values


def test_properties_are_floats_of_seconds_and_idents_say_the_shape() -> None:
    tumbling, hopping, sliding = TumblingWindow(300), HoppingWindow(600, timedelta(minutes=5)), SlidingWindow(0.5, 120)
    assert (tumbling.size, tumbling.ident) == (300.0, "tumbling_300")
    assert (hopping.size, hopping.step, hopping.ident) == (600.0, 300.0, "hopping_600_300")
    assert (sliding.before, sliding.after, sliding.total_size) == (0.5, 120.0, 120.5)
    assert sliding.ident == "sliding_0.5_120"


@given(SPECS)
def test_a_repr_is_the_code_that_makes_an_equal_value(window: faust.Window) -> None:
    assert eval(repr(window)) == window
    assert hash(eval(repr(window))) == hash(window)
    assert pickle.loads(pickle.dumps(window)) == copy.deepcopy(window) == window


def test_values_are_equal_however_they_are_written() -> None:
    assert TumblingWindow(60) == TumblingWindow(timedelta(minutes=1)) == TumblingWindow(60.0, expires=120)
    assert len({HoppingWindow(600, 300), HoppingWindow(600.0, 300), HoppingWindow(600, 60)}) == 2
    assert TumblingWindow(60) != TumblingWindow(60, expires=60)
    assert TumblingWindow(60) != HoppingWindow(60, 60)


@pytest.mark.parametrize("length", [0, -1, math.nan, math.inf, 1 / 3, "10", None, True, timedelta(0)])
@pytest.mark.parametrize("make", [TumblingWindow, lambda size: HoppingWindow(size, 1)])
def test_a_size_that_is_no_length_of_time_is_rejected(make: Callable[[Any], object], length: object) -> None:
    with pytest.raises(InvalidArgumentError, match=f"^size={length!r}".replace("(", r"\(").replace(")", r"\)")):
        make(length)


def test_other_lengths_are_rejected_by_name() -> None:
    with pytest.raises(InvalidArgumentError, match=r"^step=0 must be longer than zero"):
        HoppingWindow(10, 0)
    with pytest.raises(InvalidArgumentError, match=r"^before=-1 is negative"):
        SlidingWindow(-1, 0)
    with pytest.raises(InvalidArgumentError, match=r"^after='x' \(str\) is not a length of time"):
        SlidingWindow(0, "x")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match=r"^expires=-5 is negative"):
        TumblingWindow(10, expires=-5)
    with pytest.raises(InvalidArgumentError, match=r"^size=1e\+300 is longer than"):
        TumblingWindow(1e300)
    with pytest.raises(InvalidArgumentError, match=r"^size=0\.33333.*Round it, as in size=0\.333333\."):
        TumblingWindow(1 / 3)


@pytest.mark.parametrize("time", [math.nan, math.inf, "now", None, True])
def test_a_time_must_be_a_point_in_time(time: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^timestamp=.* is not a point in time"):
        TumblingWindow(10).ranges(time)


def test_a_range_is_a_tuple_with_a_length() -> None:
    window = WindowRange(10.0, 20.0)
    assert window == (10.0, 20.0)
    start, end = window
    assert (start, end, window.duration, window.midpoint) == (10.0, 20.0, 10.0, 15.0)
    assert window.contains(10.0)
    assert window.contains(19.999999)
    assert not window.contains(20.0)
    assert not window.contains(9.999999)
    assert window.overlaps(WindowRange(19.0, 30.0))
    assert window.overlaps((0.0, 100.0))
    assert window.overlaps((12.0, 13.0))
    assert not window.overlaps(WindowRange(20.0, 30.0))
    assert not window.overlaps((0.0, 10.0))
    assert WindowRange(0.1, 0.3).duration == 0.2


# -- faust-streaming itself. It ends a range 0.1 seconds early, and only takes whole seconds right.


@given(SMALL, SMALL, st.integers(-(10**6), 2 * 10**9), st.integers(0, 999))
def test_starts_of_hopping_ranges_are_those_of_faust_streaming(size: int, step: int, time: int, ms: int) -> None:
    size, step = max(size, step), min(size, step)
    # int() of a time before the epoch rounds towards it, and loses a range there.
    at = time + ms / 1000 if time >= 0 else float(time)
    expected, ours = original.HoppingWindow(size, step), HoppingWindow(size, step)
    assert [start for start, _ in ours.ranges(at)] == [start for start, _ in expected.ranges(at)]
    assert [end for _, end in ours.ranges(at)] == [start + size for start, _ in expected.ranges(at)]
    current, earliest, before = ours.current(at), ours.earliest(at), ours.delta(at, 17)
    assert current is not None
    assert earliest is not None
    assert before is not None
    assert current.start == expected.current(at)[0]
    assert earliest.start == expected.earliest(at)[0]
    assert before.start == expected.delta(at, 17)[0]


@given(SMALL, SMALL, SMALL, st.integers(0, 10**6), st.integers(0, 10**6))
def test_stale_ranges_are_those_of_faust_streaming(size: int, step: int, expires: int, time: int, latest: int) -> None:
    size, step = max(size, step), min(size, step)
    for expected, ours in (
        (original.HoppingWindow(size, step, expires), HoppingWindow(size, step, expires)),
        (original.TumblingWindow(size, expires), TumblingWindow(size, expires)),
        (original.SlidingWindow(size, step, expires), SlidingWindow(size, step, expires)),
        (original.HoppingWindow(size, step, 0), HoppingWindow(size, step, 0)),
    ):
        assert ours.stale(time, latest) == bool(expected.stale(time, latest))


@given(st.integers(0, 4000), st.integers(0, 4000), st.integers(0, 2 * 10**9))
def test_sliding_ranges_are_those_of_faust_streaming(before: int, after: int, time: int) -> None:
    expected, ours = original.SlidingWindow(before, after, 60), SlidingWindow(before, after, 60)
    assert ours.ranges(time) == expected.ranges(time)
    assert ours.current(time) == expected.current(time) == ours.earliest(time)


@pytest.mark.parametrize(
    ("documented", "parameters"),
    [
        (faust.Window, ["expires"]),
        (faust.TumblingWindow, ["size", "expires"]),
        (faust.HoppingWindow, ["size", "step", "expires"]),
        (faust.SlidingWindow, ["before", "after", "expires"]),
        (faust.Window.ranges, ["timestamp"]),
        (faust.Window.stale, ["timestamp", "latest_timestamp"]),
        (faust.Window.current, ["timestamp"]),
        (faust.WindowedTable, ["table", "window", "key_index_size"]),
        (faust.WindowedTable.get_window, ["key", "window_range"]),
        (faust.WindowedTable.set_window, ["key", "window_range", "value"]),
        (faust.WindowedTable.expire_windows, ["latest_timestamp"]),
        (faust.WindowedTable.windows_for_key, ["key"]),
        (faust.current_window, []),
        (faust.windowed_count, ["table", "window"]),
        (faust.windowed_sum, ["table", "window"]),
        (faust.windowed_average, ["sum_table", "count_table", "window"]),
        (faust.WindowRange, ["start", "end"]),
        (faust.WindowRange.contains, ["timestamp"]),
        (faust.WindowRange.overlaps, ["other"]),
    ],
)
def test_signatures_are_those_of_the_document(documented: Any, parameters: list[str]) -> None:
    names = [name for name in inspect.signature(documented).parameters if name not in ("self", "kwargs", "_key_index")]
    assert names == parameters


def test_windows_and_tables_have_the_properties_of_the_document() -> None:
    tumbling, hopping, sliding = TumblingWindow(300), HoppingWindow(600, 300), SlidingWindow(300, 120)
    assert (tumbling.size, tumbling.expires, tumbling.ident) == (300.0, 600.0, "tumbling_300")
    assert (hopping.size, hopping.step, hopping.expires, hopping.ident) == (600.0, 300.0, 1200.0, "hopping_600_300")
    assert (sliding.before, sliding.after, sliding.total_size, sliding.ident) == (
        300.0,
        120.0,
        420.0,
        "sliding_300_120",
    )
    assert sliding.expires == 480.0
    table = faust.Table("views")
    windowed = faust.WindowedTable(table, tumbling, key_index_size=100)
    assert (windowed.window, windowed.table) == (tumbling, table)
    assert faust.WindowRange(1.0, 4.0).duration == 3.0
    assert faust.WindowRange(1.0, 4.0).midpoint == 2.5


@pytest.mark.parametrize(
    ("protocol", "window"),
    [
        (programs.WindowT, TumblingWindow(60)),
        (programs.TumblingWindowT, TumblingWindow(60)),
        (programs.HoppingWindowT, HoppingWindow(60, 10)),
        (programs.SlidingWindowT, SlidingWindow(60, 10)),
    ],
)
def test_windows_are_what_the_protocols_of_the_document_ask_for(protocol: type, window: faust.Window) -> None:
    members = {name for one in protocol.__mro__ for name in inspect.get_annotations(one)}
    assert {"expires", "ident"} <= members
    for name in members:
        assert isinstance(getattr(window, name), (str, float)), name
    assert isinstance(window, protocol)
