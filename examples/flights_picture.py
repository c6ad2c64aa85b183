"""One day's panes over time: their openings, early firings and closes, and the late flights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.dates as mdates
import pandas as pd
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle

from flights_data import AIRPORTS, NEW_YORK, day_of
from flights_report import Story

_HOUR = pd.Timedelta(hours=1)
_INK = "#22313f"
_CLOCK = "#1f77b4"
_LATE = "#c2185b"
_NOT_FIRED = "#e9edf0"
# The pale end of the colour map would be invisible on white.
_DELAYS = LinearSegmentedColormap.from_list("delays", colormaps["YlOrBr"]([0.08, 0.25, 0.4, 0.55, 0.7]))


def draw(file: Path, story: Story, day: pd.Timestamp, delay: pd.Timedelta) -> None:
    """Draws the panes of one airline at one airport on a day of departures.

    Both axes are New York's time. Across is when things happened: a flight left, a pane fired. Down is the timetable: a
    pane is a band of one hour. A flight that left on time is on the diagonal, and another as far to the right as it was
    delayed. ``delay`` is the watermark's.
    """
    scene = _Scene(story, day)
    figure = Figure(figsize=(13, 8.6), dpi=150, facecolor="white")
    axes = figure.add_axes((0.07, 0.085, 0.83, 0.775))
    shades = Normalize(0, max(30.0, scene.fired["mean_delay"].max()))
    for start, firings in scene.fired.groupby("start"):
        _pane(axes, scene, start, firings, shades)
    _clock(axes, scene, delay)
    _flights(axes, scene)
    _frame(axes, scene)
    _legend(axes, story, delay)

    bar = figure.colorbar(ScalarMappable(shades, _DELAYS), cax=figure.add_axes((0.925, 0.085, 0.013, 0.775)))
    bar.set_label("mean delay of a pane, as it last fired (minutes)", color=_INK)
    bar.outline.set_visible(False)
    late = len(scene.late)
    figure.text(
        0.07,
        0.945,
        f"{story.airlines[scene.carrier]} at {AIRPORTS[scene.origin]} on {day:%-d %B %Y}: "
        f"{scene.fired['start'].nunique()} panes, {late} late {'flight' if late == 1 else 'flights'}",
        fontsize=17,
        fontweight="bold",
        color=_INK,
    )
    figure.text(
        0.07,
        0.888,
        "Each band is a pane: the flights scheduled in one hour. It opens when the first of them leaves, fires early "
        "while they come in,\nand closes once the clock has passed its end by the allowed lateness. A flight is as far "
        "right of the diagonal as it was delayed.",
        fontsize=10.5,
        color=_INK,
        linespacing=1.4,
    )
    figure.savefig(file)


class _Scene:
    """The data of the picture: the panes of one day, airport and airline, and the flights of those panes."""

    def __init__(self, story: Story, day: pd.Timestamp) -> None:
        late = story.late[day_of(story.late["scheduled"]) == day]
        flights = story.flights[day_of(story.flights["scheduled"]) == day]
        # Prefer a mixture of many late and many punctual flights.
        where = ["origin", "carrier"]
        came = late.groupby(where).size().reindex(flights.groupby(where).size().index, fill_value=0)
        left = flights.groupby(where)["delay"].count() - came
        self.origin, self.carrier = ((came + 1) * left).idxmax()
        fired = story.fired[day_of(story.fired["start"]) == day]
        self.late = self._ours(late)
        self.fired = self._ours(fired).sort_values(["start", "seq"])
        self.flights = self._ours(flights)
        local = {name: self.flights[name].dt.tz_convert(NEW_YORK) for name in ("scheduled", "departed")}
        self.flights = self.flights.assign(**local)
        self.complete = story.complete
        latest_scheduled = story.flights.groupby("batch")["scheduled"].max().cummax().dt.tz_convert(NEW_YORK)
        self.latest_scheduled = latest_scheduled.reindex(self.complete.index).ffill()
        self.begin = min(self.flights["scheduled"].min(), self.flights["departed"].min()).floor("30min") - _HOUR / 2
        self.end = self.flights["scheduled"].max().floor("h") + 4 * _HOUR
        self.allowed_lateness = story.allowed_lateness

    def _ours(self, frame: pd.DataFrame) -> pd.DataFrame:
        return frame[(frame["origin"] == self.origin) & (frame["carrier"] == self.carrier)]


def _pane(axes: Axes, scene: _Scene, start: pd.Timestamp, firings: pd.DataFrame, shades: Normalize) -> None:
    """A band from the first flight's departure to the close, shaded anew at each firing."""
    flights = scene.flights[scene.flights["scheduled"].dt.floor("h") == start]
    left = flights["departed"].min()
    shade: Any = _NOT_FIRED
    top, height = start + _HOUR * 0.06, _HOUR * 0.88
    closed = False
    for _, firing in firings.iterrows():
        right = min(scene.complete[firing["batch"]], scene.end)
        axes.add_patch(Rectangle((_x(left), _x(top)), _x(right) - _x(left), _days(height), color=shade, lw=0, zorder=1))
        shade = _NOT_FIRED if pd.isna(firing["mean_delay"]) else _DELAYS(shades(firing["mean_delay"]))
        closed = firing["firing"] == "close" and right < scene.end
        if right < scene.end:
            axes.vlines(_x(right), _x(top), _x(top + height), color=_INK, lw=3.2 if closed else 0.9, zorder=3)
        left = right
    if not closed:
        axes.text(_x(scene.end), _x(start + _HOUR / 2), "▸", color=_INK, va="center", ha="left", fontsize=11)
        axes.add_patch(
            Rectangle((_x(left), _x(top)), _x(scene.end) - _x(left), _days(height), color=shade, lw=0, zorder=1)
        )


