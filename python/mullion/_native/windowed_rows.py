"""The result of ``windowed(...)``: rows with windows, whose panes have no contents yet."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn, get_args

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from mullion._bridge import dispatch
from mullion._bridge.columns import ColumnOrName, refusal
from mullion._bridge.options import Options
from mullion._bridge.request import quoted
from mullion._native.aggregates import PythonAggregate
from mullion._native.dropped_rows import warn_of_dropped_rows
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
from mullion._util import html
from mullion._util.checks import did_you_mean, require_one_of
from mullion._util.signatures import explained
from mullion.errors import InvalidArgumentError, NotAggregatedError, UnsupportedError
from mullion.windows import (
    Around,
    Count,
    Custom,
    Global,
    Order,
    Session,
    Window,
)

ORDER: Final[tuple[str, ...]] = get_args(Order)
_ANY_NUMBER: Final = 2**62
_TIME: Final = "_mullion_time"


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
                f"time={self._options.time!r} has no effect: {self._window!r} counts rows in order of arrival. "
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
        except AnalysisException as cause:
            raise refusal(cause, self._df, "agg(...)") from None
        warn_of_dropped_rows(self._df, calls=3)
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

    def _collected(self, order: Order, name: str, max_rows: int, call: str, *, in_parts: bool = False) -> DataFrame:
        require_one_of("order", order, ORDER)
        if isinstance(max_rows, bool) or not isinstance(max_rows, int):
            raise InvalidArgumentError(
                f"max_rows={max_rows!r} ({type(max_rows).__name__}) is not a whole number. Write, for instance, "
                "max_rows=1_000_000."
            )
        collect = (order == "time", name, max_rows, in_parts)
        try:
            panes = dispatch.windowed(self._df, self._window, self._by, self._options, aggregates=(), collect=collect)
        except AnalysisException as cause:
            raise refusal(cause, self._df, call) from None
        warn_of_dropped_rows(self._df, calls=5)
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
        - ``order``, ``max_rows``: as in :meth:`collect`. The JVM reads a pane's rows in parts of 10,000: from state, or
          from disk on a batch DataFrame. With :class:`Around`, :class:`Custom` and ``Global.split`` it holds all of
          them. A worker holds all rows of a pane unless the form is an iterator.

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
        return applied(self._rows(order, max_rows, "apply(...)"), ROWS, function, schema, max_rows)

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
        """The panes with their rows in the column ``ROWS``: a list, or parts of one where state has them in pieces."""
        if isinstance(self._window, (Around, Custom)):
            return self._lists(order, self._options, call)
        return self._collected(order, ROWS, max_rows, call, in_parts=True)

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
        except AnalysisException as cause:
            raise refusal(cause, self._df, call) from None
        warn_of_dropped_rows(self._df, calls=6)
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
