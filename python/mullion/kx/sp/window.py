"""Windows, which gather the records of a stream into one batch per window for the next operator.

A window's batch is a ``pyarrow.Table`` of its records, in order of arrival or, with ``sort=True``, of their times.
Windows of time are those of :func:`mullion.windowed`: half-open, aligned to the epoch, and closed when the clock
reaches their end plus the lateness.

::

    time      0         10         20         30
    records   a  b           c            d e
    tumbling (10 s)
              [a b]     [c]        [d e]
    sliding (10 s, 20 s)
              [a b c              ]
                        [c  d e              ]
    count(2)  [a b]     [c d]            e waits

At the end of a run, buffered records are emitted: see :func:`mullion.kx.sp.run`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from mullion._util.checks import require_bool
from mullion._util.signatures import explained
from mullion.errors import InvalidArgumentError
from mullion.kx._arguments import (
    Timedelta,
    column_name,
    duration_us,
    function_of,
    missing_name,
    params_of,
    require_count,
)
from mullion.kx._window_spec import ANY_COUNT, Window

__all__ = ["Window", "sliding", "timer", "tumbling", "count", "global_window"]  # noqa: RUF022 - in the order of KX's


_ELSEWHERE: Final = {
    "session": "mullion.windowed(df, Session('5 minutes'), ...) over a DataFrame, and sp.read.from_dataframe(panes)",
}


def __getattr__(name: str) -> Any:
    raise missing_name("sp.window", name, __all__, _ELSEWHERE)


def __dir__() -> list[str]:
    return sorted(__all__)


@explained(
    "sp.window.timer(timedelta(seconds=1))",
    {"period": "Say how often windows fire, as in timedelta(seconds=1) or (1, 's')."},
    "sp.window.timer",
)
def timer(
    period: Timedelta,
    count_trigger: int = ANY_COUNT,
    skip_empty_windows: bool = False,
    *,
    name: str | None = None,
) -> Window:
    """Aggregates the stream into windows by processing time.

    - ``period``: the interval at which windows fire: a ``timedelta``, a ``numpy.timedelta64``, or ``(number, unit)``.
    - ``count_trigger``: the number of buffered records at which a window's buffer is flushed before its end.
    - ``skip_empty_windows``: True to leave out windows without records. From the first record on there is one window
      per period.
    - ``name``: identifies its state after a restart; by default ``timer_1`` and so on.

    A record is in the window of the time at which its micro-batch began, by the clock of the App. No record is late.

    Raises :class:`mullion.errors.InvalidArgumentError` for invalid arguments.
    """
    size = duration_us(period, "period", "sp.window.timer({})")
    triggered = require_count(count_trigger, "count_trigger", "count_trigger=1000")
    require_bool("skip_empty_windows", skip_empty_windows)
    return Window("timer", size, size, count_trigger=triggered, skip_empty_windows=skip_empty_windows, name=name)


@explained(
    "sp.window.sliding(timedelta(seconds=1), timedelta(seconds=10), time_column='time')",
    {
        "period": "Say how often windows fire, as in timedelta(seconds=1).",
        "duration": "Say how long a window is, as in timedelta(seconds=10); windows without overlap are "
        "sp.window.tumbling(period, ...).",
    },
    "sp.window.sliding",
)
def sliding(
    period: Timedelta,
    duration: Timedelta,
    time_column: Any = None,
    lateness: Timedelta = (0, "s"),
    passthrough: bool = False,
    sort: bool = False,
    count_trigger: int = ANY_COUNT,
    time_assigner: str | Callable[..., Any] | None = None,
    skip_empty_windows: bool = False,
    *,
    params: Sequence[str] = ("data",),
    pandas: bool = False,
    name: str | None = None,
) -> Window:
    """Aggregates the stream into windows by event time that may overlap.

    - ``period``: the interval at which windows fire, and between the starts of windows.
    - ``duration``: the length of a window. If it is longer than ``period``, windows overlap; if it is shorter, records
      between two windows are in no window.
    - ``time_column``: the column of timestamps, as text or a symbol. The alternative is ``time_assigner``.
    - ``lateness``: the time for which a window waits for late records after its end.
    - ``passthrough``: True to pass records whose windows have all fired to the next operator, as a separate batch
      (``late`` in its metadata). Otherwise they are dropped and counted.
    - ``sort``: True to order a window's records by their times; otherwise they are in order of arrival.
    - ``count_trigger``: the number of buffered records at which a window's buffer is flushed before its end. That batch
      is ``partial`` in its metadata, and the window's last batch has the later records. Overlapping windows have
      separate buffers.
    - ``time_assigner``: a function, or the name of one, that returns a time for each record, as a list or an Arrow
      array of timestamps. It receives the batch, or the arguments that ``params`` names.
    - ``skip_empty_windows``: True to leave out windows without records. From the first record on there is one window
      per period.
    - ``params``: the parameters of ``time_assigner``, of ``"operator"``, ``"metadata"`` and ``"data"``.
    - ``pandas``: True to pass ``time_assigner`` a ``pandas.DataFrame`` in place of a ``pyarrow.Table``.
    - ``name``: identifies its state after a restart; by default ``sliding_1`` and so on.

    Raises :class:`mullion.errors.InvalidArgumentError` for invalid arguments, and unless exactly one of ``time_column``
    and ``time_assigner`` is set.
    """
    call = "sp.window.sliding({}, timedelta(seconds=60), time_column='time')"
    slide = duration_us(period, "period", call)
    size = duration_us(duration, "duration", "sp.window.sliding(timedelta(seconds=1), {}, time_column='time')")
    return _on_event_time("sliding", size, slide, locals())


@explained(
    "sp.window.tumbling(timedelta(seconds=10), time_column='time')",
    {"period": "Say how long a window is, as in timedelta(seconds=10) or (10, 's')."},
    "sp.window.tumbling",
)
def tumbling(
    period: Timedelta,
    time_column: Any = None,
    lateness: Timedelta = (0, "s"),
    passthrough: bool = False,
    sort: bool = False,
    count_trigger: int = ANY_COUNT,
    time_assigner: str | Callable[..., Any] | None = None,
    skip_empty_windows: bool = False,
    *,
    params: Sequence[str] = ("data",),
    pandas: bool = False,
    name: str | None = None,
) -> Window:
    """Aggregates the stream into windows by event time that do not overlap.

    - ``period``: the length of a window, and the interval at which windows fire.

    The other parameters are those of :func:`sliding`.

    Raises :class:`mullion.errors.InvalidArgumentError` for invalid arguments, and unless exactly one of ``time_column``
    and ``time_assigner`` is set.
    """
    size = duration_us(period, "period", "sp.window.tumbling({}, time_column='time')")
    return _on_event_time("tumbling", size, size, locals())


@explained(
    "sp.window.count(100)",
    {"size": "Say how many records a window has, as in sp.window.count(100)."},
    "sp.window.count",
)
def count(size: int, frequency: int | None = None, *, name: str | None = None) -> Window:
    """Splits the stream into windows of the same number of records.

    - ``size``: the exact number of records in a window.
    - ``frequency``: the number of records between the starts of two windows: less than ``size`` for windows that
      overlap, more for gaps, whose records are in no window. ``None`` for ``size``.
    - ``name``: identifies its state after a restart; by default ``count_1`` and so on.

    Raises :class:`mullion.errors.InvalidArgumentError` for values that are not positive integers.
    """
    records = require_count(size, "size", "sp.window.count(100)")
    every = (
        records if frequency is None else require_count(frequency, "frequency", "sp.window.count(100, frequency=10)")
    )
    return Window("count", size=records, frequency=every, name=name)


@explained(
    "sp.window.global_window(trigger)",
    {"trigger": "Give the function that splits the stream: def trigger(id, buffer, offset, metadata, data)."},
    "sp.window.global_window",
)
def global_window(
    trigger: str | Callable[..., Any],
    mixed_schemas: bool = False,
    *,
    name: str | None = None,
) -> Window:
    """Aggregates the stream by a user-defined trigger.

    The name is KX's: ``global`` is a keyword of Python.

    - ``trigger``: a function, or the name of one, that is called once for each batch with

      - the operator's id,
      - the buffered records, including those of this batch: an immutable ``pyarrow.Table``,
      - the offset at which this batch begins in the buffer,
      - the batch's metadata, a dict,
      - the batch's data, a ``pyarrow.Table``.

      It returns the indices of the buffer at which new windows start, ascending: the records before each index are a
      window, and the records after the last one stay in the buffer. If the last index is the length of the buffer, the
      buffer becomes empty; ``None`` or ``[]`` leaves all records in it. To turn an index in the batch into one in the
      buffer, add the offset.
    - ``mixed_schemas``: True if batches may have different columns. The buffer, the data and the windows are then lists
      of tables, one for each batch; the indices count the records of all tables.
    - ``name``: identifies its state after a restart; by default ``global_window_1`` and so on.

    Raises :class:`mullion.errors.InvalidArgumentError` for a trigger that cannot be called with these arguments.
    """
    example = "sp.window.global_window(lambda id, buffer, offset, metadata, data: [len(buffer)])"
    function = function_of(trigger, "trigger", example)
    _require_five(function, example)
    require_bool("mixed_schemas", mixed_schemas)
    return Window("global_window", trigger=function, mixed_schemas=mixed_schemas, name=name)


def _on_event_time(kind: str, size: int, slide: int, arguments: Mapping[str, Any]) -> Window:
    """A window by event time, from the arguments that ``sliding`` and ``tumbling`` share."""
    column, assigner, params, pandas = (
        arguments[each] for each in ("time_column", "time_assigner", "params", "pandas")
    )
    example = "time_column='time'"
    if (column is None) == (assigner is None):
        what = "both are given" if column is not None else "neither is given"
        raise InvalidArgumentError(
            f"sp.window.{kind}: time_column={column!r} and time_assigner={assigner!r} are mutually exclusive: one of "
            f"them gives the time of a record, and {what}. Write {example} for a column of timestamps, or "
            "time_assigner=function for a function that makes them of a batch."
        )
    flags = {each: arguments[each] for each in ("passthrough", "sort", "pandas", "skip_empty_windows")}
    for flag, value in flags.items():
        require_bool(flag, value)
    parameters = params_of(params, f"sp.window.{kind}")
    if assigner is None and (parameters != ("data",) or pandas):
        raise InvalidArgumentError(
            f"params={params!r} and pandas={pandas!r} say what time_assigner is called with, and sp.window.{kind} has "
            f"time_column={column!r}. Leave them out, or give time_assigner= in place of time_column."
        )
    triggered = require_count(arguments["count_trigger"], "count_trigger", "count_trigger=1000")
    assign = "time_assigner=lambda data: data['time']"
    return Window(
        kind,
        size,
        slide,
        time_column=None if column is None else column_name(column, "time_column", example),
        time_assigner=None if assigner is None else function_of(assigner, "time_assigner", assign),
        params=parameters,
        lateness_us=duration_us(arguments["lateness"], "lateness", "lateness={}", zero=True),
        count_trigger=triggered,
        name=arguments["name"],
        **flags,
    )


def _require_five(function: Callable[..., Any], example: str) -> None:
    try:
        signature = inspect.signature(function)
    except ValueError:
        # Functions written in C may have no signature.
        return
    try:
        signature.bind(*range(5))
    except TypeError:
        named = getattr(function, "__name__", repr(function))
        raise InvalidArgumentError(
            f"trigger={named}{signature} cannot be called with the five that a trigger gets: id, buffer, offset, "
            f"metadata, data. Write, for instance, {example}."
        ) from None
