"""Runs the stories of ``tests/transcripts`` through the public API; its README says how a story reads.

``TranscriptSuite`` runs the same files in Scala.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from pyspark.sql import SparkSession

from mullion import MullionError
from tests.support.cache_sizes import set_size, sizes_of
from tests.support.checked import CHANGELOGS
from tests.support.transcripts.story import Story, stories
from tests.support.transcripts.story_run import Run, play


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    own = spark.newSession()
    own.conf.set("spark.sql.shuffle.partitions", "2")
    own.conf.set("spark.sql.session.timeZone", "UTC")
    # A file of a few rows is read by several tasks.
    own.conf.set("spark.sql.files.maxPartitionBytes", "64")
    # The Scala suite has RocksDB write changelogs.
    own.conf.set(CHANGELOGS, "false")
    return own


def some_stories() -> list[Any]:
    """Every story.

    ``make test`` runs each story once: a fixed quarter of them here, by a hash of their names, and the others in Scala.
    ``make test-all`` runs all of them in both.
    """
    cases = []
    for story in stories():
        marks = [] if crc32(story.name.encode()) % 4 == 0 else [pytest.mark.slow]
        for size in sizes_of(story.name):
            name = f"{story.name} ({size})"
            cases.append(pytest.param(story, size, id=name, marks=[pytest.mark.always, *marks]))
    return cases


@pytest.mark.own_cache_size("each story has one by its name, as in Scala")
@pytest.mark.parametrize(("story", "size"), some_stories())
def test_the_story_is_true(story: Story, size: str, session: SparkSession, tmp_path: Path) -> None:
    set_size(session, size)
    try:
        if story.refused is not None:
            with pytest.raises(MullionError, match=story.refused):
                Run(session, story, tmp_path).start()
            return
        run = Run(session, story, tmp_path)
        try:
            play(run)
        finally:
            run.query.stop()
    finally:
        shutil.rmtree(tmp_path)
