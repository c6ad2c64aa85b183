"""The session in which a subscription's query is built."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from pyspark.sql import SparkSession

from mullion._bridge import jvm
from mullion.turbine._process.subscription import Subscription

_ANSI: Final = "spark.sql.ansi.enabled"


@contextmanager
def session_of(
    spark: SparkSession, subscription: Subscription | None = None, more: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """The session in which a subscription's query is built. It is the active session during the ``with`` block.

    Its number of shuffle partitions is the subscription's. A number that does not fit raises an error; it is neither
    wrapped nor truncated, even if the program's session has ``spark.sql.ansi.enabled=false``.
    """
    settings = dict(more or {})
    if spark.conf.get(_ANSI) != "true":
        settings[_ANSI] = "true"
    if subscription is not None and subscription.options.parallelism is not None:
        settings["spark.sql.shuffle.partitions"] = str(subscription.options.parallelism)
    session = jvm.session_with(spark, settings) if settings else spark
    with jvm.active(session):
        yield session
