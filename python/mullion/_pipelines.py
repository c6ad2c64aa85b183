"""Query functions of Spark's declarative pipelines (``pyspark.pipelines``, ``@dp.table``).

Such a function says what a table holds, before any table of the pipeline is there. Spark lets it ask the server for
nothing, not even for the columns of a DataFrame, and analyses what it gave when the pipeline runs.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, SparkSession


def is_query_function(spark: SparkSession) -> bool:
    """Whether this thread is in a query function, with a session of Spark Connect."""
    # Spark tells the server so with each request, by what it keeps of the thread.
    thread: Any = getattr(getattr(spark, "client", None), "thread_local", None)
    return any(_names_flow(extension) for _, extension in getattr(thread, "user_context_extensions", ()))


def with_later_watermarks(df: DataFrame, call: Callable[[DataFrame, str, str], DataFrame]) -> DataFrame:
    """The same rows, with calls of ours in the place of ``withWatermark``.

    Spark's server analyses what is below a ``withWatermark`` as soon as it is sent, and finds none of the pipeline's
    own tables there.
    """
    from pyspark.sql.connect.plan import LogicalPlan, WithWatermark

    frame: Any = type(df)

    def later(plan: Any) -> Any:
        below = {name: later(value) for name, value in vars(plan).items() if isinstance(value, LogicalPlan)}
        if isinstance(plan, WithWatermark):
            made: Any = call(frame(below["_child"], df.sparkSession), plan._event_time, plan._delay_threshold)
            # Columns that were taken from the DataFrame are known by its number.
            made._plan._root_plan_id = plan._root_plan_id
            return made._plan
        if all(value is getattr(plan, name) for name, value in below.items()):
            return plan
        changed = copy.copy(plan)
        vars(changed).update(below)
        return changed

    given: Any = df
    return frame(later(given._plan), df.sparkSession)  # type: ignore[no-any-return]


def _names_flow(extension: Any) -> bool:
    if not extension.type_url.endswith(".PipelineAnalysisContext"):
        return False
    from pyspark.sql.connect.proto import PipelineAnalysisContext

    context = PipelineAnalysisContext()
    return bool(extension.Unpack(context)) and context.HasField("flow_name")
