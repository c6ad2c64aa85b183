"""``asof_join``: checks types; the JVM checks columns and combinations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias, get_args

from pyspark.sql import DataFrame

from mullion._bridge import dispatch
from mullion._native.joins.sides import key_names, require_sides, require_suffix
from mullion._util import durations
from mullion._util.checks import require_bool, require_one_of
from mullion._util.durations import Duration
from mullion._util.signatures import explained
from mullion.errors import InvalidArgumentError

Direction: TypeAlias = Literal["backward", "forward", "nearest"]


@explained("asof_join(trades, quotes, by='symbol', left_time='ts', right_time='quoted_at')")
def asof_join(
    left: DataFrame,
    right: DataFrame,
    *,
    by: str | Sequence[str] = (),
    left_time: str,
    right_time: str,
    tolerance: Duration | None = None,
    direction: Direction = "backward",
    allow_exact: bool = True,
    suffix: str = "_right",
) -> DataFrame:
    """Joins each row of one stream with the row of another one that is nearest in time.

    Each left row is emitted once, with nulls on the right if it has no match. On batch DataFrames the result is the
    same as that of streams over the same rows, without late ones.

    - ``left``, ``right``: two streams, each with a watermark on its event time, or two batch DataFrames.
    - ``by``: the key: names of columns that both sides have, with the same types. Without it, all rows match by time
      alone. As in Spark's joins, a null matches nothing.
    - ``left_time``, ``right_time``: the event time of each side: a ``TIMESTAMP`` column, or the ``window`` column of an
      operator before this one, whose last microsecond it is. A row without time is dropped, and counted as
      ``rowsWithoutTime``.
    - ``direction``: ``"backward"`` matches the last right row up to the left row's time, ``"forward"`` the first one
      from it on, and ``"nearest"`` the nearer of both; of two at the same distance, the earlier.
    - ``tolerance``: the longest distance between rows that match, inclusive. ``"forward"`` and ``"nearest"`` require
      it.
    - ``allow_exact``: whether rows of equal times match.
    - ``suffix``: added to the name of a right column if the left side has a column of that name.

    The columns are those of the left side, then those of the right side without the keys. The left side's time carries
    the watermark, so a window or another join may follow. Right rows with the same key and time are versions of one
    row: the last to arrive counts; in a batch DataFrame, the last one that Spark reads.

    In a stream, a left row is emitted when the watermark has passed all times that can match: with ``"backward"`` its
    own time, otherwise its time plus ``tolerance``. The watermark of a query is the minimum of its streams. Until then,
    the left row may still find right rows that arrive in any order. A left row that arrives after that is late: it is
    dropped and counted (``rowsLate``). A right row is late when no left row can match it any more.

    State has the left rows that wait, and the right rows that a left row may need: with ``"backward"`` the last one of
    each key up to the watermark, and later ones; with ``"forward"`` and ``"nearest"`` those within ``tolerance`` and
    twice ``tolerance`` before the watermark. Without a ``tolerance``, the last right row of each key stays.

    Raises :class:`UnknownColumnError` for a column that a side does not have, :class:`InvalidArgumentError` for an
    invalid value, a missing watermark, a missing ``tolerance``, and keys of different types, and
    :class:`UnsupportedError` for a stream with a batch DataFrame. A query over a checkpoint needs the same options and
    columns: others raise :class:`IncompatibleStateError` at its start.

    >>> asof_join(trades, quotes, by="symbol", left_time="ts", right_time="quoted_at")  # doctest: +SKIP
    DataFrame[ts: timestamp, symbol: string, price: double, quoted_at: timestamp, bid: double, ask: double]
    """
    require_sides("asof_join", left, right)
    for option, time in (("left_time", left_time), ("right_time", right_time)):
        if not isinstance(time, str):
            raise InvalidArgumentError(
                f"{option}={time!r} ({type(time).__name__}) is not a column's name. Name the column with the event "
                "time of that side."
            )
    require_one_of("direction", direction, get_args(Direction))
    require_bool("allow_exact", allow_exact)
    request = {
        "by": list(key_names(by)),
        "left_time": left_time,
        "right_time": right_time,
        "tolerance": None if tolerance is None else durations.not_negative(tolerance, "tolerance", "tolerance={}"),
        "direction": direction,
        "allow_exact": allow_exact,
        "suffix": require_suffix(suffix),
    }
    return dispatch.asof_join(left, right, request)
