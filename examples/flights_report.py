"""The terminal output of the replay: the progress bar, the closing tables and the verdict."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import pandas as pd
import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

import flights_data
from flights_data import AIRPORTS, NEW_YORK

if TYPE_CHECKING:
    from flights import Check

PANE = ["origin", "carrier", "start"]
# A mean over fewer flights describes single flights rather than the hour.
_MANY = 5


class Replaying:
    """A progress bar from Spark's progress reports; plain lines without a terminal."""

    def __init__(self, console: Console, flights: int, files: int) -> None:
        self._console = console
        self._flights = flights
        self._files = files
        self._progress = Progress(
            TextColumn("Replaying"),
            BarColumn(bar_width=40),
            TaskProgressColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeElapsedColumn(),
            console=console,
        )
        self._task = self._progress.add_task("", total=flights, rate="")
        self._live = Live(console=console, refresh_per_second=8)
        self._rows = self._batches = self._early = self._close = self._late = self._open = self._read = 0
        self._tenth = 0

    def __enter__(self) -> Self:
        self._began = time.monotonic()
        if self._console.is_terminal:
            self._live.start()
            self._show()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._console.is_terminal:
            self._live.stop()

    def update(self, progress: dict[str, Any]) -> None:
        """Processes Spark's report of one batch."""
        metrics = progress["stateOperators"][0]["customMetrics"]
        self._batches += 1
        self._rows += progress["numInputRows"]
        self._early += metrics["firingsEarly"]
        self._close += metrics["firingsClose"]
        self._late += metrics["rowsLate"]
        self._read += metrics["stateRowsRead"]
        self._open = metrics["panesOpen"]
        self._progress.update(self._task, completed=self._rows, rate=self._rate())
        if self._console.is_terminal:
            self._show()
        elif self._rows * 10 // self._flights > self._tenth:
            self._tenth = self._rows * 10 // self._flights
            self._console.print(
                f"{self._tenth * 10:4}%  {self._rate()}  {self._counts()}", highlight=False, soft_wrap=True
            )

    def _show(self) -> None:
        self._live.update(Group(self._progress, Text(self._counts(), style="dim")))

    def _rate(self) -> str:
        elapsed = max(time.monotonic() - self._began, 1e-3)
        return f"{self._rows:,} flights, {self._rows / elapsed:,.0f}/s"

    def _counts(self) -> str:
        return (
            f"batch {self._batches}/{self._files} · {self._open:,} panes open · fired {self._early:,} early, "
            f"{self._close:,} at the close · {self._late:,} late · {self._read:,} state rows read"
        )


@dataclass(frozen=True)
class Story:
    """The output of the stream for the report. Times are in New York, delays in minutes."""

    flights: pd.DataFrame  # the result of flights_data.cut
    fired: pd.DataFrame  # a row for each firing: origin, carrier, start, end, firing, index, batch, and the results
    late: pd.DataFrame  # the late flights, with their batch
    allowed_lateness: pd.Timedelta
    airlines: dict[str, str]

    @staticmethod
    def read(flights: pd.DataFrame, firings: Path, allowed_lateness: pd.Timedelta) -> Story:
        """Reads the output of the replay."""
        out = pq.read_table(firings).flatten()
        out = out.rename_columns([name.removeprefix("window.").removeprefix("pane.") for name in out.column_names])
        is_late = pc.equal(out["firing"], "late")
        of_late = [name for name in out.column_names if name.startswith("late_row.")]
        # For a late flight only the row itself; the aggregates are null.
        late = out.filter(is_late).select([*of_late, "batch"]).to_pandas()
        late = late.rename(columns=lambda name: name.removeprefix("late_row."))
        fired = out.filter(pc.invert(is_late)).drop_columns(of_late).to_pandas()
        for frame, columns in ((fired, ("start", "end")), (late, ("scheduled", "departed"))):
            for column in columns:
                frame[column] = frame[column].dt.tz_convert(NEW_YORK)
        return Story(flights, fired, late, allowed_lateness, flights_data.airlines())

    @property
    def complete(self) -> pd.Series:
        """The time at which each batch could run: its file was complete. A batch without a file follows immediately."""
        ends = self.flights.groupby("batch")["batch_end"].first().dt.tz_convert(NEW_YORK)
        return ends.reindex(ends.index.union(self.fired["batch"].unique())).ffill()

    @property
    def closed(self) -> pd.DataFrame:
        """The last firing of each pane that has closed."""
        return self.fired[self.fired["firing"] == "close"]


def tables(console: Console, story: Story) -> None:
    """The closing tables."""
    console.print()
    console.print(_by_origin(story))
    console.print(_fired(story))
    console.print(_most_delayed(story))
    if len(story.late):
        console.print(_latest(story))


