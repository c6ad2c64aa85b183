"""The documentation's site has no dead links, and its pictures equal those that the library draws."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import pictures  # noqa: E402


def test_the_site_builds_and_no_link_is_broken(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    home = (tmp_path / "index.html").read_text("utf-8")
    assert 'src="pictures/panes.svg"' in home
    assert (tmp_path / "pictures/logo.svg").exists()
    assert 'src="pictures/logo.svg"' in home
    # In dark mode the pictures are dark.
    assert 'href="stylesheets/site.css"' in home
    assert "invert(1)" in (tmp_path / "stylesheets/site.css").read_text("utf-8")
    # The page of scenarios has the rules that link to them.
    assert (tmp_path / "files/tests/transcripts/late.yaml").exists()
    # Each public name is on the page of the API.
    api = (tmp_path / "reference/api/index.html").read_text("utf-8")
    for name in ("windowed", "Session", "open_panes", "upsert", "plot.timeline", "testing.ClockedQuery"):
        assert f'id="mullion.{name}"' in api, name
    # Names in docstrings link to their descriptions.
    assert '<a href="#mullion.errors.InvalidArgumentError"><code>InvalidArgumentError</code></a>' in api
    # Its examples are code.
    assert not re.findall(r":(?:class|func|meth):<code>|doctest: |<blockquote>", api)


def shapes(svg: str) -> list[str]:
    """The elements of a picture, without parts that differ between runs."""
    return re.findall(r'<path d="[^"]*"|<use [^>]*(?:x|y)="[^"]*"[^>]*>', re.sub(r'(?:xlink:)?href="[^"]*"', "", svg))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", pictures.PICTURES)
def test_a_picture_of_the_docs_is_what_the_library_draws(spark: SparkSession, tmp_path: Path, name: str) -> None:
    pictures.draw(spark, name, tmp_path / "drawn.svg")
    picture, in_docs = (file.read_text("utf-8") for file in (tmp_path / "drawn.svg", pictures.FOLDER / f"{name}.svg"))
    assert shapes(picture)
    assert shapes(picture) == shapes(in_docs), "draw it again: make pictures"
