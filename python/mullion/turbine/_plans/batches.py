"""A batch of a query: publishing its results, and finding out if there was one."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame

from mullion.topics import Publisher
from mullion.turbine._plans.window_plan import Plan


def publish(plan: Plan, publisher: Publisher, batch: DataFrame, number: int) -> None:
    """Calls the callbacks for a batch, and publishes the batches that they return.

    The schema of a callback is unknown until it returns a batch without all-null columns. Until then the driver
    compares the schemas of a batch before it publishes anything. Afterwards the workers compare them.
    """
    publisher.publish_made(plan.gathered(batch), number, plan.make(), None if plan.steady else plan.learn)
    plan.note_begun()


def has_run(checkpoint: Path) -> bool:
    """Returns True if a query has committed a batch in a checkpoint."""
    return any((checkpoint / "commits").glob("[0-9]*"))
