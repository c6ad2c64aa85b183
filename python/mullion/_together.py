"""Several windows over one stream, in one query and, as far as it can be, in one operator."""

from __future__ import annotations

import re
from typing import Final

from pyspark.sql import DataFrame

from mullion import _jvm
from mullion._calls import explained
from mullion._windowed import Windowed
from mullion.errors import InvalidArgumentError

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*", re.ASCII)


@explained("together(hourly=windowed(...).agg(...))")
def together(**windows: DataFrame) -> DataFrame:
    """Several windows in one DataFrame: each row has the name of its window, and then what that window gives.

    - ``windows``: the results of ``windowed(...).agg(...)`` or ``.collect(...)``, by the names that they are to have.

    The columns are ``window_name``; the keys of all windows, null where a window has not that key; ``window`` and
    ``pane``; the aggregates of all, null in the rows of other windows; and ``late_row`` if one has it. Columns of one
    name are one column, and must be of one type.

    Windows of a stream share its rows: windows over the same DataFrame (of one ``withWatermark``), on the same clock
    and in the same state store become one operator, which reads the source and shuffles its rows once. They may differ
    in all else: in kind, keys, aggregates, lateness, firings. Where their keys agree a row is shuffled by them, else by
    its window and all keys. Windows that take rows in order of arrival (``Count``, ``Global``, ``collect``,
    ``running``, ``watermark="per key"``), and sliding ones with ``accumulate=False``, are operators of their own, which
    read the source again. ``explain()`` shows which is which.

    State is kept under the names: in another order the same windows go on where they were. With another window, or
    without one, or with one that has changed, a checkpoint is refused. :func:`read_panes` shows the open panes of all,
    with columns in order of the windows' names.

    The watermark of the result is that of the slowest window. Metrics in the query's progress are sums over the
    windows: a row without time counts once for each. Of a batch DataFrame it gives what each window gives.

    Raises :class:`InvalidArgumentError` for what is no such result, for a name that is no word of English letters,
    digits and underscores, for columns that do not fit, and where ``idle_after`` differs, which moves the event clock
    of the whole query; :class:`UnsupportedError` under Spark Connect.

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
        _jvm.require_classic(panes, f"{name}=")
        given: object = panes
        if isinstance(given, Windowed):
            raise InvalidArgumentError(
                f"{name}={given!r} does not say what its panes hold. Add, for instance, .agg(F.count('*').alias('n'))."
            )
        if not isinstance(panes, DataFrame):
            raise InvalidArgumentError(
                f"{name}={panes!r} ({type(panes).__name__}) is not a DataFrame. Give what windowed(...).agg(...) made."
            )
        if not _NAME.fullmatch(name):
            raise InvalidArgumentError(
                f"{name!r} is no name for a window: state is kept under it. Use letters of English, digits and "
                "underscores, with a letter first."
            )
    return _jvm.together(windows)
