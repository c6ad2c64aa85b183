"""``windowed_join``: the rows of two DataFrames that are in the same window.

It is one window over the rows of both sides, which collects them, and the product of a pane's rows when it closes:

    left  ─┐
           ├─ union of (keys, time, left, right) ─ windowed(...).agg(lefts, rights) ─ explode both lists
    right ─┘
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal, TypeAlias, get_args

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from mullion._bridge.request import quoted
from mullion._native.joins.sides import (
    key_names,
    require_keys,
    require_sides,
    require_suffix,
    require_time,
    right_names,
)
from mullion._native.windowed import windowed
from mullion._util.checks import require_one_of
from mullion._util.durations import Duration
from mullion._util.signatures import explained
from mullion.errors import InvalidArgumentError, UnsupportedError
from mullion.windows import Cumulate, Custom, Session, Sliding, Tumbling, Watermark

How: TypeAlias = Literal["inner", "left", "full"]
JoinLate: TypeAlias = Literal["drop", "emit"]
JoinWindow: TypeAlias = Tumbling | Sliding | Cumulate | Session | Custom

_TIME: Final = "_mullion_time"
_ALONE: Final = "_mullion_side_of_null_keys"
_LEFTS: Final = "_mullion_lefts"
_RIGHTS: Final = "_mullion_rights"


@explained("windowed_join(orders, clicks, Tumbling('10 minutes'), by='user', time='ts')")
def windowed_join(
    left: DataFrame,
    right: DataFrame,
    window: JoinWindow,
    *,
    by: str | Sequence[str] = (),
    time: str | tuple[str, str],
    how: How = "inner",
    clock: Watermark = Watermark(),  # noqa: B008
    allowed_lateness: Duration = "0 seconds",
    late: JoinLate = "drop",
    suffix: str = "_right",
) -> DataFrame:
    """Joins the rows of two streams that are in the same window and have the same key.

    The pairs of a window are emitted once, when it closes. On batch DataFrames the result is the same as that of
    streams over the same rows, without late ones.

    - ``left``, ``right``: two streams, each with a watermark on its event time, or two batch DataFrames.
    - ``window``: :class:`Tumbling`, :class:`Sliding`, :class:`Cumulate`, :class:`Session` (of the rows of both sides
      together) or :class:`Custom`. Overlapping windows return a pair once for each window that has both rows.
    - ``by``: the key: names of columns that both sides have, with the same types. As in Spark's joins, a null matches
      nothing.
    - ``time``: the event time: one name for both sides, or a tuple with the name on the left and on the right. A
      ``TIMESTAMP`` column, or the ``window`` column of an operator before this one.
    - ``how``: ``"inner"`` returns pairs. ``"left"`` also returns the left rows without a match in their window, with
      nulls on the right, and ``"full"`` the right rows without a match too.
    - ``clock``, ``allowed_lateness``: as in :func:`windowed`.
    - ``late``: the treatment of rows whose window has closed. ``"drop"`` counts them. ``"emit"`` returns them in the
      column ``late_row``, a struct with the fields ``left`` and ``right``, one of which is null.
    - ``suffix``: added to the name of a right column if the left side has a column of that name.

    The columns are the keys, ``window``, the other columns of the left side, the other columns of the right side, and
    ``late_row`` with ``late="emit"``. ``window`` carries the watermark: a window over the result names
    ``time="window"``.

    State holds the rows of open windows. A window of a key may hold
    ``spark.sql.streaming.stateStore.mullion.maxAccumulatorBytes`` bytes, 128 MB by default: past that the query fails
    with an error that names the window, and can continue from its checkpoint with a higher limit. A key with ``m`` left
    and ``n`` right rows in a window returns ``m * n`` pairs.

    Raises :class:`UnknownColumnError` for a column that a side does not have, :class:`InvalidArgumentError` for an
    invalid value, a missing watermark, and keys of different types, and :class:`UnsupportedError` for a stream with a
    batch DataFrame and for other windows.

    >>> windowed_join(orders, clicks, Tumbling("10 minutes"), by="user", time="ts")  # doctest: +SKIP
    DataFrame[user: string, window: struct<...>, ts: timestamp, amount: int, ts_right: timestamp, page: string]
    """
    require_sides("windowed_join", left, right)
    if not isinstance(window, get_args(JoinWindow)):
        raise UnsupportedError(
            f"window={window!r} of windowed_join() is not a window of time that both sides share. Write Tumbling, "
            "Sliding, Cumulate, Session or Custom, as in Tumbling('10 minutes')."
        )
    require_one_of("how", how, get_args(How))
    require_one_of("late", late, get_args(JoinLate))
    require_suffix(suffix)
    if not isinstance(clock, Watermark):
        raise UnsupportedError(
            f"clock={clock!r}: windows of a join close by the watermark of both streams. Write "
            "clock=Watermark(idle_after='30 seconds'), or leave it out."
        )
    keys = key_names(by)
    require_keys(left, right, keys)
    times = time if isinstance(time, tuple) and len(time) == 2 else (time, time)
    sides = [
        _Side("left", left, keys, require_time("left", left, "time", times[0])),
        _Side("right", right, keys, require_time("right", right, "time", times[1])),
    ]
    taken = [*keys, "window", *(["late_row"] if late == "emit" else []), *sides[0].names]
    names = right_names(taken, sides[1].names, suffix)

    rows = _tagged(sides, keys, how)
    groups = [*keys, _ALONE] if _ALONE in rows.columns else [*keys]
    lists = windowed(
        rows,
        window,
        by=[quoted(key) for key in groups],
        time=_TIME,
        clock=clock,
        allowed_lateness=allowed_lateness,
        late=late,
    ).agg(F.collect_list("left").alias(_LEFTS), F.collect_list("right").alias(_RIGHTS))
    return _pairs(lists, sides, keys, how, names, emits=late == "emit")


class _Side:
    """One side of the join, and the row that a pane keeps of it."""

    def __init__(self, name: str, df: DataFrame, keys: Sequence[str], time: str) -> None:
        self.name = name
        self.df = df
        self.time = time
        fields = [field for field in df.schema.fields if field.name.lower() not in {key.lower() for key in keys}]
        self.names = [field.name for field in fields]
        if len({name.lower() for name in self.names}) < len(self.names):
            raise InvalidArgumentError(
                f"The {name} side has several columns of one name: {', '.join(df.columns)}. Rename or drop all but one "
                "before the join."
            )
        # The event time of a row is older than the watermark when its window closes, so it carries none.
        self.type = StructType([StructField(field.name, field.dataType, nullable=True) for field in fields])

    @property
    def row(self) -> Column:
        return F.struct(*(quoted(name) for name in self.names)).cast(self.type)


def _tagged(sides: Sequence[_Side], keys: Sequence[str], how: How) -> DataFrame:
    """The rows of both sides: the keys, the time, and the row as ``left`` or ``right``."""
    tagged = []
    for side in sides:
        df = side.df
        if keys and (how == "inner" or (how == "left" and side.name == "right")):
            # Nulls match nothing. The event time keeps the condition above the watermark, which all rows advance.
            has_keys = _all(F.col(quoted(key)).isNotNull() for key in keys)
            df = df.where(F.col(quoted(side.time)).isNull() | has_keys)
        columns: list[Any] = [quoted(key) for key in keys]
        if keys and how == "full":
            # Rows with null keys are emitted, in panes of their own side.
            columns.append(F.when(~_all(F.col(quoted(key)).isNotNull() for key in keys), side.name).alias(_ALONE))
        columns.append(F.col(quoted(side.time)).alias(_TIME))
        columns += [(side.row if of is side else F.lit(None).cast(of.type)).alias(of.name) for of in sides]
        tagged.append(df.select(*columns))
    return tagged[0].union(tagged[1])


def _all(conditions: Iterable[Column]) -> Column:
    return functools.reduce(Column.__and__, conditions)


def _pairs(
    lists: DataFrame, sides: Sequence[_Side], keys: Sequence[str], how: How, right: Sequence[str], *, emits: bool
) -> DataFrame:
    """The product of the rows of each pane."""
    needed = {"inner": (_LEFTS, _RIGHTS), "left": (_LEFTS,), "full": ()}[how]
    late = ["late_row"] if emits else []
    if needed:
        match = _all(F.size(rows) > 0 for rows in needed)
        lists = lists.where(match | F.col("late_row").isNotNull() if emits else match)
    shared = [*(quoted(key) for key in keys), "window", *late]
    rows = lists.select(*shared, F.explode_outer(_LEFTS).alias("left"), _RIGHTS)
    rows = rows.select(*shared, "left", F.explode_outer(_RIGHTS).alias("right"))
    fields = [F.col(f"left.{quoted(name)}").alias(name) for name in sides[0].names]
    fields += [F.col(f"right.{quoted(name)}").alias(shown) for name, shown in zip(sides[1].names, right, strict=True)]
    if emits:
        row = F.struct("late_row.left", "late_row.right")
        fields.append(F.when(F.col("late_row").isNotNull(), row).alias("late_row"))
    return rows.select(*(quoted(key) for key in keys), "window", *fields)
