"""Windows by the calendar of a time zone, compared with Python's calendar, in streams and batches."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from mullion import Cumulate, InvalidArgumentError, Sliding, Tumbling, read_panes, together, windowed
from mullion.windows import Window
from tests.support.checked import bounds_of
from tests.support.clocked import ClockedQuery
from tests.support.seeds import SEED
from tests.support.streams import SECOND, Feed

ZONES = ("America/New_York", "Europe/Berlin", "Asia/Kathmandu")
SIZES = ("1 day", "1 week", "1 month", "1 quarter", "1 year", "2 days")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def first_day(size: str, day: date) -> date:
    match size:
        case "1 day":
            return day
        case "2 days":
            return day - timedelta(days=(day - EPOCH.date()).days % 2)
        case "1 week":
            return day - timedelta(days=day.weekday())
        case "1 month":
            return day.replace(day=1)
        case "1 quarter":
            return day.replace(month=(day.month - 1) // 3 * 3 + 1, day=1)
    return day.replace(month=1, day=1)


def next_day(size: str, first: date) -> date:
    days = {"1 day": 1, "2 days": 2, "1 week": 7}.get(size)
    if days is not None:
        return first + timedelta(days=days)
    months = first.month - 1 + {"1 month": 1, "1 quarter": 3, "1 year": 12}[size]
    return first.replace(year=first.year + months // 12, month=months % 12 + 1)


def midnight(day: date, zone: str) -> int:
    return instant(datetime(day.year, day.month, day.day), ZoneInfo(zone))


def instant(local: datetime, zone: ZoneInfo) -> int:
    """The first instant at or after a local time, which clocks may skip."""
    while (there := local.replace(tzinfo=zone).astimezone(UTC).astimezone(zone).replace(tzinfo=None)) != local:
        local = min(there, local + timedelta(minutes=15))
    return (local.replace(tzinfo=zone) - EPOCH) // timedelta(microseconds=1)


def window_of(size: str, zone: str, us: int) -> tuple[int, int]:
    first = first_day(size, (EPOCH + timedelta(microseconds=us)).astimezone(ZoneInfo(zone)).date())
    return midnight(first, zone), midnight(next_day(size, first), zone)


def test_days_to_years_of_a_time_zone_are_those_of_pythons_calendar_in_streams_and_batches(
    spark: SparkSession, tmp_path: Path
) -> None:
    seed = SEED
    chance = random.Random(seed)
    feed = Feed(tmp_path / "in", "k string")
    days = sorted(chance.sample(range(19_000, 20_200), 120))
    times = [day * 86_400 * SECOND + chance.choice((-1, 0, 1, chance.randrange(86_400))) * SECOND for day in days]
    every = [(size, zone) for size in SIZES for zone in ZONES]

    def panes(rows: object) -> object:
        n = F.count("*").alias("n")
        windows_by_name = {
            f"w{i}": windowed(rows, Tumbling(size, timezone=zone), time="ts", by="k").agg(n)  # type: ignore[arg-type]
            for i, (size, zone) in enumerate(every)
        }
        return together(**windows_by_name).select("window_name", *bounds_of("window"), "n", "pane")

    expected = Counter((f"w{i}", *window_of(size, zone, t)) for i, (size, zone) in enumerate(every) for t in times)
    with ClockedQuery(panes(feed.stream(spark, "400 days")), checkpoint=tmp_path / "checkpoint") as query:  # type: ignore[arg-type]
        closed: Counter[tuple[str, int, int]] = Counter()
        for at in range(0, len(times), 40):
            feed.write([(t, "a") for t in times[at : at + 40]])
            closed.update({(row.window_name, row.start, row.end): row.n for row in query.settle()})
        feed.flood()
        for row in query.settle():
            assert (row.window_name, row.start, row.end) not in closed, f"seed {seed}: closed twice"
            closed[row.window_name, row.start, row.end] = row.n
    assert closed == expected, f"seed {seed}"
    batch = panes(feed.batch(spark)).collect()  # type: ignore[attr-defined]
    assert {(row.window_name, row.start, row.end): row.n for row in batch} == expected, f"seed {seed}"


SHIFTED: Final[dict[str, Callable[[str], Window]]] = {
    "days": lambda zone: Tumbling("1 day", timezone=zone, offset="5 hours 30 minutes"),
    "weeks": lambda zone: Tumbling("1 week", timezone=zone, week_start="Sunday", offset="2 hours"),
    "months": lambda zone: Tumbling("1 month", timezone=zone, offset="14 days"),
    "years": lambda zone: Tumbling("1 year", timezone=zone, offset="3 months"),
    "sliding": lambda zone: Sliding("7 days", "1 day", timezone=zone, offset="2 hours"),
    "so far today": lambda zone: Cumulate("1 day", "30 minutes", timezone=zone),
    "so far this week": lambda zone: Cumulate("1 week", "1 day", timezone=zone, offset="2 hours"),
}


def shifted(kind: str, zone: str, us: int) -> list[tuple[int, int]]:
    """The windows of a time, by trying each day near it as their first one."""
    day = (EPOCH + timedelta(microseconds=us)).astimezone(ZoneInfo(zone)).date()
    windows = []
    for first in (day + timedelta(days=n) for n in range(-400, 2)):
        at = datetime(first.year, first.month, first.day)
        match kind:
            case "days":
                starts, hours, end = True, timedelta(hours=5, minutes=30), at + timedelta(days=1)
            case "weeks":
                starts, hours, end = first.strftime("%A") == "Sunday", timedelta(hours=2), at + timedelta(days=7)
            case "months":
                starts, hours = first.day == 15, timedelta(0)
                end = (at.replace(day=1) + timedelta(days=32)).replace(day=15)
            case "years":
                starts, hours = (first.month, first.day) == (4, 1), timedelta(0)
                end = at.replace(year=at.year + 1) if starts else at
            case "so far today":
                starts, hours, end = True, timedelta(0), at + timedelta(days=1)
            case "so far this week":
                starts, hours, end = first.strftime("%A") == "Monday", timedelta(hours=2), at + timedelta(days=7)
            case _:
                starts, hours, end = True, timedelta(hours=2), at + timedelta(days=7)
        if starts:
            window = instant(at + hours, ZoneInfo(zone)), instant(end + hours, ZoneInfo(zone))
            if window[0] <= us < window[1]:
                ends = [window[1]]
                if kind == "so far today":
                    ends = list(range(window[1], us, -30 * 60 * SECOND))
                elif kind == "so far this week":
                    ends = [instant(at + hours + timedelta(days=n), ZoneInfo(zone)) for n in range(1, 8)]
                windows += [(window[0], end) for end in ends if end > us]
    return windows


def test_shifted_and_sliding_windows_of_a_time_zone_are_those_of_pythons_calendar(
    spark: SparkSession, tmp_path: Path
) -> None:
    chance = random.Random(SEED)
    feed = Feed(tmp_path / "in", "k string")
    days = sorted(chance.sample(range(19_000, 20_200), 60))
    times = [day * 86_400 * SECOND + chance.randrange(86_400) * SECOND for day in days]
    every = [(kind, zone) for kind in SHIFTED for zone in ZONES]

    def panes(rows: DataFrame) -> DataFrame:
        n = F.count("*").alias("n")
        windows_by_name = {
            f"w{i}": windowed(rows, SHIFTED[kind](zone), time="ts", by="k").agg(n)
            for i, (kind, zone) in enumerate(every)
        }
        return together(**windows_by_name).select("window_name", *bounds_of("window"), "n", "pane")

    expected = Counter(
        (f"w{i}", *window) for i, (kind, zone) in enumerate(every) for t in times for window in shifted(kind, zone, t)
    )
    with ClockedQuery(panes(feed.stream(spark, "400 days")), checkpoint=tmp_path / "checkpoint") as query:
        closed: Counter[tuple[str, int, int]] = Counter()
        for at in range(0, len(times), 20):
            feed.write([(t, "a") for t in times[at : at + 20]])
            closed.update({(row.window_name, row.start, row.end): row.n for row in query.settle()})
        feed.flood()
        closed.update({(row.window_name, row.start, row.end): row.n for row in query.settle()})
    assert closed == expected, f"seed {SEED}"
    batch = panes(feed.batch(spark)).collect()
    assert {(row.window_name, row.start, row.end): row.n for row in batch} == expected, f"seed {SEED}"


def test_open_days_are_read_from_a_checkpoint_and_another_time_zone_is_rejected(
    spark: SparkSession, tmp_path: Path
) -> None:
    feed = Feed(tmp_path / "in", "k string")

    def query_of(zone: str) -> ClockedQuery:
        panes = windowed(feed.stream(spark), Tumbling("1 day", timezone=zone), by="k", time="ts").agg(F.count("*"))
        return ClockedQuery(panes, checkpoint=tmp_path / "checkpoint")

    feed.write([(954651600 * SECOND, "a")])
    with query_of("America/New_York") as query:
        query.settle()
    (pane,) = read_panes(tmp_path / "checkpoint", spark=spark).select(*bounds_of("window")).collect()
    assert (pane.start, pane.end) == (954651600 * SECOND, 954734400 * SECOND)
    feed.write([(954651601 * SECOND, "a")])
    with query_of("Europe/Berlin") as query, pytest.raises(Exception, match="by the calendar of America/New_York"):
        query.settle()


def test_windows_by_the_calendar_are_values() -> None:
    assert Tumbling("1 quarter", timezone="UTC") == Tumbling("3 months", timezone="UTC")
    assert Tumbling("1 day", timezone="UTC") != Tumbling("1 day")
    assert Tumbling("7 days", timezone="UTC") != Tumbling("1 week", timezone="UTC")
    assert Tumbling(timedelta(days=2), timezone="UTC") == Tumbling("2 days", timezone="UTC")
    assert repr(Tumbling("24 months", timezone="+02:00")) == "Tumbling('2 years', timezone='+02:00')"


@pytest.mark.parametrize(
    ("size", "timezone", "says"),
    [
        ("36 hours", "UTC", "not a number of days, weeks, months, quarters or years"),
        ("1 month 1 day", "UTC", "not a number of days"),
        ("1 hour", "Asia/Kolkata", "offset='30 minutes' shifts them"),
        ("1 day", "Amerika/New_York", r"Did you mean 'America/New_York'\?"),
        ("1 day", 2, "is not a name"),
    ],
)
def test_what_no_calendar_has_is_rejected(size: str, timezone: object, says: str) -> None:
    with pytest.raises(InvalidArgumentError, match=says):
        Tumbling(size, timezone=timezone)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match=r"Tumbling\('1 month', timezone='UTC'\)"):
        Tumbling("1 month")


@pytest.mark.parametrize(
    ("window", "says"),
    [
        (lambda: Tumbling("1 week", week_start="Sunday"), r"Tumbling\('1 week', timezone='UTC', week_start='Sunday'\)"),
        (lambda: Tumbling("1 day", timezone="UTC", week_start="Sunday"), "is for windows of weeks"),
        (lambda: Tumbling("1 week", timezone="UTC", week_start="Sonntag"), "is not a day of the week"),
        (lambda: Tumbling("1 month", timezone="UTC", offset="28 days"), "less than 28 days"),
        (lambda: Tumbling("1 month", timezone="UTC", offset="-1 day"), "at least 0"),
        (lambda: Sliding("7 days", "2 days", timezone="UTC"), "does not divide"),
        (lambda: Sliding("1 month", "1 day", timezone="UTC"), "does not divide"),
        (lambda: Sliding("1 day", "1 hour", timezone="UTC"), "slide='1 hour' is not a number of days"),
        (lambda: Sliding("5 minutes", "1 hour"), r"Sliding\('1 hour', '5 minutes'\).*gaps=True"),
        (lambda: Cumulate("1 day", "7 hours"), "does not divide"),
        (lambda: Cumulate("1 day"), "step"),  # type: ignore[call-arg]
        (lambda: Cumulate("5 hours", "1 hour", timezone="UTC"), "size='5 hours' is not a number of days"),
        (lambda: Cumulate("1 month", "1 week", timezone="UTC"), "step='1 week' does not divide size='1 month'"),
        (lambda: Cumulate("1 week", "1 day", week_start="Sunday"), "needs a time zone"),
    ],
)
def test_lengths_that_do_not_fit_each_other_are_an_error(window: Callable[[], object], says: str) -> None:
    with pytest.raises(InvalidArgumentError, match=says):
        window()


@pytest.mark.parametrize(
    "window",
    [
        Tumbling("1 day", timezone="Europe/Paris", offset="6 hours"),
        Tumbling("2 weeks", timezone="UTC", week_start="Sunday", offset="5 hours"),
        Tumbling("1 year", timezone="UTC", offset="3 months"),
        Tumbling("1 month", timezone="UTC", offset="14 days"),
        Sliding("28 days", "7 days", timezone="UTC"),
        Sliding("4 weeks", "1 week", timezone="UTC", week_start="Saturday"),
        Sliding("1 minute", "1 hour", gaps=True),
        Cumulate("1 day", "1 hour", offset="90 minutes"),
        Cumulate("1 day", "30 minutes", timezone="Europe/Berlin", offset="5 hours"),
        Cumulate("1 year", "1 quarter", timezone="UTC", offset="3 months"),
        Cumulate("2 weeks", "1 day", timezone="UTC", week_start="Sunday"),
    ],
)
def test_the_repr_of_a_window_evaluates_to_an_equal_window(window: object) -> None:
    assert eval(repr(window)) == window
