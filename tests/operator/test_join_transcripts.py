"""Runs the test cases of ``tests/transcripts/joins``; ``JoinTranscriptSuite`` runs the same files in Scala."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from pyspark.sql import SparkSession

from tests.support.cache_sizes import set_size, sizes_of
from tests.support.transcripts.join_story import JoinRun, JoinStory, join_stories


def cases() -> list[Any]:
    """Every test case. ``make test`` runs a fixed quarter of them here, and the others in Scala."""
    return [
        pytest.param(
            story,
            size,
            id=f"{story.name} ({size})",
            marks=[pytest.mark.always, *([] if crc32(story.name.encode()) % 4 == 0 else [pytest.mark.slow])],
        )
        for story in join_stories()
        for size in sizes_of(story.name)
    ]


@pytest.mark.own_cache_size("each test case has one by its name, as in Scala")
@pytest.mark.parametrize(("story", "size"), cases())
def test_the_join_returns_the_rows_of_the_test_case(
    story: JoinStory, size: str, spark: SparkSession, tmp_path: Path
) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", "2")
    session.conf.set("spark.sql.session.timeZone", "UTC")
    set_size(session, size)
    run = JoinRun(session, story, tmp_path)
    try:
        run.play()
    finally:
        run.query.stop()