def _clock(axes: Axes, scene: _Scene, delay: pd.Timedelta) -> None:
    """The end of the hours that the clock closes, batch by batch."""
    # The clock of a batch comes from the previous batches.
    closes = (scene.latest_scheduled - delay - scene.allowed_lateness).shift(1)
    shown = closes.notna() & scene.complete.between(scene.begin - _HOUR, scene.end + 24 * _HOUR)
    axes.step(_x(scene.complete[shown]), _x(closes[shown]), where="post", color=_CLOCK, lw=1.6, zorder=4)
    axes.plot([_x(scene.begin), _x(scene.end)], [_x(scene.begin), _x(scene.end)], color=_INK, lw=0.8, ls=(0, (2, 3)))


def _flights(axes: Axes, scene: _Scene) -> None:
    key = ["flight", "scheduled"]
    in_time = scene.flights[~scene.flights.set_index(key).index.isin(scene.late.set_index(key).index)]
    left = in_time[in_time["delay"].notna()]
    cancelled = in_time[in_time["delay"].isna()]
    axes.scatter(_x(left["departed"]), _x(left["scheduled"]), s=15, color=_INK, lw=0, zorder=5)
    axes.scatter(_x(cancelled["departed"]), _x(cancelled["scheduled"]), s=17, color="white", ec=_INK, lw=0.8, zorder=5)
    for marker, late in scene.late.groupby(scene.late["departed"].lt(scene.end).map({True: "o", False: ">"})):
        when = late["departed"].clip(upper=scene.end)
        axes.scatter(
            *(_x(when), _x(late["scheduled"])),
            s=48,
            marker=marker,
            color=_LATE,
            ec="white",
            lw=0.8,
            zorder=6,
            clip_on=False,
        )


def _frame(axes: Axes, scene: _Scene) -> None:
    axes.set_xlim(_x(scene.begin), _x(scene.end))
    hours = scene.flights["scheduled"].dt.floor("h")
    axes.set_ylim(_x(hours.max() + _HOUR), _x(hours.min()))
    for axis, every in ((axes.xaxis, 2), (axes.yaxis, 1)):
        axis.set_major_locator(mdates.HourLocator(byhour=range(0, 24, every), tz=NEW_YORK))  # type: ignore[no-untyped-call]
        axis.set_major_formatter(mdates.DateFormatter("%H:%M", tz=NEW_YORK))  # type: ignore[no-untyped-call]
    axes.grid(axis="y", color="#d5dade", lw=0.6, zorder=0)
    axes.set_axisbelow(True)
    axes.tick_params(colors=_INK, length=0)
    for side in axes.spines.values():
        side.set_visible(False)
    axes.set_xlabel("when it happened: a flight left, a pane fired", color=_INK)
    axes.set_ylabel("when the flight was scheduled", color=_INK)


def _legend(axes: Axes, story: Story, delay: pd.Timedelta) -> None:
    minutes = [length / pd.Timedelta(minutes=1) for length in (delay, story.allowed_lateness)]
    handles: list[Any] = [
        Patch(color=_NOT_FIRED),
        Line2D([], [], ls="", marker="|", ms=12, mew=0.9, color=_INK),
        Line2D([], [], ls="", marker="|", ms=12, mew=3.2, color=_INK),
        Line2D([], [], ls="", marker="o", ms=4, color=_INK),
        Line2D([], [], ls="", marker="o", ms=4.5, mfc="white", mec=_INK, mew=0.8),
        Line2D([], [], ls="", marker="o", ms=7, mfc=_LATE, mec="white"),
        Line2D([], [], color=_CLOCK, lw=1.6),
        Line2D([], [], color=_INK, lw=0.8, ls=(0, (2, 3))),
    ]
    labels = [
        "pane is open, with no delay to show yet",
        "pane fires early",
        "pane closes",
        "flight leaves, and is counted in its pane",
        "cancelled flight: counted at its scheduled time",
        "late flight: its pane has closed, so it is a row of its own",
        f"the latest scheduled time seen, less {minutes[0]:.0f} minutes of watermark delay\n"
        f"and {minutes[1]:.0f} of allowed lateness: what ends above it closes",
        "on time",
    ]
    # The area under the diagonal is empty, because flights hardly ever leave early.
    axes.legend(handles, labels, loc="lower left", frameon=False, labelcolor=_INK, fontsize=9.5, labelspacing=0.7)


def _x(when: Any) -> Any:
    """A time, or a series of times, in matplotlib's unit of days."""
    return mdates.date2num(when)  # type: ignore[no-untyped-call]


def _days(length: pd.Timedelta) -> float:
    return float(length / pd.Timedelta(days=1))
