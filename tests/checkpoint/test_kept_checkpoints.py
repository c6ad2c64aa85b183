"""Checkpoints of earlier versions of Mullion: queries resume them, and fire the panes of a batch query."""

from __future__ import annotations

import lzma
import re
import tarfile
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mullion import __version__
from tests.support.campaigns.kept_checkpoints import (
    AFTER,
    BEFORE,
    BY_ARRIVAL,
    CLOSING,
    COLUMNS,
    FORMAT,
    FORMATS,
    HOME,
    QUERIES,
    SETTINGS,
    as_json,
    run,
)
from tests.support.checked import settings
from tests.support.streams import Feed

KEPT = sorted(str(path.relative_to(HOME)).removesuffix(".tar.xz") for path in HOME.glob("*/*.tar.xz"))


def test_each_query_and_format_of_this_version_is_kept() -> None:
    version = __version__.removesuffix(".dev0")
    wanted = {f"{version}/{name}-{of}" for name in QUERIES for of in FORMATS}
    assert wanted <= set(KEPT)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("path", KEPT)
def test_a_query_resumes_the_checkpoint_of_a_version(spark: SparkSession, tmp_path: Path, path: str) -> None:
    name, checkpoint_format = path.partition("/")[2].split("-")
    with lzma.open(HOME / f"{path}.tar.xz") as packed, tarfile.open(fileobj=packed) as tar:
        tar.extractall(tmp_path / "checkpoint", filter="data")
    query = QUERIES[name]
    feed = Feed(tmp_path / "in", COLUMNS)
    for rows in (BEFORE, AFTER, CLOSING):
        feed.write(rows)
    # Spark reads the files of the last batch again, and they are in this folder.
    for noted in (tmp_path / "checkpoint" / "sources" / "0").glob("[0-9]*"):
        noted.write_text(re.sub(r'"path":"[^"]*/in/', f'"path":"file://{tmp_path}/in/', noted.read_text()))
    with settings(spark, {**SETTINGS, FORMAT: checkpoint_format}):
        stream = feed.stream(spark, delay="30 seconds")
        closed = run(query(stream), tmp_path / "checkpoint")
        wanted = run(query(stream), tmp_path / "new") if name in BY_ARRIVAL else as_json(query(feed.batch(spark)))
    assert closed
    assert sorted(closed) == sorted(wanted)
