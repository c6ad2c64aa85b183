"""``windowed(...)``: checks types and names; the JVM checks all else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, get_args

from pyspark.sql import Column, DataFrame

from mullion._bridge import dispatch
from mullion._bridge.columns import ColumnOrName, field_of, require_dataframe
from mullion._bridge.options import Options
from mullion._bridge.request import quoted
from mullion._native.windowed_rows import Windowed
from mullion._util import durations
from mullion._util.checks import described, require_bool, require_one_of
from mullion._util.durations import Duration
from mullion._util.signatures import explained
from mullion.errors import InvalidArgumentError
from mullion.windows import (
    Around,
    AtEnd,
    Count,
    Cumulate,
    Custom,
    Early,
    EmitFor,
    Empty,
    Global,
    Late,
    PerKey,
    Session,
    Sliding,
    Tumbling,
    Upgrade,
    Watermark,
    Window,
)

LATE: Final[tuple[str, ...]] = get_args(Late)
EMPTY: Final[tuple[str, ...]] = get_args(Empty)
AT_END: Final[tuple[str, ...]] = get_args(AtEnd)


@explained(
    "windowed(df, Tumbling('1 hour'), by='carrier', time='ts').agg(F.count('*').alias('n'))",
    {
        "time": "Name the column that holds each row's event time, as in time='ts', or write time=None for windows by "
        "the wall clock or of row numbers.",
        "window": "Say how rows are put into windows, as in Tumbling('1 hour').",
    },
)
def windowed(
    df: DataFrame,
    window: Window,
    *,
    by: ColumnOrName | Sequence[ColumnOrName] = (),
    time: ColumnOrName | None,
    clock: Watermark | PerKey = Watermark(),  # noqa: B008
    allowed_lateness: Duration = "0 seconds",
    early: Early | None = None,
    on_time: bool = False,
    accumulate: bool = True,
    late: Late = "drop",
    empty: Empty | EmitFor = "skip",
    at_end: AtEnd = "keep",
    dedupe_by: ColumnOrName | Sequence[ColumnOrName] = (),
    ids: bool = False,
    upgrade: Upgrade = Upgrade(),  # noqa: B008
) -> Windowed:
    """Assigns the rows of a DataFrame to panes, one per window and key. ``.agg(...)`` sets the contents of a pane.

    **Rows, windows and keys**

    - ``df``: a stream with a watermark on ``time``, or a batch DataFrame. A batch returns the closing rows of a stream
      over the same input.
    - ``window``: :class:`Tumbling`, :class:`Sliding`, :class:`Cumulate`, :class:`Session`, :class:`Around` or
      :class:`Custom` for windows of time; :class:`Count` or :class:`Global` for windows of row numbers.
    - ``by``: the key, a column or a list of columns. Without it there is one key. Nulls are a key, as in SQL.
    - ``time``: the event time: a ``TIMESTAMP`` column, or the ``window`` column of an operator before this one. With
      ``None``, windows of time go by processing time: a row's time is that of its batch, panes close by the wall clock
      even when no row comes, and no row is late. Windows of row numbers have no clock and need ``None``.

    **When a pane closes**

    - ``allowed_lateness``: how long a pane stays open after its end, as text or ``timedelta``. It adds to the
      watermark's delay: a pane closes when the watermark reaches ``end + allowed_lateness``.
    - ``clock``: the event clock that closes panes. :class:`Watermark`, the default, is Spark's watermark; its
      ``idle_after`` closes the panes of a quiet stream. :class:`PerKey` gives each key its own clock.
    - ``empty``: with ``"skip"`` only panes with rows exist. With ``"emit"`` windows without rows close too, for known
      keys: from the first window that has a row of the key, for as long as the query lasts (on a batch DataFrame, up to
      the last window with a row). With ``"forward"`` they close with all values of the key's window before, as in
      resampling. Both work for windows on a grid. A key is then never forgotten. A clock that jumps over more than a
      million windows fails the query, because a row's time must be wrong. ``"forward"`` stores the values of the last
      window of each key. It does not go with ``accumulate=False`` and ``.collect()``. With an
      :class:`EmitFor`, keys of a table are known from the start on.
    - ``at_end``: the treatment of open panes when the input ends. It ends for a stream with
      ``trigger(availableNow=True)``, once the query has read the rows that existed at its start. With ``"keep"`` panes
      stay open in the checkpoint, and the next run continues with them. With ``"close"`` all close, in a last batch of
      their own, which is repeated after a crash like any other. No state is kept then, neither row numbers nor clocks
      of keys: the next run begins with fresh panes, for rows that are not late by the stream's watermark. Windows of
      row numbers close with the rows that they have, on a batch DataFrame too. A query with another trigger has no end,
      and keeps its panes open either way. A checkpoint that began with ``"close"`` needs it from then on. Not with
      ``ids=True``, nor for windows between stages of Python functions.

    **When a pane fires before that**

    - ``early``: when open panes fire before they close. ``None`` means only at the close.
    - ``on_time``: with ``True``, a pane fires as ``on_time`` when the watermark reaches its end, and as ``update`` in
      each later batch that has rows for it until it closes, as Flink does within the allowed lateness. Interval firings
      end with ``on_time``. A session that grows after that counts as not yet on time, and is on time again at its new
      end.
    - ``accumulate``: with ``True``, each firing contains all rows of its pane. With ``False`` it contains the rows
      since the previous firing, and the close contains the rest, which may be empty.

    **Late rows and duplicates**

    - ``late``: the treatment of a row whose pane has closed. ``"drop"`` counts it. ``"emit"`` emits it in the column
      ``late_row``. ``"reopen"`` opens a fresh pane for it. Where windows overlap, a row is late when all of its windows
      have closed. If only some have, it enters the others, and the metric ``panesMissed`` counts the panes that it
      missed; with ``"reopen each"`` it opens fresh panes for these too.
    - ``dedupe_by``: rows of a pane that agree in this column, or in these columns, count once in its aggregates: the
      first one to arrive. Nulls are values, as in ``dropDuplicates``. Ids are kept only while a pane is open: a later
      copy is a late row like others, and with ``"reopen"`` opens a fresh pane. Each of several overlapping windows
      counts the row once, and so does a merged session. A copy still opens and extends sessions, and makes a pane fire
      again. Until the pane closes, state holds the aggregates' input columns of each row that counts, and the
      aggregates run over these when the pane fires. Not for windows of row numbers, ``.collect()``,
      ``accumulate=False`` and ``Early(count=...)``.

    **Ids and changes**

    - ``ids``: with ``True``, ``pane`` has two more fields, for tables that firings are upserted into
      (:func:`mullion.upsert`). ``id`` is a text that a pane of a key has from its opening to its close, and that no
      other pane of the key ever has; it stays the same after a restart and when a batch runs again. ``merged`` lists
      the ids of panes merged into this one since it opened or last fired, as sessions that touch are; those panes never
      fire again. The id of a window of time is its start, in microseconds since 1970; of :class:`Custom` its start and
      end; of a session the time with which it opened; of windows of row numbers the first number. A pane that
      ``late="reopen"`` opens has an id of its own. Sessions keep their ids in state, so their checkpoint keeps its
      initial setting, with or without ids; other windows may get ids later.

    - ``upgrade``: an :class:`Upgrade`, the treatment of open panes of a checkpoint whose query had other aggregates or
      another window. By default the query does not start.

    **Order of rows.** ``Early(each_row=True)``, ``PerKey()``, windows of row numbers and ``.collect()`` process a key's
    rows in order of arrival: by source partition, and in its order. After a shuffle upstream (a join,
    ``dropDuplicates``) this is the order after the shuffle, and a retried batch may have another one.

    **Operators before the window.** Spark's operators that go by the watermark (``dropDuplicatesWithinWatermark``, a
    ``groupBy`` with the event time, joins of streams) drop rows that are older, whatever ``allowed_lateness`` and
    ``late`` say here. A :class:`DroppedRowsWarning` names the operator, and so does the log when the query starts.
    ``dedupe_by`` drops no row.

    Raises :class:`UnknownColumnError` for a column that ``df`` does not have, :class:`InvalidArgumentError` for an
    invalid value, and :class:`UnsupportedError` for combinations that are not supported. ``.agg(...)`` detects a
    missing watermark; the start of the query detects the state of another query.

    >>> windowed(events, Tumbling("1 hour"), by="carrier", time="ts").agg(F.count("*").alias("n"))  # doctest: +SKIP
    DataFrame[carrier: string, window: struct<...>, pane: struct<firing:string,seq:int>, n: bigint]
    """
    require_dataframe(df)
    _require_window(window)
    keys = _columns(by)
    once = _columns(dedupe_by, "dedupe_by", "rows that count once, as in dedupe_by='id' or dedupe_by=['source', 'id']")
    if time is not None and not isinstance(time, (str, Column)):
        raise InvalidArgumentError(
            f"time={time!r} ({type(time).__name__}) is neither a column's name nor a Column. Write time='ts', or "
            "time=None for processing time."
        )
    if early is not None and not isinstance(early, Early):
        raise InvalidArgumentError(f"{described('early', early)} is not an Early. Write {_early_meant(early)}.")
    if not isinstance(clock, (Watermark, PerKey)):
        raise InvalidArgumentError(
            f"{described('clock', clock)} is not a clock. Write "
            "clock=Watermark(idle_after='30 seconds') or clock=PerKey()."
        )
    if not isinstance(upgrade, Upgrade):
        raise InvalidArgumentError(
            f"{described('upgrade', upgrade)} is not an Upgrade. Write, for instance, "
            "upgrade=Upgrade(new_aggregates='from now')."
        )
    require_bool("on_time", on_time)
    require_bool("accumulate", accumulate)
    require_bool("ids", ids)
    require_one_of("late", late, LATE)
    if not isinstance(empty, (str, EmitFor)):
        raise InvalidArgumentError(
            f"{described('empty', empty)} is none of {', '.join(map(repr, EMPTY))}, and not an EmitFor. "
            "Write, for instance, empty='emit', or empty=EmitFor(keys) with a table of keys."
        )
    if isinstance(empty, str):
        require_one_of("empty", empty, EMPTY)
    elif isinstance(empty.keys, DataFrame):
        dispatch.require_same(df, empty.keys, "empty=EmitFor(...)")
    require_one_of("at_end", at_end, AT_END)
    options = Options(
        time=time,
        allowed_lateness_us=durations.not_negative(allowed_lateness, "allowed_lateness", "allowed_lateness={}"),
        early=early,
        on_time=on_time,
        accumulate=accumulate,
        late=late,
        empty=empty,
        clock=clock,
        ids=ids,
        dedupe_by=once,
        at_end=at_end,
        upgrade=upgrade,
    )
    if not dispatch.is_declared(df.sparkSession):
        dispatch.ready(df.sparkSession)
        _require_columns(df, window, keys, options)
        # Only the JVM checks combinations of options, and types of columns.
        dispatch.check_window(df, window, keys, options)
    return Windowed(df, window, keys, options)


def _require_window(window: object) -> None:
    if isinstance(window, (Tumbling, Sliding, Cumulate, Session, Around, Custom, Count, Global)):
        return
    meant = f"Tumbling({window!r})" if isinstance(window, str) else "Tumbling('1 hour')"
    raise InvalidArgumentError(
        f"{described('window', window)} is not a window of Mullion. Write {meant}, "
        "Sliding('1 hour', '5 minutes'), Cumulate('1 day', '1 hour'), Session('10 minutes'), Around('1 minute'), "
        "Custom('ranges'), Count(100) or "
        "Global.every(100)."
    )


def _columns(
    by: object, name: str = "by", meant: str = "keys, as in by='carrier' or by=['origin', 'carrier']"
) -> tuple[ColumnOrName, ...]:
    columns = (by,) if isinstance(by, (str, Column)) else by
    if not isinstance(columns, (list, tuple)):
        raise InvalidArgumentError(
            f"{name}={by!r} ({type(by).__name__}) is not a column or a list of columns. Name the columns of {meant}, "
            "or leave it out."
        )
    for column in columns:
        if not isinstance(column, (str, Column)):
            raise InvalidArgumentError(
                f"{name}={by!r} holds {column!r} ({type(column).__name__}), which is neither a column's name nor a "
                f"Column. Name the columns of {meant}."
            )
    return tuple(columns)


def _early_meant(early: object) -> str:
    try:
        us = durations.positive(early, "early", "{}")
    except InvalidArgumentError:
        return "early=Early(every='1 minute')"
    return f"early=Early(every={durations.written(us)!r})"


def _require_columns(df: DataFrame, window: Window, keys: tuple[ColumnOrName, ...], options: Options) -> None:
    """Raises for a column that the input does not have, with its place in the call."""
    for key in keys:
        field_of(df, f"by={key!r}", key)
    for column in options.dedupe_by:
        field_of(df, f"dedupe_by={column!r}", column)
    if options.time is not None:
        field_of(df, f"time={options.time!r}", options.time)
    if isinstance(window, Session) and window.gap is not None:
        field_of(df, f"gap={window.gap!r}", window.gap)
    if isinstance(window, Session) and window.ends_with is not None:
        field_of(df, f"ends_with={window.ends_with!r}", window.ends_with)
    # Without event time custom windows are rejected, whatever their ranges.
    if isinstance(window, Custom) and isinstance(window.ranges, (str, Column)) and options.time is not None:
        field_of(df, f"ranges={window.ranges!r}", window.ranges)
    if isinstance(window, Global):
        for name in window.columns or ():
            field_of(df, f"columns={list(window.columns or ())!r}", quoted(name))
