"""The identity of a batch: its number and a hash of Spark's plan for it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from pyspark.sql import SparkSession

from mullion._bridge import jvm
from mullion.errors import MullionError

MOST_PLANS = 100
"""The number of recorded batches, equal to the number in Spark's checkpoint."""


def plan_of(spark: SparkSession, query: str, batch: int) -> str:
    """A hash of the plan of a batch of a running query; empty if the plan is unknown."""
    plan = jvm.plan_of_batch(spark, query, batch)
    return hashlib.sha256(plan.encode()).hexdigest()[:16] if plan else ""


def require_same(plans: Mapping[int, str], last: int, batch: int, plan: str, query: str, way_out: str) -> None:
    """Raises an error for a batch that differs from the published one with its number.

    ``plans`` are those of the batches up to ``last`` that published rows.
    """
    if not plan or not plans or plans.get(batch) == plan:
        return
    raise MullionError(
        f"Batch {batch} of the query {query} is not the one that was published under that number: batches up to "
        f"{last} are in the topics, and the rows of this one would be discarded. Its checkpoint is an older copy, or "
        "one that another program uses. Continue with the newest checkpoint, or give a separate program a new "
        f"one.{way_out}"
    )
