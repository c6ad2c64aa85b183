"""Joins asked for in SQL: ``mullion_asof_join`` and ``mullion_windowed_join`` give what their Python calls give."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession

from mullion import InvalidArgumentError, MullionError, Session, Tumbling, asof_join, windowed_join
from tests.sql.conftest import rows_of


def test_an_asof_join_in_sql_is_that_of_python(spark: SparkSession, rows: DataFrame) -> None:
    """A call in which all options differ from their defaults, and one in which none does."""
    options = {"by": "k", "left_time": "ts", "right_time": "ts"}
    others = {"tolerance": "40 minutes", "direction": "nearest", "allow_exact": False, "suffix": "_2"}
    for text, python in (
        ("", {}),
        ("tolerance => INTERVAL 40 MINUTES, direction => 'nearest', allow_exact => false, suffix => '_2'", others),
    ):
        arguments = ", ".join(filter(None, ["by => 'k', left_time => 'ts', right_time => 'ts'", text]))
        in_sql = spark.sql(
            f"SELECT * FROM mullion_asof_join(TABLE(rows_of_sql), TABLE(SELECT * FROM rows_of_sql), {arguments})"
        )
        assert rows_of(in_sql) == rows_of(asof_join(rows, rows, **options, **python))  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="direction => 'forward' needs tolerance =>"):
        spark.sql(
            "SELECT * FROM mullion_asof_join(TABLE(rows_of_sql), TABLE(rows_of_sql), by => 'k', left_time => 'ts', "
            "right_time => 'ts', direction => 'forward')"
        )


def test_a_windowed_join_in_sql_is_that_of_python(spark: SparkSession, rows: DataFrame) -> None:
    others = {"how": "full", "allowed_lateness": "1 minute", "late": "emit", "suffix": "_2"}
    for text, python, window in (
        ("window => 'tumbling', size => '1 hour'", {}, Tumbling("1 hour")),
        (
            "window => 'session', gap => '40 minutes', how => 'full', allowed_lateness => INTERVAL 1 MINUTE, "
            "late => 'emit', suffix => '_2'",
            others,
            Session("40 minutes"),
        ),
    ):
        in_sql = spark.sql(
            "SELECT * FROM mullion_windowed_join(TABLE(rows_of_sql), TABLE(SELECT k, ts AS at, v FROM rows_of_sql), "
            f"by => 'k', time => 'ts', right_time => 'at', {text})"
        )
        right = rows.withColumnRenamed("ts", "at")
        assert rows_of(in_sql) == rows_of(windowed_join(rows, right, window, by="k", time=("ts", "at"), **python))  # type: ignore[arg-type]

    def refused(text: str) -> str:
        with pytest.raises(MullionError) as caught:
            spark.sql(f"SELECT * FROM mullion_windowed_join(TABLE(rows_of_sql), TABLE(rows_of_sql), {text})")
        return str(caught.value)

    tumbling = "window => 'tumbling', size => '1 hour', by => 'k'"
    assert (
        "how => 'right' is not one of 'inner', 'left', 'full'. Swap the two sides, and write how => 'left'"
        in refused(f"{tumbling}, time => 'ts', how => 'right'")
    )
    assert "window => 'count' of mullion_windowed_join is none of 'tumbling'" in refused("window => 'count'")
    assert "late => 'reopen': the pairs of a window are emitted once" in refused(
        f"{tumbling}, time => 'ts', late => 'reopen'"
    )
    assert "right_time => 'at': the right side has no column" in refused(
        f"{tumbling}, time => 'ts', right_time => 'at'"
    )
    assert "ends_with of the window reads the column 'done', which the left side does not have" in refused(
        "window => 'session', gap => '1 hour', by => 'k', time => 'ts', ends_with => 'done'"
    )
