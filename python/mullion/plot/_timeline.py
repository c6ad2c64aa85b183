"""The picture of a query's panes over event time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType, TimestampType

from mullion._bridge.columns import require_dataframe
from mullion._util.signatures import explained
from mullion.errors import InvalidArgumentError, UnknownColumnError
from mullion.plot._axes import new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_INK = "#22313f"
_LATE = "#c2185b"
_CLOSED, _OPEN = "#8fc1e3", "#e4edf3"
_MARKS = {"early": ">", "on_time": "D", "update": "^"}
_SHOWN = {"early": "fires early", "on_time": "fires on time", "update": "fires again, for late rows"}


@dataclass
class _Pane:
    """One pane: the window of its last firing, and its firings."""

    start: datetime
    end: datetime
    firings: list[str] = field(default_factory=list)
    label: str = ""


@dataclass
class _Lane:
    """The panes of one key, each in the first line without an overlap."""

    name: str
    panes: list[_Pane]
    lines: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        ends: list[datetime] = []
        self.panes.sort(key=lambda pane: (pane.start, pane.end))
        for pane in self.panes:
            line = next((n for n, end in enumerate(ends) if end <= pane.start), len(ends))
            ends[line : line + 1] = [pane.end]
            self.lines.append(line)
        self.height = max(len(ends), 1)


@explained("plot.timeline(spark.table('panes'), by='carrier', value='n')")
def timeline(
    panes: DataFrame,
    *,
    by: str | Sequence[str] = (),
    value: str | None = None,
    time: str | None = None,
    rows: DataFrame | None = None,
    open_panes: DataFrame | None = None,
    limit: int = 300,
    ax: Axes | None = None,
) -> Axes:
    """Draws panes over event time: a bar from a window's start to its end, in a lane for each key.

    A bar has a mark for each firing, in order. It has a thick edge if the pane has closed, and a dashed edge if it is
    still open. With ids, a session is one bar, and sessions that were merged into it are not drawn. Overlapping windows
    are drawn above each other. Times are in the session's time zone. A notebook shows
    the picture if the call is the last line of a cell.

    - ``panes``: a DataFrame of firings that is not a stream, such as the table of a memory sink, with the columns
      ``window`` and ``pane`` of ``windowed(...)``.
    - ``by``: the key columns.
    - ``value``: a column; the bar shows its value in the last firing, or in ``open_panes`` if it is there.
    - ``rows``: the input rows, with the columns of ``by``; not a stream either. They are drawn as dots.
    - ``open_panes``: the result of :func:`mullion.read_panes` or :func:`mullion.open_panes`. Without it, the picture
      has an open pane only if that has fired.
    - ``time``: the column with the event time in ``rows``, and in ``late_row`` if there is one. Late rows are drawn as
      red dots.
    - ``limit``: the maximum number of panes in a picture.
    - ``ax``: the axes to draw on; by default those of a new figure of suitable height.

    Raises :class:`UnsupportedError` when matplotlib is not installed, :class:`UnknownColumnError` for a missing column,
    and :class:`InvalidArgumentError` for a stream, for count windows, and for more panes than
    ``limit``.
    """
    axes = ax if ax is not None else new_axes()
    require_dataframe(panes, "timeline() was given")
    keys = (by,) if isinstance(by, str) else tuple(by)
    _check(panes, "panes", ("window", "pane", *keys, *((value,) if value else ())))
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise InvalidArgumentError(f"limit={limit!r} is not a number of panes: give 1 or more.")
    fired, late = _firings(panes, keys, value, limit), _late(panes, keys, time)
    still_open = [] if open_panes is None else _open(open_panes, keys, value, limit)
    input_rows = None
    if rows is not None:
        require_dataframe(rows, "timeline(rows=...) was given")
        if time is None:
            raise InvalidArgumentError("timeline(rows=...) needs time=, the column with the rows' event time.")
        _check(rows, "rows", (time, *keys))
        at = F.col(f"`{time}`")
        input_rows = rows.where(at.isNotNull()).select(_micros(at).alias("_at"), *_texts(keys)).collect()
    zone = ZoneInfo(_zone(panes))
    lanes = _lanes(_panes(fired, still_open, zone, limit), [*late, *(input_rows or [])])
    _draw(axes, zone, lanes, late, input_rows)
    if ax is None:
        lines = round((axes.get_ylim()[0] - axes.get_ylim()[1]) * 2)
        axes.figure.set_size_inches(11, 1.3 + 0.24 * lines)  # type: ignore[union-attr]
    return axes


def _check(df: DataFrame, name: str, columns: Iterable[str]) -> None:
    if df.isStreaming:
        raise InvalidArgumentError(
            f"timeline() draws a table, and {name} is a stream. Write it to a sink, such as "
            "writeStream.format('memory').queryName('panes'), and draw spark.table('panes')."
        )
    for column in columns:
        if column not in df.columns:
            raise UnknownColumnError(
                f"timeline() needs the column {column!r}, and {name} has {', '.join(map(repr, df.columns))}."
            )
    kind = df.schema["window"].dataType if name != "rows" else None
    if kind is not None and not (isinstance(kind, StructType) and isinstance(kind["start"].dataType, TimestampType)):
        raise InvalidArgumentError(
            "timeline() draws windows of time: a struct 'window' of start and end. It was given "
            f"{kind.simpleString()}; count windows have no place on a time axis."
        )


def _zone(df: DataFrame) -> str:
    return str(df.sparkSession.conf.get("spark.sql.session.timeZone"))


def _micros(column: Column) -> Column:
    return F.unix_micros(column.cast("timestamp"))


def _texts(keys: Sequence[str], inside: str = "") -> list[Column]:
    name = F.concat_ws(", ", *[F.coalesce(F.col(f"{inside}`{key}`").cast("string"), F.lit("null")) for key in keys])
    return [name.alias("_lane")]


def _firings(panes: DataFrame, keys: Sequence[str], value: str | None, limit: int) -> list[Row]:
    pane = panes.schema["pane"].dataType
    has_merged = isinstance(pane, StructType) and "merged" in pane.names
    firings = panes.where(F.col("window.start").isNotNull()).select(
        *_pane_columns(panes, keys, value),
        F.col("pane.firing").alias("_firing"),
        F.col("pane.seq").alias("_seq"),
        (F.col("pane.merged") if has_merged else F.array()).alias("_merged"),
    )
    # A pane has a few firings, so many more rows than the limit mean too many panes.
    return _at_most(firings, 20 * limit, "firings", limit)


def _open(panes: DataFrame, keys: Sequence[str], value: str | None, limit: int) -> list[Row]:
    require_dataframe(panes, "timeline(open_panes=...) was given")
    _check(panes, "open_panes", ("window", *keys))
    columns = _pane_columns(panes, keys, value if value in panes.columns else None)
    return _at_most(panes.select(*columns), limit, "open panes", limit)


def _pane_columns(panes: DataFrame, keys: Sequence[str], value: str | None) -> list[Column]:
    pane = panes.schema["pane"].dataType if "pane" in panes.columns else None
    has_id = isinstance(pane, StructType) and "id" in pane.names
    return [
        _micros(F.col("window.start")).alias("_start"),
        _micros(F.col("window.end")).alias("_end"),
        (F.col("pane.id") if has_id else F.lit(None)).cast("string").alias("_id"),
        (F.col(f"`{value}`") if value else F.lit("")).cast("string").alias("_label"),
        *_texts(keys),
    ]


def _at_most(rows: DataFrame, most: int, what: str, limit: int) -> list[Row]:
    collected = rows.limit(most + 1).collect()
    if len(collected) > most:
        raise InvalidArgumentError(
            f"There are more than {most} {what}, too many for a picture of at most {limit} panes. Choose some: "
            "panes.where(...)."
        )
    return collected


def _late(panes: DataFrame, keys: Sequence[str], time: str | None) -> list[Row]:
    late = panes.schema["late_row"].dataType if "late_row" in panes.columns else None
    if time is None or not isinstance(late, StructType):
        return []
    if time not in late.names:
        raise UnknownColumnError(
            f"time={time!r} is not a column of late_row, which has {', '.join(map(repr, late.names))}."
        )
    inside = "late_row." if all(key in late.names for key in keys) else ""
    at = F.col(f"late_row.`{time}`")
    return panes.where(at.isNotNull()).select(_micros(at).alias("_at"), *_texts(keys, inside)).collect()


def _panes(fired: list[Row], still_open: list[Row], zone: ZoneInfo, limit: int) -> dict[str, list[_Pane]]:
    """The panes of each lane."""
    panes: dict[tuple[str, Any], _Pane] = {}
    for row in sorted(fired, key=lambda row: row["_seq"]):
        start, end = _time(row["_start"], zone), _time(row["_end"], zone)
        pane = panes.setdefault((row["_lane"], row["_id"] or (start, end)), _Pane(start, end))
        pane.firings.append(row["_firing"])
        pane.start, pane.end, pane.label = start, end, row["_label"] or ""
    merged = {(row["_lane"], other) for row in fired for other in row["_merged"] or ()}
    lanes: dict[str, list[_Pane]] = {}
    for (lane, name), pane in panes.items():
        if (lane, name) not in merged:
            lanes.setdefault(lane, []).append(pane)
    for row in still_open:
        start, end = _time(row["_start"], zone), _time(row["_end"], zone)
        fired_pane = panes.get((row["_lane"], row["_id"] or (start, end)))
        if fired_pane is None or "close" in fired_pane.firings:
            lanes.setdefault(row["_lane"], []).append(_Pane(start, end, label=row["_label"] or ""))
        else:
            fired_pane.start, fired_pane.end = start, end
            fired_pane.label = row["_label"] or fired_pane.label
    count = sum(map(len, lanes.values()))
    if count > limit:
        raise InvalidArgumentError(
            f"There are {count} panes, and a picture may have limit={limit}. Choose some, panes.where(...), or "
            "give a larger limit."
        )
    return lanes


def _lanes(panes: dict[str, list[_Pane]], dots: Iterable[Row]) -> list[_Lane]:
    names = {*panes, *(row["_lane"] for row in dots)}
    return [_Lane(name, panes.get(name, [])) for name in sorted(names)]


def _time(micros: int, zone: ZoneInfo) -> datetime:
    return datetime.fromtimestamp(micros // 1_000_000, zone).replace(microsecond=micros % 1_000_000)


def _draw(axes: Axes, zone: ZoneInfo, lanes: list[_Lane], late: list[Row], input_rows: list[Row] | None) -> None:
    from matplotlib import dates
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    top: dict[str, float] = {}
    y = 0.0
    for lane in lanes:
        top[lane.name] = y
        for pane, line in zip(lane.panes, lane.lines, strict=True):
            _bar(axes, pane, y + 0.6 + line)
        y += lane.height + 0.6
        axes.axhline(y, color="#d5dade", lw=0.6, zorder=0)
    handles: list[Any] = [
        Line2D([], [], ls="", marker=_MARKS[kind], color=_INK, ms=5, label=_SHOWN[kind])
        for kind in _MARKS
        if any(kind in pane.firings for lane in lanes for pane in lane.panes)
    ]
    closed = {"close" in pane.firings for lane in lanes for pane in lane.panes}
    handles += [Patch(fc=_CLOSED, ec=_INK, label="closed")] if True in closed else []
    handles += [Patch(fc=_OPEN, ec=_INK, ls="--", label="still open")] if False in closed else []
    for dots, colour, size, label in ((input_rows, _INK, 14, "row"), (late, _LATE, 34, "row that came too late")):
        if dots:
            rows = sorted(dots)
            at = [dates.date2num(_time(row["_at"], zone)) for row in rows]  # type: ignore[no-untyped-call]
            axes.scatter(at, [top[row["_lane"]] + 0.3 for row in rows], s=size, color=colour, lw=0, zorder=4)
            handles.append(Line2D([], [], ls="", marker="o", color=colour, ms=size**0.5, label=label))
    axes.set_yticks([(top[lane.name] + lane.height / 2 + 0.3) for lane in lanes], [lane.name for lane in lanes])
    axes.set_ylim(max(y, 1.0), 0)
    locator = dates.AutoDateLocator(tz=zone)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator, tz=zone))  # type: ignore[no-untyped-call]
    axes.margins(x=0.03)
    axes.set_xlabel(f"event time ({zone})", color=_INK)
    axes.tick_params(colors=_INK, length=0)
    for side in axes.spines.values():
        side.set_visible(False)
    if handles:
        axes.legend(
            handles=handles,
            loc="lower left",
            bbox_to_anchor=(0, 1.01),
            ncols=len(handles),
            frameon=False,
            labelcolor=_INK,
            fontsize=9,
        )


def _bar(axes: Axes, pane: _Pane, top: float) -> None:
    from matplotlib import dates
    from matplotlib.patches import Rectangle

    start, end = (dates.date2num(at) for at in (pane.start, pane.end))  # type: ignore[no-untyped-call]
    width, height = end - start, 0.78
    is_closed = "close" in pane.firings
    colour, edge = (_CLOSED, "-") if is_closed else (_OPEN, "--")
    axes.add_patch(Rectangle((start, top), width, height, fc=colour, ec=_INK, lw=0.7, ls=edge, zorder=2))
    if is_closed:
        axes.plot([end, end], [top, top + height], color=_INK, lw=3, solid_capstyle="butt", zorder=3)
    marks = [kind for kind in pane.firings if kind in _MARKS]
    for number, kind in enumerate(marks, start=1):
        axes.plot(
            start + width * number / (len(marks) + 1), top + height * 0.8, _MARKS[kind], color=_INK, ms=4, zorder=4
        )
    axes.text(
        start + width / 2, top + height * 0.36, pane.label, ha="center", va="center", color=_INK, fontsize=9, zorder=5
    )
    axes.update_datalim([(start, top), (end, top + height)])
    axes.autoscale_view(scaley=False)
