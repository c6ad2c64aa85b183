"""Functions over Columns. The SQL functions ``mullion_...`` are the same.

>>> from mullion import functions as MF
>>> events.select("ts", MF.windows("ts", "10 minutes", "5 minutes"))  # doctest: +SKIP
>>> windowed(sales, Tumbling("1 hour"), time="ts").agg(MF.top_n(10, "price", "item"))  # doctest: +SKIP

:func:`previous` belongs into ``windowed(...).agg(...)``. :func:`top_n` is an aggregate, and the others are window
arithmetic, for any query.

They need no stream. Times are ``TIMESTAMP``, microseconds in UTC. A day has 24 hours in every time zone.
If the time is null, the result is null. At the ends of the time range the result is clamped. In each of these

- ``ts`` is a column of type ``TIMESTAMP``, by name or as a Column;
- a length is text (``"10 minutes"``) or a :class:`datetime.timedelta`, in whole microseconds.

A wrong length raises :class:`InvalidArgumentError` immediately; a column of another type raises it when Spark analyses
the DataFrame. The functions need an active session.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, SparkSession
from pyspark.sql.functions import call_function, col, lit

from mullion._bridge import dispatch
from mullion._util import durations
from mullion._util.durations import Duration
from mullion.errors import InvalidArgumentError

__all__ = ["previous", "session", "session_end", "slice_of", "top_n", "window_end", "window_start", "windows"]

ColumnOrName = Column | str

_MOST: Final = 2**31 - 1


def previous(aggregate: Column) -> Column:
    """The value of ``aggregate`` in the pane of the same key that closed before, for ``windowed(...).agg(...)``.

    ``aggregate`` is an aggregate, or an expression over aggregates and keys. The result has its type. It is null for
    the first pane of a key, and in all firings before the close: the pane before may still be open then.

    >>> change = F.sum("v") - MF.previous(F.sum("v"))  # doctest: +SKIP

    The panes of a key must not overlap: it works for :class:`Tumbling`, :class:`Session`, :class:`Count` and
    :class:`Global`. With ``empty="emit"`` the pane before is the window before, with or without rows. A pane that late
    rows reopen has no previous one if it ends before the last closed pane of its key, and is no other's previous pane.

    State holds one record per key, with the end of its last closed pane and the values. It is kept as long as the
    query, so its number of keys bounds the state. On a batch DataFrame the result is the same.

    In SQL: ``mullion_previous(aggregate)``.

    Raises :class:`InvalidArgumentError` when ``aggregate`` is not a Column. ``.agg(...)`` raises it when there is no
    aggregate in it, and :class:`UnsupportedError` for windows that overlap, ``accumulate=False``,
    ``Upgrade(window="drain")``, and for ``previous`` over itself or over a Python function.
    """
    if not isinstance(aggregate, Column):
        raise InvalidArgumentError(
            f"previous({aggregate!r}) was given a {type(aggregate).__name__}, which is not an aggregate. Write, for "
            "instance, previous(F.sum('v'))."
        )
    return _named("mullion_previous", aggregate)


def windows(ts: ColumnOrName, size: Duration, slide: Duration | None = None, offset: Duration = "0 seconds") -> Column:
    """Every window that contains ``ts``, in order of start: ``array<struct<start: timestamp, end: timestamp>>``.

    A window is the half-open interval ``[start, end)``, ``size`` long. A window starts every ``slide``, which is
    ``size`` by default. In a gap between windows the array is empty. ``offset`` shifts the starts of windows
    relative to the epoch; only its remainder by ``slide`` matters.

    In SQL: ``mullion_windows(ts, size[, slide[, offset]])``.

    Raises :class:`InvalidArgumentError` when ``size`` or ``slide`` is not a duration longer than zero, when ``offset``
    is not a duration, and when a time could be in more than a million windows.
    """
    size_us = durations.positive(size, "size", "windows(ts, {})")
    slide_us = size_us if slide is None else durations.positive(slide, "slide", "windows(ts, '1 minute', {})")
    most = (size_us - 1) // slide_us + 1
    if most > 1_000_000:
        raise InvalidArgumentError(
            f"slide={slide!r} puts a time into {most} windows of {size!r}, and windows() returns at most 1000000. "
            "Give a longer slide."
        )
    return _call("mullion_windows", ts, size_us, slide_us, _offset(offset))


def slice_of(ts: ColumnOrName, size: Duration, slide: Duration, offset: Duration = "0 seconds") -> Column:
    """The slice that contains ``ts``: ``struct<start: timestamp, end: timestamp>``, null in a gap between windows.

    A slice is the largest half-open interval ``[start, end)`` without an edge of a window inside. Windows of ``size``
    start every ``slide``. Rows of one slice are in the same windows.

    In SQL: ``mullion_slice(ts, size, slide[, offset])``.

    Raises :class:`InvalidArgumentError` when ``size`` or ``slide`` is not a duration longer than zero, or ``offset`` is
    not a duration.
    """
    size_us = durations.positive(size, "size", "slice_of(ts, {}, '1 second')")
    slide_us = durations.positive(slide, "slide", "slice_of(ts, '1 minute', {})")
    return _call("mullion_slice", ts, size_us, slide_us, _offset(offset))


def window_start(ts: ColumnOrName, size: Duration, offset: Duration = "0 seconds") -> Column:
    """The start of the tumbling window of ``size`` that contains ``ts``, a ``timestamp``.

    In SQL: ``mullion_window_start(ts, size[, offset])``.

    Raises :class:`InvalidArgumentError` when ``size`` is not a duration longer than zero, or ``offset`` is not a
    duration.
    """
    return _call("mullion_window_start", ts, durations.positive(size, "size", "window_start(ts, {})"), _offset(offset))


def window_end(ts: ColumnOrName, size: Duration, offset: Duration = "0 seconds") -> Column:
    """The end of the tumbling window of ``size`` that contains ``ts``, a ``timestamp``. It is not in the window.

    In SQL: ``mullion_window_end(ts, size[, offset])``.

    Raises :class:`InvalidArgumentError` when ``size`` is not a duration longer than zero, or ``offset`` is not a
    duration.
    """
    return _call("mullion_window_end", ts, durations.positive(size, "size", "window_end(ts, {})"), _offset(offset))


def session(ts: ColumnOrName, gap: Duration | Column) -> Column:
    """The session of a single row at ``ts``, ``[ts, ts + gap)``: ``struct<start: timestamp, end: timestamp>``.

    ``gap`` is a duration, or a Column with a gap for each row: an interval, or text that Spark reads as one. If a row's
    gap is null, in months, zero or negative, the result is null.

    In SQL: ``mullion_session(ts, gap)``.

    Raises :class:`InvalidArgumentError` when ``gap`` is neither a Column nor a duration longer than zero.
    """
    return _call("mullion_session", ts, _gap(gap, "session(ts, {})"))


def session_end(last: ColumnOrName, gap: Duration | Column) -> Column:
    """The end of a session whose last row is at ``last``: ``last + gap``, a ``timestamp``.

    ``gap`` is as in ``session``.

    In SQL: ``mullion_session_end(last, gap)``.

    Raises :class:`InvalidArgumentError` when ``gap`` is neither a Column nor a duration longer than zero.
    """
    return _call("mullion_session_end", last, _gap(gap, "session_end(last, {})"))


def top_n(n: int, order_by: ColumnOrName, *columns: ColumnOrName) -> Column:
    """An aggregate: the values of ``columns`` in the ``n`` rows with the largest ``order_by``, the largest first.

    The result is an array with at most ``n`` elements. With one column these are its values; with several they are
    structs with the columns' names. The rows are the first of ``ORDER BY order_by DESC, columns LIMIT n``: nulls of
    ``order_by`` are last, and rows with equal ``order_by`` are in ascending order of ``columns``. If these have no
    order either, as maps have none, ties are resolved by the bytes of the values. Without rows the array is empty.

    - ``n``: the maximum number of rows, 1 or more. The state of a pane has at most ``n`` rows.
    - ``order_by``: a name, or a Column of a type with an order. For several criteria use a struct:
      ``F.struct("price", "rating")``. For the smallest value first, negate it.
    - ``columns``: names or Columns, at least one. ``.alias`` names the field of an expression.

    Use it in ``windowed(...).agg(...)`` and in Spark's own ``groupBy(...).agg(...)``.

    In SQL: ``mullion_top_n(n, order_by, column[, ...])``, also with ``FILTER (WHERE ...)``.

    Raises :class:`InvalidArgumentError` when ``n`` is not a whole number of 1 or more, without columns, and when one is
    neither a name nor a Column.
    """
    if isinstance(n, bool) or not isinstance(n, int) or not 1 <= n <= _MOST:
        raise InvalidArgumentError(
            f"n={n!r} ({type(n).__name__}) is not a number of rows. Write a whole number from 1 to {_MOST}, as in "
            "top_n(10, 'price', 'item')."
        )
    if not columns:
        raise InvalidArgumentError(
            "top_n() has no columns, so its rows would have no values. Name the columns of a row after order_by, as in "
            "top_n(10, 'price', 'item')."
        )
    return _named("mullion_top_n", lit(n), *(_column("top_n", column) for column in (order_by, *columns)))


def _offset(offset: Duration) -> int:
    return durations.microseconds(offset, "offset", "offset={}")


def _gap(gap: Duration | Column, fix: str) -> int | Column:
    return gap if isinstance(gap, Column) else durations.positive(gap, "gap", fix)


def _call(function: str, ts: ColumnOrName, *lengths: int | Column) -> Column:
    if not isinstance(ts, (str, Column)):
        raise InvalidArgumentError(
            f"{function} was given the time {ts!r} ({type(ts).__name__}), which is neither a column's name nor a "
            "Column. Write 'ts' or F.col('ts')."
        )
    texts = [length if isinstance(length, Column) else lit(durations.written(length)) for length in lengths]
    return _named(function, col(ts) if isinstance(ts, str) else ts, *texts)


def _column(function: str, column: ColumnOrName) -> Column:
    if not isinstance(column, (str, Column)):
        raise InvalidArgumentError(
            f"{function} was given {column!r} ({type(column).__name__}), which is neither a column's name nor a "
            "Column. Write 'price' or F.col('price')."
        )
    return col(column) if isinstance(column, str) else column


def _named(function: str, *arguments: Column) -> Column:
    spark = SparkSession.getActiveSession()
    if spark is None:
        raise InvalidArgumentError(
            "There is no active Spark session. Start one first, mullion.configure(SparkSession.builder).getOrCreate()."
        )
    dispatch.ready(spark)
    return call_function(function, *arguments)
