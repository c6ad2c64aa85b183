"""What ``recover`` refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from mullion import InvalidArgumentError, Tumbling, recover, windowed
from mullion.testing import ClockedQuery
from streams import SECOND, Feed


def test_what_cannot_be_recovered_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="it has no folder 'state'"):
        recover(tmp_path, spark=spark)
    with pytest.raises(InvalidArgumentError, match=r"checkpoint=7 \(int\) is not a path"):
        recover(7, spark=spark)  # type: ignore[arg-type]
    feed = Feed(tmp_path / "in", "k string")
    panes = windowed(feed.stream(spark), Tumbling("10 seconds"), by="k", time="ts").agg(F.count("*").alias("n"))
    with ClockedQuery(panes, checkpoint=tmp_path / "checkpoint") as query:
        feed.write([(SECOND, "a")])
        query.settle()
        with pytest.raises(InvalidArgumentError, match=r"runs on .* Stop it first"):
            recover(tmp_path / "checkpoint", spark=spark)
    with pytest.raises(InvalidArgumentError, match="is in RocksDB: start the query again"):
        recover(tmp_path / "checkpoint", spark=spark)
