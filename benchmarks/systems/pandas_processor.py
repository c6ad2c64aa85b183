"""Tumbling panes with ``transformWithStateInPandas``: a map of open panes, and a timer for each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

if TYPE_CHECKING:
    from harness.workloads import Workload

PANE = "n bigint, total bigint, least bigint, most bigint"
OUT = f"k bigint, start_ms bigint, end_ms bigint, {PANE}"


class Panes(StatefulProcessor):
    def __init__(self, size_ms: int) -> None:
        self.size_ms = size_ms

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.open = handle.getMapState("open", "start_ms bigint", PANE)

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        frame = pd.concat(rows)
        starts = frame["ts"].astype("int64") // (self.size_ms * 1_000_000) * self.size_ms
        aggregates = frame["v"].groupby(starts).agg(["size", "sum", "min", "max"])
        for start, n, total, least, most in aggregates.itertuples():
            old = self.open.getValue((start,)) if self.open.containsKey((start,)) else None
            if old:
                n, total, least, most = n + old[0], total + old[1], min(least, old[2]), max(most, old[3])
            else:
                self.handle.registerTimer(start + self.size_ms)
            self.open.updateValue((start,), (n, total, least, most))
        yield pd.DataFrame()

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:
        end = expiredTimerInfo.getExpiryTimeInMs()
        start = end - self.size_ms
        pane = self.open.getValue((start,)) or ()
        self.open.removeKey((start,))
        names = [column.split()[0] for column in OUT.split(", ")]
        yield pd.DataFrame([(*key, start, end, *pane)], columns=names)

    def close(self) -> None:
        pass


def pandas_panes(rows: DataFrame, workload: Workload) -> DataFrame:
    by_key = rows.withWatermark("ts", f"{workload.delay} seconds").groupBy("k")
    return by_key.transformWithStateInPandas(Panes(workload.size * 1000), OUT, "Append", "EventTime")
