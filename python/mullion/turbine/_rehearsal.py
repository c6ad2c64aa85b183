"""What ``process`` will give its windows, found by calling it once without rows before the query starts."""

from __future__ import annotations

import pickle

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

from mullion.errors import UnknownColumnError
from mullion.turbine._callbacks import told
from mullion.turbine._subscription import Subscription
from mullion.turbine._topic_rows import own_columns
from mullion.turbine._worker import ROW
from mullion.turbine.functions import column_of
from mullion.turbine.state import TurbineState
from mullion.turbine.windowing import BUILDING, UPDATING, TurbineWindow


class _Rehearsed:
    """Where windows go that a call of ``process`` with no rows makes."""

    def __init__(self, partition_key: str | None) -> None:
        self.partition_key = partition_key

    def add(self, window: TurbineWindow) -> None:
        """Takes it in, and does nothing with it."""


def rows_given(subscription: Subscription, topic: DataFrame) -> dict[str, pa.Schema]:
    """The columns that each window needs, in the types in which ``process`` gives them to it.

    Found by one call of ``process`` with a batch of the topic's columns and no rows, on a copy of the subscription. A
    ``process`` that gives such a batch to no window, or that fails, is taken to give the topic's own columns.
    """
    whole = to_arrow_schema(topic.select(*map(column_of, own_columns(topic))).schema, timezone="UTC")
    given: dict[str, pa.Schema] = {}
    failed = ""
    token = UPDATING.set(lambda updated, batch: given.setdefault(updated.name, batch.schema) and None)
    copy = pickle.loads(cloudpickle.dumps(subscription.instance))  # type: ignore[no-untyped-call]  # noqa: S301
    making = BUILDING.set((copy, _Rehearsed(subscription.partition_key)) if subscription.makes_windows else None)
    try:
        copy.process(pa.RecordBatch.from_pylist([], schema=whole), TurbineState())
    except Exception as error:
        failed = f" A call with no rows failed with {told(error, subscription.function)}."
    finally:
        BUILDING.reset(making)
        UPDATING.reset(token)
    needed = {
        name: pa.schema([_needed_field(subscription, name, each, given, whole, failed) for each in window.spec.needs])
        for name, window in subscription.windows.items()
    }
    # Rows without columns would be none.
    return {name: schema if schema.names else ROW for name, schema in needed.items()}


def _needed_field(
    subscription: Subscription, window: str, needed: str, given: dict[str, pa.Schema], whole: pa.Schema, failed: str
) -> pa.Field:
    for schema in (given.get(window, pa.schema([])), whole):
        if needed in schema.names:
            return schema.field(needed).with_nullable(True).remove_metadata()
    raise UnknownColumnError(
        f"The window {window!r} needs the column {needed!r}, whose type is not known: the topic "
        f"{subscription.options.topic!r} has none, and process, called with a batch of no rows, gave the window "
        f"none.{failed} Have process treat a batch of no rows like any other, or name the column with schema= of "
        "@app.subscribe."
    )
