"""The query that publishes the results of a subscription's ``process``."""

from __future__ import annotations

from typing import final

from pyspark.sql import DataFrame, SparkSession

from mullion._program.host import Host
from mullion.topics._outputs import Make
from mullion.turbine._plans.topic_rows import topic_rows
from mullion.turbine._plans.window_plan import Plan
from mullion.turbine._process.callbacks import PROCESS
from mullion.turbine._process.source import place_of
from mullion.turbine._process.subscription import Subscription
from mullion.turbine._process.worker import Returned


@final
class ProcessPlan(Plan):
    """The query that publishes the results of a subscription's ``process``."""

    def __init__(self, app: Host, subscription: Subscription, name: str) -> None:
        super().__init__(app, subscription, name, [])

    def rows(self, spark: SparkSession) -> DataFrame:
        return topic_rows(self.app, self.subscription, spark, self.name)

    def make(self) -> Make:
        return Returned(self.process())

    def callbacks(self) -> dict[str, str]:
        return of_process(self.subscription)


def of_process(subscription: Subscription) -> dict[str, str]:
    """The description of ``process``, by its name as a callback; empty if ``process`` returns nothing."""
    if not subscription.process.returns:
        return {}
    return {f"{subscription.name}.{PROCESS}": f"process of {subscription.name} ({place_of(subscription.function)})"}