def verdict(console: Console, checked: Check, picture: Path, seconds: float) -> None:
    """Prints the comparison with the batch query, and the location of the picture."""
    style = "bold green" if checked.passed else "bold red"
    console.print(
        f"[{style}]{checked.agree:,} of {checked.panes:,} panes agree[/] with one batch query over the same rows "
        f"({checked.closed:,} closed, {checked.still_open:,} still open when the data ended and read from the state)."
    )
    console.print(f"{checked.flights:,} flights = {checked.in_panes:,} in panes + {checked.late:,} late.")
    console.print(
        f"{checked.late_as_ruled:,} of the {checked.late:,} late flights are among the {checked.ruled_late:,} that are "
        "late by the rule for lateness, computed without Spark."
    )
    for row in checked.differing:
        console.print(f"  differs: {row}", style="red", markup=False)
    console.print(f"Picture: {picture}", soft_wrap=True)
    console.print(f"{seconds:.0f} s in all.")


def _by_origin(story: Story) -> Table:
    table = _table(
        "By airport, from what the panes closed with", ">Panes", ">Flights", ">Cancelled", ">Mean delay", "Worst flight"
    )
    for origin, panes in [*story.closed.groupby("origin"), ("", story.closed)]:
        left = panes["flights"] - panes["cancelled"]
        table.add_row(
            AIRPORTS.get(origin, "all"),
            f"{len(panes):,}",
            f"{panes['flights'].sum():,}",
            f"{panes['cancelled'].sum():,}",
            _minutes((panes["mean_delay"].fillna(0) * left).sum() / max(left.sum(), 1)),
            _worst(panes.loc[panes["worst.delay"].idxmax()]) if left.any() else "",
            end_section=origin == max(AIRPORTS),
        )
    return table


def _fired(story: Story) -> Table:
    table = _table("What came out", ">Rows", ">Panes", "A row is")
    early = story.fired[story.fired["firing"] == "early"]
    panes = len(early.groupby(PANE).size())
    table.add_row("early", f"{len(early):,}", f"{panes:,}", "what an open pane holds so far")
    table.add_row("close", f"{len(story.closed):,}", f"{len(story.closed):,}", "what a pane held at last")
    missed = story.late.groupby(["origin", "carrier", story.late["scheduled"].dt.floor("h")]).ngroups
    table.add_row("late", f"{len(story.late):,}", f"{missed:,}", "a flight that left after its pane had closed")
    return table


def _most_delayed(story: Story) -> Table:
    table = _table(
        f"The most delayed hours of an airline, of {_MANY} flights or more",
        *("Airline", ">Flights", ">Mean delay", ">95 % within", "Worst flight"),
    )
    many = story.closed[story.closed["flights"] - story.closed["cancelled"] >= _MANY]
    for _, pane in many.nlargest(8, "mean_delay").iterrows():
        table.add_row(
            f"{pane['start']:%d %b %H:%M} {pane['origin']}",
            story.airlines[pane["carrier"]],
            f"{pane['flights']}",
            _minutes(pane["mean_delay"]),
            _minutes(pane["p95_delay"]),
            _worst(pane, airline=False),
        )
    return table


def _latest(story: Story) -> Table:
    table = _table("The latest of the late flights", "Airline", "Left", ">Delay", ">After its pane closed")
    closes = story.closed.set_index(PANE)["batch"].map(story.complete)
    for _, row in story.late.nlargest(5, "delay").iterrows():
        pane = (row["origin"], row["carrier"], row["scheduled"].floor("h"))
        after = (
            _minutes((row["departed"] - closes[pane]).total_seconds() / 60)
            if pane in closes.index
            else "it never opened"
        )
        table.add_row(
            f"{row['scheduled']:%d %b %H:%M} {row['origin']} to {row['dest']}",
            f"{story.airlines[row['carrier']]} {row['flight']}",
            f"{row['departed']:%d %b %H:%M}",
            _minutes(row["delay"]),
            after,
        )
    return table


def _table(title: str, *columns: str) -> Table:
    """A table with a first column for the subject of a row; ``>`` aligns a column to the right."""
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("", no_wrap=True)
    for column in columns:
        table.add_column(column.removeprefix(">"), justify="right" if column.startswith(">") else "left")
    return table


def _worst(pane: pd.Series, airline: bool = True) -> str:
    if pd.isna(pane["worst.delay"]):
        return "all cancelled"
    flight = f"{pane['worst.flight']:.0f} to {pane['worst.dest']}, {_minutes(pane['worst.delay'])}"
    return f"{pane['carrier']} {flight}" if airline else flight


def _minutes(minutes: float) -> str:
    """Minutes in readable form: ``12.6 min``, ``3 h 05``."""
    if pd.isna(minutes):
        return ""
    if abs(minutes) < 60:
        return f"{minutes:.1f} min"
    hours, rest = divmod(round(minutes), 60)
    return f"{hours} h {rest:02}"
