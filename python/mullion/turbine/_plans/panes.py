"""Panes with the columns that callbacks receive."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from mullion.turbine._process.callbacks import key_column, part_column
from mullion.turbine._process.stored_window import WindowSpec
from mullion.turbine._spec import END, START, Spec


def in_words(panes: DataFrame, spec: Spec | WindowSpec) -> DataFrame:
    """The operator's panes with the columns that callbacks receive."""
    return panes.select(
        *(sf.col(key_column(i)).alias(name) for i, name in enumerate(spec.key)),
        sf.unix_millis("window.start").alias(START),
        sf.unix_millis("window.end").alias(END),
        *(sf.col(part_column(i)).alias(name) for i, name in enumerate(spec.parts)),
    )
