"""The query of one window."""

from __future__ import annotations

from typing import Any, final

from pyspark.sql import DataFrame, SparkSession

from mullion._program.host import Host
from mullion.topics._outputs import Make
from mullion.turbine._plans.topic_rows import topic_rows
from mullion.turbine._plans.window_plan import UNBEGUN, Plan
from mullion.turbine._process.callbacks import key_column
from mullion.turbine._process.firings import WindowInQuery
from mullion.turbine._process.subscription import Subscription
from mullion.turbine._process.worker import Needed, RowsForWindows
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
        """The window's firings."""
        topic = topic_rows(self.app, self.subscription, spark, self.name)
        rows = self._as_they_are(topic) if self.subscription.process.python is None else self._rows_of_window(topic)
        return self.panes(self.window, rows)

    def changing(self, spec: Spec) -> dict[str, Any]:
        return {"upgrade": self._upgrade}

    @property
    def settings(self) -> dict[str, str]:
        """Marks a window whose state's meaning may still change."""
        return {UNBEGUN: "*"} if self.unbegun else {}

    def make(self) -> Make:
        return self.callbacks_of([WindowInQuery(self.pane_callbacks(self.window))])

    def gathered(self, panes: DataFrame) -> DataFrame:
        spec, name = self.window.spec, self.subscription.partition_key
        column = None if name is None else key_column(spec.key.index(name))
        return self.gathered_for(panes, [] if spec.callbacks.each else [spec], column)

    def _as_they_are(self, topic: DataFrame) -> DataFrame:
        rows = topic.where(self.came_whole(topic, self.window))
        return rows.select(*map(column_of, self.window.spec.needs))

    def _rows_of_window(self, topic: DataFrame) -> DataFrame:
        rows, process = self.input_rows(topic)[self.name], self.process()
        return topic.mapInArrow(RowsForWindows(process, (Needed(process, rows),), rows.schema), rows.spark_schema)
