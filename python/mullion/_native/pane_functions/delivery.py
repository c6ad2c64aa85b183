"""The firings that bring a processor its rows.

::

    batch    each pane fires with the rows of the batch        windows of time on the stream's clock
    row      each pane fires with each of its rows             Count, Global, windows that depend on the order of rows,
                                                               and clocks of keys
    close    each pane fires once, with all of its rows        Around, Global.split, and all panes of a batch DataFrame

Each row of a pane reaches the processor once. Only with ``close`` does the processor have no state between batches.
"""

from __future__ import annotations

import dataclasses
from typing import Literal, TypeAlias

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from mullion._bridge.options import Options
from mullion._bridge.request import quoted
from mullion._native.pane_functions.reading import ROWS
from mullion.errors import UnsupportedError
from mullion.windows import Around, Count, Early, Global, PerKey, Session, Tumbling, Upgrade, Window

Delivery: TypeAlias = Literal["batch", "row", "close"]


def delivery_of(window: Window, options: Options, *, streams: bool) -> Delivery:
    """The firings that a processor needs."""
    waits = isinstance(window, Around) or (isinstance(window, Global) and window.splitting is not None)
    if waits or not streams:
        return "close"
    if isinstance(window, (Count, Global)) or depends_on_order(window) or isinstance(options.clock, PerKey):
        return "row"
    return "batch"


def depends_on_order(window: Window) -> bool:
    """True if the bounds of windows depend on the order of rows."""
    match window:
        case Session():
            return window.max_length_us is not None or window.ends_with is not None
        case Tumbling():
            return window.starts == "first row"
        case _:
            return False


def require_deliverable(window: Window, options: Options) -> None:
    """Raises :class:`UnsupportedError` for options with which a processor cannot get each row of a pane once."""
    rejected = {
        "early=": (
            options.early is not None,
            "a pane has one schedule of early firings, which brings the processor its rows. Emit rows in on_row or "
            "on_batch, or use .apply(...), which early firings call",
        ),
        "dedupe_by=": (
            bool(options.dedupe_by),
            "a processor gets rows before their pane closes, and cannot return one: of sessions that merge, each may "
            "have had a copy. Use dropDuplicatesWithinWatermark before windowed(...), or keep ids in the state",
        ),
        "upgrade=": (
            options.upgrade != Upgrade(),
            "the panes of the previous query have no state of the processor. Start with another checkpointLocation",
        ),
        'at_end="close" for sessions': (
            isinstance(window, Session) and options.at_end == "close",
            "the rows of an open session go to the processor under the session's id, and sessions that the end of the "
            "input closes have none. Leave it out",
        ),
        "on_time=True for Around windows": (
            options.on_time and isinstance(window, Around),
            "a processor gets their rows when they close. Leave it out",
        ),
    }
    for option, (is_used, fix) in rejected.items():
        if is_used:
            raise UnsupportedError(f"windowed(...).process(...) does not support {option}: {fix}.")


def firing_with_rows(options: Options, delivery: Delivery, *, ids: bool) -> Options:
    """The options with which panes fire for a processor."""
    if delivery == "row":
        return dataclasses.replace(options, early=Early(each_row=True), ids=ids)
    return dataclasses.replace(options, early=Early(count=1), accumulate=False, ids=ids)


def last_row(df: DataFrame) -> Column:
    """The aggregate of panes that fire with each row: a list of the row."""
    return sf.array(sf.last(sf.struct(*(sf.col(quoted(name)) for name in df.columns)))).alias(ROWS)


def once_each(panes: DataFrame) -> DataFrame:
    """Panes that fire with each row, whose close does not repeat the last row. They fire ``early`` until then."""
    firing = sf.col("pane.firing")
    # A pane that late rows reopen has no firing before its close.
    is_new = (firing == "running") | (sf.col("pane.seq") == 0)
    kind = sf.when(firing == "running", sf.lit("early")).otherwise(firing)
    return panes.withColumn(ROWS, sf.when(is_new, sf.col(ROWS))).withColumn(
        "pane", sf.col("pane").withField("firing", kind)
    )
