"""A batch of a query: what is published of it, and whether there was one."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame

from mullion.topics import Publisher
from mullion.turbine._plans.plan import Plan


def publish(plan: Plan, publisher: Publisher, batch: DataFrame, number: int) -> None:
    """Calls the callbacks for a batch, and publishes what they return.

    Until each of them has returned something, with no column all null, the types of what they return are not known, and
    a batch's are compared before any of it is published. From then on workers compare with what is known.
    """
    publisher.publish_made(plan.gathered(batch), number, plan.make(), None if plan.steady else plan.learn)
    plan.note_begun()


def has_run(checkpoint: Path) -> bool:
    """Whether a query has committed a batch in a checkpoint."""
    return any((checkpoint / "commits").glob("[0-9]*"))
