"""Windows by the calendar of a time zone: what Python's own calendar says, of streams and of batches."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from checked import bounds_of
from mullion import InvalidArgumentError, Tumbling, read_panes, together, windowed
from mullion.testing import ClockedQuery
from seeds import SEED
from streams import SECOND, Feed

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
    return (datetime(day.year, day.month, day.day, tzinfo=ZoneInfo(zone)) - EPOCH) // timedelta(microseconds=1)


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
        made = {
            f"w{i}": windowed(rows, Tumbling(size, timezone=zone), time="ts", by="k").agg(n)  # type: ignore[arg-type]
            for i, (size, zone) in enumerate(every)
        }
        return together(**made).select("window_name", *bounds_of("window"), "n", "pane")

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


def test_open_days_are_read_from_a_checkpoint_and_another_time_zone_is_refused(
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
        ("36 hours", "UTC", "not of whole days, weeks, months, quarters or years"),
        ("1 month 1 day", "UTC", "not of whole days"),
        ("1 hour", "Asia/Kolkata", "offset='30 minutes' shifts them"),
        ("1 day", "Amerika/New_York", r"Did you mean 'America/New_York'\?"),
        ("1 day", 2, "is not a name"),
    ],
)
def test_what_no_calendar_has_is_refused(size: str, timezone: object, says: str) -> None:
    with pytest.raises(InvalidArgumentError, match=says):
        Tumbling(size, timezone=timezone)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match=r"another hour there.*Custom\(F\.struct\(start, end\)\)"):
        Tumbling("1 day", offset="6 hours", timezone="Europe/Paris")
    with pytest.raises(InvalidArgumentError, match=r"Tumbling\('1 month', timezone='UTC'\)"):
        Tumbling("1 month")
