"""The rows of the tests of SQL, as a view and a DataFrame."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession

ROWS = """
SELECT * FROM VALUES
  ('a', timestamp'2024-01-01 10:00:00', 1),
  ('a', timestamp'2024-01-01 10:30:00', 2),
  ('b', timestamp'2024-01-01 11:00:00', 5) AS t(k, ts, v)
"""


@pytest.fixture
def rows(spark: SparkSession) -> DataFrame:
    rows = spark.sql(ROWS)
    rows.createOrReplaceTempView("rows_of_sql")
    return rows


def rows_of(panes: DataFrame) -> tuple[object, list[str]]:
    return panes.dtypes, sorted(map(repr, panes.collect()))
