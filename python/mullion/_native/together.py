"""Several windows over one stream, in one query and, if possible, in one operator."""

from __future__ import annotations

from pyspark.sql import DataFrame

from mullion._bridge import dispatch
from mullion._native.windowed_rows import Windowed
from mullion._util.signatures import explained
from mullion.errors import InvalidArgumentError


@explained("together(hourly=windowed(...).agg(...))")
def together(**windows: DataFrame) -> DataFrame:
    """Combines the results of several windows in one DataFrame. Each row has the name of its window.

    - ``windows``: the results of ``windowed(...).agg(...)`` or ``.collect(...)``, under their names.

    The columns are ``window_name``; the keys of all windows, null if a window does not have the key; ``window`` and
    ``pane``; the aggregates of all windows, null in the rows of other windows; and ``late_row`` if a window has it.
    Columns with the same name are one column, and must have the same type.

    On a stream, windows over the same DataFrame (with one ``withWatermark``), on the same clock and in the same state
    store become one operator, which reads the source and shuffles its rows once. They may differ in everything else:
    kind, keys, aggregates, lateness, firings. If all have the same keys, rows are shuffled by these, otherwise by the
    window and all keys. Windows that process rows in order of arrival (``Count``, ``Global``, ``collect``,
    ``Early(each_row=True)``, ``PerKey()``), and sliding windows with ``accumulate=False``, are separate operators and
    read the source again. ``explain()`` shows the operators. On a batch DataFrame, the result has the results of all
    windows.

    State is stored under the names, so the order of the windows may change. If all windows have the same keys, windows
    may be added, renamed and removed over a checkpoint, one window may become several, and several one:
    see :func:`compare`. A removed window needs ``upgrade=Upgrade(window="drop")`` in a remaining one.
    :func:`read_panes` shows the open panes of all windows, with columns in the order of the windows' names.

    The watermark of the result is that of the slowest window. Metrics in the query's progress are sums over the
    windows: a row without time counts once for each.

    Raises :class:`InvalidArgumentError` for an argument that is not such a result; for a name with characters other
    than English letters, digits and underscores; for columns that do not fit; and if the windows differ in
    ``Watermark(idle_after=...)``, which applies to the event clock of the entire query.

    >>> together(  # doctest: +SKIP
    ...     hourly=windowed(events, Tumbling("1 hour"), by="carrier", time="ts").agg(F.count("*").alias("n")),
    ...     visits=windowed(events, Session("30 minutes"), by="flight", time="ts").agg(F.max("delay").alias("worst")),
    ... )
    DataFrame[window_name: string, carrier: string, flight: string, window: struct<...>, pane: struct<...>, n: ...]
    """
    if not windows:
        raise InvalidArgumentError(
            "together() was given no window. Name at least one, as in together(hourly=windowed(...).agg(...))."
        )
    for name, panes in windows.items():
        argument: object = panes
        if isinstance(argument, Windowed):
            raise InvalidArgumentError(
                f"{name}={argument!r} does not say what its panes hold. Add, for instance, "
                ".agg(F.count('*').alias('n'))."
            )
        if not isinstance(panes, DataFrame):
            raise InvalidArgumentError(
                f"{name}={panes!r} ({type(panes).__name__}) is not a DataFrame. Give what windowed(...).agg(...) made."
            )
    return dispatch.together(windows)
