"""The query of one window."""

from __future__ import annotations

from typing import Any, final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from mullion._program.host import Host
from mullion.topics._outputs import Make
from mullion.turbine._plans.panes import in_words
from mullion.turbine._plans.topic_rows import topic_rows
from mullion.turbine._plans.window_plan import UNBEGUN, Plan
from mullion.turbine._process.callbacks import FIRING
from mullion.turbine._process.subscription import Subscription
from mullion.turbine._process.worker import Needed, RowsForWindow
from mullion.turbine._spec import Spec
from mullion.turbine.functions import column_of
from mullion.turbine.windowing import TurbineWindow
from mullion.windows import Upgrade


@final
class WindowPlan(Plan):
    """The query of one window."""

    def __init__(self, app: Host, subscription: Subscription, window: TurbineWindow, upgrade: Upgrade) -> None:
        super().__init__(app, subscription, window.name, [window])
        self.window = window
        self._upgrade = upgrade

    def rows(self, spark: SparkSession) -> DataFrame:
        """The window's firings: the key, ``firing``, ``window_start_ms``, ``window_end_ms`` and the values."""
        spec = self.window.spec
        topic = topic_rows(self.app, self.subscription, spark, self.name)
        given = self._as_they_are(topic) if self.subscription.process.python is None else self._rows_of_window(topic)
        return in_words(self.panes(self.window, given), spec, sf.col("pane.firing").alias(FIRING))

    def changing(self, spec: Spec) -> dict[str, Any]:
        return {"upgrade": self._upgrade}

    @property
    def settings(self) -> dict[str, str]:
        """Marks a window whose state's meaning may still change."""
        return {UNBEGUN: "*"} if self.unbegun else {}

    def make(self) -> Make:
        return self.pane_callbacks(self.window)

    def gathered(self, panes: DataFrame) -> DataFrame:
        tables = [] if self.window.spec.callbacks.each else [self.window.spec]
        return self.gathered_for(panes, tables, self.subscription.partition_key)

    def _as_they_are(self, topic: DataFrame) -> DataFrame:
        rows = topic.where(self.came_whole(topic, self.window))
        return rows.select(*map(column_of, self.window.spec.needs))

    def _rows_of_window(self, topic: DataFrame) -> DataFrame:
        given = self.given(topic)[self.name]
        process = self.process()
        return topic.mapInArrow(RowsForWindow(process, Needed(process, given)), given.spark_schema)
