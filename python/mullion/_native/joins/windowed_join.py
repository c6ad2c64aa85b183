"""``windowed_join``: checks types; the JVM checks columns and combinations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias, get_args

from pyspark.sql import DataFrame

from mullion._bridge import dispatch
from mullion._bridge.options import Options
from mullion._native.dropped_rows import warn_of_dropped_rows
from mullion._native.joins.sides import key_names, require_sides, require_suffix
from mullion._util import durations
from mullion._util.checks import require_one_of
from mullion._util.durations import Duration
from mullion._util.signatures import explained
from mullion.errors import InvalidArgumentError, UnsupportedError
from mullion.windows import Cumulate, Custom, Session, Sliding, Tumbling, Watermark

How: TypeAlias = Literal["inner", "left", "full"]
JoinLate: TypeAlias = Literal["drop", "emit"]
JoinWindow: TypeAlias = Tumbling | Sliding | Cumulate | Session | Custom

# The event time of rows of both sides, which the columns of Custom(function) refer to: as in WindowedJoinBuilder.
_TIME: Final = "_mullion_time"


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
      together) or :class:`Custom`. Overlapping windows return a pair once for each window that has both rows. Columns
      of the window, such as ``Session(ends_with=)``, are evaluated on each side, which must have them.
    - ``by``: the key: names of columns that both sides have, with the same types. As in Spark's joins, a null matches
      nothing.
    - ``time``: the event time: one name for both sides, or a tuple with the name on the left and on the right. A
      ``TIMESTAMP`` column, or the ``window`` column of an operator before this one.
    - ``how``: ``"inner"`` returns pairs. ``"left"`` also returns the left rows without a match in their window, with
      nulls on the right, and ``"full"`` the right rows without a match too.
    - ``clock``, ``allowed_lateness``: as in :func:`windowed`.
    - ``late``: the treatment of rows whose window has closed. ``"drop"`` counts them. ``"emit"`` returns them in the
      column ``late_row``, a struct with the fields ``left`` and ``right``: one is the complete row, the other is null.
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
    _require_how(how)
    require_one_of("late", late, get_args(JoinLate))
    require_suffix(suffix)
    if not isinstance(clock, Watermark):
        raise UnsupportedError(
            f"clock={clock!r}: windows of a join close by the watermark of both streams. Write "
            "clock=Watermark(idle_after='30 seconds'), or leave it out."
        )
    times = time if isinstance(time, tuple) and len(time) == 2 else (time, time)
    for name in times:
        if not isinstance(name, str):
            raise InvalidArgumentError(
                f"time={time!r} ({type(time).__name__}) is not a column's name. Name the column with the event time, "
                "or write a tuple of its names on the left and on the right."
            )
    options = Options(
        time=_TIME,
        allowed_lateness_us=durations.not_negative(allowed_lateness, "allowed_lateness", "allowed_lateness={}"),
        early=None,
        on_time=False,
        accumulate=True,
        late=late,
        empty="skip",
        clock=clock,
    )
    join = {"by": list(key_names(by)), "time": times[0], "right_time": times[1], "how": how, "suffix": suffix}
    joined = dispatch.windowed_join(left, right, window, options, join)
    for side in (left, right):
        # Reports the caller of the function that checks this signature.
        warn_of_dropped_rows(side, calls=4)
    return joined


def _require_how(how: object) -> None:
    if how == "right":
        raise InvalidArgumentError(
            "how='right' is not one of 'inner', 'left', 'full'. Swap the two sides, and write how='left'."
        )
    require_one_of("how", how, get_args(How))
