"""Query functions of Spark's declarative pipelines (``pyspark.pipelines``, ``@dp.table``).

Such a function defines a table before any table of the pipeline exists. Spark forbids requests to the server inside it,
even for the columns of a DataFrame, and analyses its result when the pipeline runs.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, SparkSession


def is_query_function(spark: SparkSession) -> bool:
    """True if this thread is in a query function, with a session of Spark Connect."""
    # Spark sends this state of the thread with each request.
    thread: Any = getattr(getattr(spark, "client", None), "thread_local", None)
    return any(_names_flow(extension) for _, extension in getattr(thread, "user_context_extensions", ()))


def with_later_watermarks(df: DataFrame, call: Callable[[DataFrame, str, str], DataFrame]) -> DataFrame:
    """The same rows, with requests of Mullion instead of ``withWatermark``.

    Spark's server analyses the input of a ``withWatermark`` immediately, before the tables of the pipeline exist.
    """
    from pyspark.sql.connect.plan import LogicalPlan, WithWatermark

    frame: Any = type(df)

    def later(plan: Any) -> Any:
        below = {name: later(value) for name, value in vars(plan).items() if isinstance(value, LogicalPlan)}
        if isinstance(plan, WithWatermark):
            watermarked: Any = call(frame(below["_child"], df.sparkSession), plan._event_time, plan._delay_threshold)
            # Columns of the DataFrame refer to it by its id.
            watermarked._plan._root_plan_id = plan._root_plan_id
            return watermarked._plan
        if all(value is getattr(plan, name) for name, value in below.items()):
            return plan
        changed = copy.copy(plan)
        vars(changed).update(below)
        return changed

    remote: Any = df
    return frame(later(remote._plan), df.sparkSession)  # type: ignore[no-any-return]


def _names_flow(extension: Any) -> bool:
    if not extension.type_url.endswith(".PipelineAnalysisContext"):
        return False
    from pyspark.sql.connect.proto import PipelineAnalysisContext

    context = PipelineAnalysisContext()
    return bool(extension.Unpack(context)) and context.HasField("flow_name")
