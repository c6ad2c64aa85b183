"""Runs the stories of ``tests/transcripts`` through the public API; its README says how a story reads.

``TranscriptSuite`` runs the same files in Scala.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from pyspark.sql import SparkSession

from checked import CHANGELOGS
from mullion import MullionError
from mullion.windows import Store
from story import Story, stories
from story_run import Run, play


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    own = spark.newSession()
    own.conf.set("spark.sql.shuffle.partitions", "2")
    own.conf.set("spark.sql.session.timeZone", "UTC")
    # A file of a few rows is read by several tasks.
    own.conf.set("spark.sql.files.maxPartitionBytes", "64")
    # The Scala suite has RocksDB write changelogs, and what is in it in memory too.
    own.conf.set(CHANGELOGS, "false")
    own.conf.set("spark.sql.streaming.stateStore.mullion.hotBytes", "0")
    return own


def on_a_store() -> list[Any]:
    """Every story, on the stores in turn. The Scala suite is one ahead.

    ``make test`` runs each story once: a fixed quarter of them here, by a hash of their names, and the others in Scala.
    ``make test-all`` runs all of them in both. ``MULLION_TEST_STORE=memory`` has all of them run on that.
    """
    cases = []
    for number, story in enumerate(stories()):
        store = os.environ.get("MULLION_TEST_STORE", story.stores[number % len(story.stores)])
        marks = [] if crc32(story.name.encode()) % 4 == 0 else [pytest.mark.slow]
        cases.append(pytest.param(story, store, id=f"{story.name} ({store})", marks=[pytest.mark.always, *marks]))
    return cases


@pytest.mark.parametrize(("story", "store"), on_a_store())
def test_the_story_is_true(story: Story, store: Store, session: SparkSession, tmp_path: Path) -> None:
    try:
        if story.refused is not None:
            with pytest.raises(MullionError, match=story.refused):
                Run(session, story, store, tmp_path).start()
            return
        run = Run(session, story, store, tmp_path)
        try:
            play(run)
        finally:
            run.query.stop()
    finally:
        shutil.rmtree(tmp_path)
