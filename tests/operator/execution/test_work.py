"""Guards against regressions of speed by counts of work, without a clock."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.campaigns import work

pytestmark = pytest.mark.own_cache_size("the expected counts are those of state in memory")

EXPECTED = json.loads(work.FILE.read_text())


@pytest.mark.parametrize("query", work.QUERIES)
def test_a_fixed_stream_makes_no_more_work_than_before(spark: SparkSession, tmp_path: Path, query: str) -> None:
    counts = work.count(spark, query, tmp_path)
    assert counts == EXPECTED[query], (
        "If the work decreased, or increased on purpose, run: python tests/support/campaigns/work.py"
    )


def test_the_cost_of_a_batch_depends_on_its_rows_and_not_on_open_panes(spark: SparkSession, tmp_path: Path) -> None:
    few, many = (work.idle(spark, keys, tmp_path / str(keys)) for keys in (20, 2000))
    assert few == many
