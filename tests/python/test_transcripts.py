"""Runs the stories of ``tests/transcripts`` through the public API; its README says how a story reads.

``TranscriptSuite`` runs the same files in Scala.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from checked import CHANGELOGS
from mullion import MullionError
from mullion.windows import Store
from sampled import SAMPLE, sample
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
    """Every story, on the stores in turn.

    The Scala suite is one ahead. It runs every third story each time, here some of the rest are run, and by ``make
    test-all`` all of them in both, each on another store. ``MULLION_TEST_STORE=memory`` has all of them run on that.
    """
    told = stories()
    rest = [number for number in range(len(told)) if (SAMPLE + number) % 3]
    chosen = {rest[place] for place in sample(len(rest), 18)}
    stores = [
        os.environ.get("MULLION_TEST_STORE", story.stores[number % len(story.stores)])
        for number, story in enumerate(told)
    ]
    return [
        pytest.param(story, store, id=f"{story.name} ({store})", marks=() if number in chosen else pytest.mark.slow)
        for number, (story, store) in enumerate(zip(told, stores, strict=True))
    ]


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
