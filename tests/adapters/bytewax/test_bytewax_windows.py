"""Windows of one key, without Spark: against the released package, and what only ours has."""

from __future__ import annotations

import importlib
import inspect
import os
import random
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from mullion import InvalidArgumentError
from mullion.bytewax._key_windows.contents import Fold
from mullion.bytewax._key_windows.specs import WindowSpec
from mullion.bytewax.operators import windowing as win
from mullion.errors import WrongCallError
from tests.support.bytewax import bytewax_random as given
from tests.support.seeds import SEED

ROUNDS = int(os.environ.get("MULLION_TEST_ROUNDS", "80"))

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECOND = 1_000_000


def at(seconds: float) -> datetime:
    return EPOCH + timedelta(seconds=seconds)


def test_down_late_and_meta_are_those_of_the_released_package() -> None:
    for round_ in range(ROUNDS):
        case = given.random_case(random.Random(f"{SEED} {round_}"), keys=20)
        ours = given.ours_without_spark(case, together=(1, 3, 1000)[round_ % 3])
        difference = given.difference(case, given.run_released(case), ours)
        assert not difference, f"MULLION_SEED={SEED}, round {round_}: {difference}"


def spec(windower: win.Windower[Any], clock: win.Clock[Any, Any] | None = None, ordered: bool = False) -> WindowSpec:
    fold = Fold(list, lambda values, value: [*values, value], list.__add__)
    return WindowSpec(clock or win.EventClock(at), windower, fold, ordered)


def test_the_watermark_of_a_key_advances_with_system_time() -> None:
    windows = spec(win.TumblingWindower(timedelta(seconds=10))).of_key(None, 0)
    assert windows.on_batch([5], 100 * SECOND) == []
    assert windows.due(100 * SECOND) == 105 * SECOND, "5 seconds after the value, its clock shows 10"
    assert windows.on_notify(104 * SECOND) == []
    assert [event[:1] + event[1][:1] for event in windows.on_notify(105 * SECOND)] == [(0, 0), (2, 0)]
    assert windows.is_empty(), "nothing is kept of a key whose windows have all closed"


def test_a_system_time_that_goes_back_does_not_set_the_watermark_back() -> None:
    windows = spec(win.SessionWindower(timedelta(seconds=10))).of_key(None, 0)
    windows.on_batch([5], 100 * SECOND)
    windows.on_notify(103 * SECOND)
    again = spec(win.SessionWindower(timedelta(seconds=10))).of_key(windows.snapshot(), 90 * SECOND)
    assert again.on_batch([7], 90 * SECOND) == [(1, (win.LATE_SESSION_ID, 7))], "its clock shows 8"


def test_the_state_of_a_key_does_not_grow_with_its_sessions() -> None:
    windows = spec(win.SessionWindower(timedelta(seconds=1))).of_key(None, 0)
    sizes = set()
    for start in range(0, 5000, 10):
        windows.on_batch([start, start + 1], 0)
        sizes.add(len(repr(windows.snapshot()[2:])))
        windows = spec(win.SessionWindower(timedelta(seconds=1))).of_key(windows.snapshot(), 0)
    assert len(windows.snapshot()[2]) == 1, "one session is open"
    assert max(sizes) < 100


def test_a_time_without_a_zone_is_utc() -> None:
    clock: Any = win.EventClock(lambda value: value)
    assert clock.extract_ts(datetime(2024, 1, 1, 12)) == datetime(2024, 1, 1, 12, tzinfo=UTC)
    east = timezone(timedelta(hours=2))
    assert clock.extract_ts(datetime(2024, 1, 1, 12, tzinfo=east)) == datetime(2024, 1, 1, 10, tzinfo=UTC)


def test_windows_of_a_time_have_an_id_a_start_and_an_end() -> None:
    tumbling = win.TumblingWindower(timedelta(seconds=10))
    assert tumbling.windows_for_time(at(25)) == [("2", at(20), at(30))]
    sliding = win.SlidingWindower(timedelta(seconds=10), timedelta(seconds=5))
    assert sliding.windows_for_time(at(7)) == [("0", at(0), at(10)), ("1", at(5), at(15))]
    assert win.SessionWindower(timedelta(seconds=10)).windows_for_time(at(7)) == [("0", at(7), at(17))]


def test_a_fold_without_a_merger_folds_the_values_of_merged_sessions_again_in_order_of_time() -> None:
    from mullion.bytewax._key_windows.contents import FoldAgain

    fold = FoldAgain(str, lambda text, value: f"{text}{value[1]}")
    clock: Any = win.EventClock(lambda value: at(value[0]), timedelta(seconds=100))
    windows = WindowSpec(clock, win.SessionWindower(timedelta(seconds=3)), fold, False).of_key(None, 0)
    for value in [(10, "c"), (4, "a"), (7, "b")]:
        windows.on_batch([value], 0)
    assert windows.on_eof()[0] == (0, (1, "abc"))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: win.TumblingWindower(60), "timedelta"),  # type: ignore[arg-type]
        (lambda: win.TumblingWindower(timedelta(0)), "not longer than zero"),
        (lambda: win.TumblingWindower(timedelta(1), "2024"), "datetime"),  # type: ignore[arg-type]
        (lambda: win.SlidingWindower(timedelta(1), timedelta(2)), "would be lost"),
        (lambda: win.SessionWindower(timedelta(-1)), "negative"),
        (lambda: win.EventClock("time"), "lambda event"),  # type: ignore[arg-type]
        (lambda: win.EventClock(at, timedelta(-1)), "negative"),
        (lambda: win.EventClock(at, 10), "timedelta"),  # type: ignore[arg-type]
        (lambda: win.WindowConfig(win.SystemClock(), "10 s"), "TumblingWindower"),  # type: ignore[arg-type]
        (lambda: win.WindowConfig("now", win.SessionWindower(timedelta(1))), "EventClock"),  # type: ignore[arg-type]
        (lambda: win.EventClock(str).extract_ts("noon"), "fromisoformat"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_right_is_rejected_with_the_fix(make: Any, says: str) -> None:
    with pytest.raises(InvalidArgumentError, match=says):
        make()


def test_a_window_of_bytewax_before_0_20_is_named_by_what_it_is_now() -> None:
    with pytest.raises(Exception, match="Use TumblingWindower"):
        _ = win.TumblingWindow
    assert issubclass(WrongCallError, TypeError)


MODULES = [
    *("operators", "operators.windowing", "operators.helpers", "dataflow", "inputs", "outputs", "testing", "recovery"),
    *("connectors.files", "connectors.stdio", "connectors.demo"),
]
NOT_THERE = {"Port", "SinglePort", "MultiPort", "DataflowId"}
"""The names that only Bytewax's own pictures of dataflows use."""


@pytest.mark.parametrize("name", MODULES)
def test_a_module_has_the_functions_and_classes_of_the_released_package_with_their_parameters(name: str) -> None:
    original, ours = importlib.import_module(f"bytewax.{name}"), importlib.import_module(f"mullion.bytewax.{name}")
    for member, value in vars(original).items():
        defined = inspect.isfunction(value) or inspect.isclass(value)
        if member.startswith("_") or not defined or value.__module__ != original.__name__ or member in NOT_THERE:
            continue
        assert hasattr(ours, member), member
        # It takes its sides before and behind the clock.
        if inspect.isfunction(value) and member != "join_window":
            parameters = inspect.signature(getattr(ours, member)).parameters
            assert list(parameters) == list(inspect.signature(value).parameters), member
