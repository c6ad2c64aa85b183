"""``windowed(...).agg(...)``: checks types and names; the JVM checks all else."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn, get_args

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from mullion._bridge import dispatch
from mullion._bridge.columns import ColumnOrName, field_of, refusal, require_dataframe
from mullion._bridge.options import Options
from mullion._bridge.request import quoted
from mullion._native.aggregates import PythonAggregate
from mullion._native.pane_functions import lists
from mullion._native.pane_functions.apply import LATE_ROW, applied
from mullion._native.pane_functions.delivery import (
    delivery_of,
    firing_with_rows,
    last_row,
    once_each,
    require_deliverable,
)
from mullion._native.pane_functions.process import PaneProcessor, processed, require_processor
from mullion._native.pane_functions.reading import ROWS
from mullion._util import durations, html
from mullion._util.checks import did_you_mean, require_bool, require_one_of
from mullion._util.durations import Duration
from mullion._util.signatures import explained
from mullion.errors import (
    DroppedRowsWarning,
    InvalidArgumentError,
    NotAggregatedError,
    UnsupportedError,
)
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
    Order,
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
ORDER: Final[tuple[str, ...]] = get_args(Order)
_ANY_NUMBER: Final = 2**62
_TIME: Final = "_mullion_time"


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
        raise InvalidArgumentError(f"early={early!r} is not an Early. Write {_early_meant(early)}.")
    if not isinstance(clock, (Watermark, PerKey)):
        raise InvalidArgumentError(
            f"clock={clock!r} ({type(clock).__name__}) is not a clock. Write "
            "clock=Watermark(idle_after='30 seconds') or clock=PerKey()."
        )
    if not isinstance(upgrade, Upgrade):
        raise InvalidArgumentError(
            f"upgrade={upgrade!r} ({type(upgrade).__name__}) is not an Upgrade. Write, for instance, "
            "upgrade=Upgrade(new_aggregates='from now')."
        )
    require_bool("on_time", on_time)
    require_bool("accumulate", accumulate)
    require_bool("ids", ids)
    require_one_of("late", late, LATE)
    if not isinstance(empty, EmitFor):
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


class Windowed:
    """The result of :func:`windowed`, on which ``.agg(...)`` or ``.collect(...)`` returns a DataFrame."""

    __slots__ = ("_by", "_df", "_options", "_window")

    def __init__(self, df: DataFrame, window: Window, by: tuple[ColumnOrName, ...], options: Options) -> None:
        self._df = df
        self._window = window
        self._by = by
        self._options = options

    def agg(self, *aggregates: Column | PythonAggregate, **named: Column | PythonAggregate) -> DataFrame:
        """Returns a row for each firing of a pane: the keys, ``window``, ``pane``, then the aggregates by their names.

        It accepts all aggregates of Spark, expressions over them, Scala UDAFs, and aggregates in Python
        (:class:`PythonAggregate`). A keyword names the column: ``agg(n=F.count("*"))`` is
        ``agg(F.count("*").alias("n"))``. Columns with keywords come last. With ``late="emit"`` the result also has the
        column ``late_row``.

        Some aggregates grow with their rows: lists, sets, exact percentiles. All aggregates of a pane of a stream
        together may hold ``spark.sql.streaming.stateStore.mullion.maxAccumulatorBytes`` bytes, 128 MB by default. Past
        that the query fails with an error that names the pane, and can continue from its checkpoint with a higher
        limit. A batch writes only what it adds to a ``collect_list`` (and at most 64 kB more), and only the new values
        of an aggregate over distinct values. Sets and percentiles are written entirely with each batch that has rows
        for them.

        Raises :class:`InvalidArgumentError` when there is no aggregate, when one is not an aggregate or holds another
        one, when a name would be twice in the result, and when a stream has no watermark on its event time;
        :class:`UnknownColumnError` for a column that the input does not have; :class:`UnsupportedError` for
        pandas UDAFs, aggregates that need more than one aggregation, and ``DISTINCT`` over values that Spark cannot
        compare.
        """
        if isinstance(self._window, (Count, Global)) and self._options.time is not None:
            raise InvalidArgumentError(
                f"time={self._options.time!r} means nothing here: {self._window!r} takes rows in order of arrival. "
                "Write time=None, or collect(order='time') for a pane's rows in order of their times."
            )
        for aggregate in (*aggregates, *named.values()):
            if not isinstance(aggregate, (Column, PythonAggregate)):
                raise InvalidArgumentError(_not_an_aggregate(aggregate))
        columns = [
            aggregate.alias(repr(aggregate)) if isinstance(aggregate, PythonAggregate) else aggregate
            for aggregate in aggregates
        ]
        columns += [aggregate.alias(name) for name, aggregate in named.items()]
        for column in columns:
            dispatch.require_same(self._df, column, f"the aggregate {column!r}")
        try:
            panes = dispatch.windowed(self._df, self._window, self._by, self._options, aggregates=columns)
        except AnalysisException as theirs:
            raise refusal(theirs, self._df, "agg(...)") from None
        _warn_of_dropped_rows(self._df)
        return panes

    @explained("windowed(...).collect(order='arrival', name='rows')")
    def collect(self, order: Order = "arrival", name: str = "rows", max_rows: int = 1_000_000) -> DataFrame:
        """Returns a row for each firing of a pane: the keys, ``window``, ``pane``, then the pane's rows.

        The rows are an array of structs with all columns of the input.

        - ``order``: ``"arrival"``, or ``"time"`` for the order of event time, and of arrival where times are equal.
        - ``name``: the name of the array column.
        - ``max_rows``: the most rows that a pane may have. A task holds a pane's rows in memory when the pane closes. A
          pane with more rows fails the query, with an error that names the pane.

        Each batch adds its rows to state, and rewrites none of earlier batches. A pane that
        fires early (``early=``) contains all rows so far, and reads all of them each time. With ``accumulate=False``
        it contains the rows since the previous firing, which are then removed from state.

        With ``Early(count=n)`` a pane of tumbling and sliding windows fires with each ``n``-th row since it
        opened or last fired: several times in a batch if there are enough, and also in the batch in which it closes.
        With ``accumulate=False`` each of these firings has exactly ``n`` rows, and the close has the rest.

        Raises :class:`InvalidArgumentError` for an invalid value, such as ``order="time"`` without
        ``time=``, and :class:`UnsupportedError` with ``Early(each_row=True)``, and for other windows and with
        ``PerKey()`` with ``Early(count=...)``, ``accumulate=False`` or ``empty="emit"``.
        """
        if not isinstance(name, str) or not name:
            raise InvalidArgumentError(f"name={name!r} is not a column's name. Write, for instance, name='rows'.")
        return self._collected(order, name, max_rows, "collect()")

    def _collected(self, order: Order, name: str, max_rows: int, call: str) -> DataFrame:
        require_one_of("order", order, ORDER)
        if isinstance(max_rows, bool) or not isinstance(max_rows, int):
            raise InvalidArgumentError(
                f"max_rows={max_rows!r} ({type(max_rows).__name__}) is not a whole number. Write, for instance, "
                "max_rows=1_000_000."
            )
        collect = (order == "time", name, max_rows)
        try:
            panes = dispatch.windowed(self._df, self._window, self._by, self._options, aggregates=(), collect=collect)
        except AnalysisException as theirs:
            raise refusal(theirs, self._df, call) from None
        _warn_of_dropped_rows(self._df, calls=5)
        return panes

    @explained("windowed(...).apply(score, schema='score double')")
    def apply(
        self,
        function: Callable[..., Any],
        schema: StructType | str,
        order: Order = "arrival",
        max_rows: int = 1_000_000,
    ) -> DataFrame:
        """Calls a Python function for each firing of a pane, and returns its rows.

        The result has the keys, ``window``, ``pane``, then the columns of ``schema``, and with ``late="emit"`` the
        column ``late_row``. The function is not called for late rows. ``window`` keeps its watermark, so another window
        or a join may follow.

        - ``function(key, pane, rows)``: ``key`` is a tuple of the key's values, in the order of ``by=``; ``pane`` is a
          :class:`Pane`. The annotation of ``rows`` determines its form: ``pandas.DataFrame``, ``pyarrow.Table``,
          ``pyarrow.RecordBatch``, ``Iterator[pyarrow.RecordBatch]`` or ``Iterator[pandas.DataFrame]``; without one it
          is a Table. It has all columns of the input; timestamps are in the session's time zone. With an iterator, a
          worker holds no more than 10,000 rows of a pane at a time.
        - The function returns a DataFrame, a Table, a RecordBatch, dicts, an iterator of these (a generator), or
          ``None`` for no rows. Columns are found by name. Naive times are in UTC.
        - ``schema``: the columns that the function returns, as DDL or a ``StructType``.
        - ``order``, ``max_rows``: as in :meth:`collect`, whose limits hold here too. The JVM holds a pane's rows in
          memory when the pane fires.

        The function runs in Spark's Python workers, in batches of Arrow: one worker for a task, which the next tasks
        use again. Mullion and the function's packages must be installed there. Nothing that the function keeps in
        variables survives: use :meth:`process` for state. A batch that is tried again calls it again.

        If the function raises an error, the query fails with a :class:`FunctionError` that has the line, the key and
        the pane. Nothing of the batch is stored. Fix the function, then restart the query from its checkpoint: it
        calls the new function for the same firing.

        Raises :class:`InvalidArgumentError` for a function that does not accept three arguments, an unsupported
        annotation, and a column of ``schema`` that the result has already; and what :meth:`collect` raises.

        >>> def spread(key, pane, rows: pandas.DataFrame):
        ...     return {"spread": rows["value"].max() - rows["value"].min()}
        >>> windowed(events, Session("10 minutes"), by="host", time="ts").apply(
        ...     spread, "spread double"
        ... )  # doctest: +SKIP
        DataFrame[host: string, window: struct<...>, pane: struct<firing:string,seq:int>, spread: double]
        """
        self._require_not_declared("apply")
        return applied(self._rows(order, max_rows, "apply(...)"), ROWS, function, schema)

    @explained("windowed(...).process(Spikes())")
    def process(self, processor: PaneProcessor) -> DataFrame:
        """Calls the methods of a processor with the rows of each pane as they arrive, and returns the rows they emit.

        The result has the keys, ``window``, ``pane``, then the columns of the processor's ``returns``, and with
        ``late="emit"`` the column ``late_row``. ``pane.firing`` is ``"close"`` in the rows of the batch in which the
        pane closes, and ``"early"`` before.

        - ``processor``: a :class:`PaneProcessor`, for logic that is not an aggregate, with state for each pane.

        In each batch, ``on_batch`` gets the new rows of each pane, or ``on_row`` each of them, in order of arrival; if
        the pane closes in this batch, ``on_close`` follows. State lasts from a pane's first row to its close, and is
        stored with the batch: a batch that is tried again starts from the state before it. When sessions become one,
        ``merge`` joins their states. With ``on_time=True``, ``on_time`` is called when the clock passes a pane's end.

        :class:`Count`, :class:`Global` and ``clock=PerKey()`` process rows one by one: several panes of a key may close
        in one batch, and ``on_batch`` gets the consecutive rows of a pane, perhaps in several calls. A pane of
        :class:`Around` and of ``Global.split``, and each pane of a batch DataFrame, gets all its rows when it closes.

        Timestamps in rows are in UTC. Workers, results and errors are as in :meth:`apply`.

        Raises :class:`InvalidArgumentError` for a processor that lacks a method, or whose state cannot be kept, and
        :class:`UnsupportedError` with ``early=``, ``dedupe_by=`` and ``upgrade=``, for sessions with
        ``at_end="close"``, and for :class:`Around` with ``on_time=True``.

        >>> windowed(events, Session("10 minutes"), by="host", time="ts").process(Spikes())  # doctest: +SKIP
        DataFrame[host: string, window: struct<...>, pane: struct<...>, value: double, score: double]
        """
        self._require_not_declared("process")
        options, call = self._options, "process(...)"
        is_session = isinstance(self._window, Session)
        require_processor(processor, merges=is_session)
        delivery = delivery_of(self._window, options, streams=self._df.isStreaming)
        require_deliverable(self._window, options)
        if delivery == "close":
            # On a batch DataFrame no pane fires on time.
            closes_only = dataclasses.replace(options, on_time=False, accumulate=True)
            closing = Windowed(self._df, self._window, self._by, closes_only)
            panes = closing._rows("arrival", _ANY_NUMBER, call)
            return processed(panes, processor, delivery, ids=options.ids, shown_ids=options.ids)
        ids = options.ids or is_session
        fired = firing_with_rows(options, delivery, ids=ids)
        panes = self._each_row(fired, call) if delivery == "row" else self._lists("arrival", fired, call)
        return processed(panes, processor, delivery, ids=ids, shown_ids=options.ids)

    def _rows(self, order: Order, max_rows: int, call: str) -> DataFrame:
        """The panes with their rows as a list, in the column ``ROWS``."""
        if isinstance(self._window, (Around, Custom)):
            return self._lists(order, self._options, call)
        return self._collected(order, ROWS, max_rows, call)

    def _lists(self, order: Order, options: Options, call: str) -> DataFrame:
        """The same as an aggregate, which works where ``collect`` does not."""
        require_one_of("order", order, ORDER)
        rows = dispatch.with_arrival(self._df, lists.BATCH, lists.ROW)
        place = [F.col(lists.BATCH), F.col(lists.ROW)]
        if order == "time" and options.time is not None:
            time = F.col(options.time) if isinstance(options.time, str) else options.time
            place.insert(0, time.alias(_TIME))
        record = F.struct(*(F.col(quoted(name)) for name in self._df.columns))
        panes = self._panes(rows, [lists.list_of(record, place, ROWS)], options, call)
        if options.late == "emit":
            late = F.col(LATE_ROW).dropFields(lists.BATCH, lists.ROW)
            panes = panes.withColumn(LATE_ROW, late)
        return lists.sorted_lists(panes, ROWS)

    def _each_row(self, options: Options, call: str) -> DataFrame:
        """Firings with one row each, as a list in the column ``ROWS``, and closes without rows."""
        return once_each(self._panes(self._df, [last_row(self._df)], options, call))

    def _panes(self, rows: DataFrame, aggregates: Sequence[Column], options: Options, call: str) -> DataFrame:
        """The panes of ``rows`` with other options than those of the request."""
        try:
            panes = dispatch.windowed(rows, self._window, self._by, options, aggregates=aggregates)
        except AnalysisException as theirs:
            raise refusal(theirs, self._df, call) from None
        _warn_of_dropped_rows(self._df, calls=6)
        return panes

    def _require_not_declared(self, call: str) -> None:
        if dispatch.is_declared(self._df.sparkSession):
            raise UnsupportedError(
                f"windowed(...).{call}(...) is not supported in a query function of a declarative pipeline: Spark "
                "analyses nothing there, and the types of the keys are needed. Use .agg(...), or start a query outside "
                "of the pipeline."
            )

    # Type checkers must report a misspelt method, and a subscript.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            # Python itself looks these up, to copy or show an object.
            if name.startswith("_"):
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
            raise NotAggregatedError(_not_yet(name, self._df.isStreaming))

        def __getitem__(self, key: object) -> NoReturn:
            raise NotAggregatedError(
                f"windowed(...)[{key!r}] is asked of what has no columns yet: say what a pane holds first, as in "
                "windowed(...).agg(F.count('*').alias('n'))."
            )

    def _repr_html_(self) -> str:
        options = [option.split("=", 1) for option in self._options.written()]
        keys = [["by", ", ".join(str(key) for key in self._by)]] if self._by else []
        return html.table(
            [["input", self._df], ["window", self._window], *keys, *options],
            title="Windowed rows",
            notes=["The panes have no contents yet: call .agg(...), .collect(...), .apply(...) or .process(...)."],
        )

    def __repr__(self) -> str:
        parts = [repr(self._df), repr(self._window)]
        if self._by:
            parts.append(f"by={list(self._by)!r}")
        parts += self._options.written()
        return f"windowed({', '.join(parts)})"


def _warn_of_dropped_rows(df: DataFrame, calls: int = 3) -> None:
    """Reports the call of ``agg`` or ``collect``; the log repeats it when the query starts.

    ``calls`` is the number of calls from here to that one.
    """
    if dispatch.is_declared(df.sparkSession):
        return
    for text in dispatch.dropped_before(df):
        warnings.warn(text, DroppedRowsWarning, stacklevel=calls)


def _require_window(window: object) -> None:
    if isinstance(window, (Tumbling, Sliding, Cumulate, Session, Around, Custom, Count, Global)):
        return
    meant = f"Tumbling({window!r})" if isinstance(window, str) else "Tumbling('1 hour')"
    raise InvalidArgumentError(
        f"window={window!r} ({type(window).__name__}) is not a window of Mullion. Write {meant}, "
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


def _not_yet(name: str, is_streaming: bool) -> str:
    """The correct code for a name that is used on the result of windowed(...) as if it were a DataFrame."""
    example = "windowed(...).agg(F.count('*').alias('n'))"
    if name in ("groupBy", "groupby", "groupingSets", "cube", "rollup", "partitionBy"):
        return (
            f"windowed(...) has no {name!r}: the keys of its panes are given with by=, as in windowed(df, window, "
            "by=['origin', 'carrier'], time='ts').agg(F.count('*').alias('n'))."
        )
    if name in ("count", "sum", "avg", "mean", "min", "max"):
        aggregate = "F.count('*').alias('n')" if name == "count" else f"F.{name}('value').alias('{name}')"
        return f"windowed(...) has no {name!r}: aggregates are columns of agg(). Write windowed(...).agg({aggregate})."
    if not hasattr(DataFrame, name):
        return (
            f"windowed(...) has no {name!r}.{did_you_mean(name, ['agg', 'collect'])} It has agg(), which sets "
            f"the contents of a pane, as in {example}, and collect(), for the rows themselves."
        )
    then = f"{example}.{name}"
    if is_streaming and name in ("show", "toPandas", "toArrow", "toLocalIterator", "take", "first", "head", "write"):
        then = f"{example}.writeStream.format('console').start()"
    return f"windowed(...) has no {name!r} until agg() sets the contents of a pane. Write, for instance, {then}."


def _not_an_aggregate(aggregate: Any) -> str:
    if isinstance(aggregate, (list, tuple)):
        return f"agg({aggregate!r}) was given a {type(aggregate).__name__}. Pass its items: agg(*aggregates)."
    if isinstance(aggregate, dict):
        return f"agg({aggregate!r}) was given a dict. Pass Columns: agg(F.avg('delay').alias('mean_delay'))."
    return (
        f"agg({aggregate!r}) was given a {type(aggregate).__name__}, which is not a Column. Pass aggregates, such as "
        "F.avg('delay').alias('mean_delay')."
    )
