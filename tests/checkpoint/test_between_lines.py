"""Checkpoints that move from one Spark version to another: resumed with all open panes, or rejected with both versions.

The table of ``docs/platforms/lines.md`` is the expectation. Each version runs in its own environment, with its JAR of
the wheel.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.support.campaigns import between_lines
from tests.support.campaigns.line_environments import LINES, ROOT, run_on, unpacked_wheel

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("lines")]

PAGE = (ROOT / "docs" / "platforms" / "lines.md").read_text("utf-8")
SCRIPT = str(Path(__file__).parents[1] / "support" / "campaigns" / "between_lines.py")


def table() -> dict[tuple[str, str], bool]:
    """By the Spark version that began a checkpoint and the one that opens it: True if it is read."""
    rows = re.search(r"^\| begun on .*\n\|.*\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    assert rows is not None
    is_read = {}
    for row in rows[1].splitlines():
        begun, *opened = [cell.strip() for cell in row.strip("|").split("|")]
        for line, cell in zip(LINES, opened, strict=True):
            is_read[begun.removeprefix("Spark "), line] = cell == "read"
    return is_read


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked_wheel(tmp_path_factory.mktemp("package"))


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory, package: Path) -> Callable[[str], Path]:
    """The folder of the checkpoints that a Spark version has begun. The first call creates them."""

    @cache
    def of(line: str) -> Path:
        home = tmp_path_factory.mktemp(f"begun-{line}")
        for name, of_one in run(line, package, home, "before").items():
            assert of_one.get("closed") == [], (line, name, of_one)
        return home

    return of


def run(line: str, package: Path, home: Path, *rows: str, keys: str = "own") -> dict[str, dict[str, Any]]:
    results: dict[str, dict[str, Any]] = json.loads(run_on(line, package, SCRIPT, str(home), keys, *rows))
    assert results.keys() == set(between_lines.QUERIES)
    return results


def assert_all_closed(name: str, of_one: dict[str, Any]) -> None:
    assert of_one.get("closed"), (name, of_one)
    assert of_one["closed"] == of_one["batch"], name


def content(folder: Path) -> dict[str, str]:
    return {
        str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


@pytest.mark.parametrize(
    ("old", "new"), [pytest.param(*pair, id=" to ".join(pair)) for pair in itertools.product(LINES, repeat=2)]
)
def test_a_checkpoint_is_read_on_another_line_or_rejected_with_both_named(
    tmp_path: Path, package: Path, begun: Callable[[str], Path], old: str, new: str
) -> None:
    home = begun(old)
    # Spark's logs contain the paths of input files, so checkpoints are opened in place and then restored.
    copy = tmp_path / "copy"
    shutil.copytree(home, copy)
    read = table()[old, new]
    refused = rf"begun on Spark {re.escape(old)}, and this is Spark {re.escape(new)}"
    try:
        opened = run(new, package, home, "after", "closing")
        print(json.dumps(opened))
        for name, of_one in opened.items():
            if read:
                assert_all_closed(name, of_one)
            else:
                assert re.search(refused, of_one.get("refused", "")), (name, of_one)
                for folder in ("state", "commits"):
                    assert content(home / name / "checkpoint" / folder) == content(copy / name / "checkpoint" / folder)
        if not read:
            # Spark plans a batch before the error. The version that began resumes with that batch.
            for name, of_one in run(old, package, home).items():
                assert_all_closed(name, of_one)
    finally:
        shutil.rmtree(home)
        shutil.copytree(copy, home)


def test_a_checkpoint_that_begins_with_keys_of_all_lines_goes_through_all_of_them_and_back(
    tmp_path: Path, package: Path
) -> None:
    newest, *older = LINES[::-1]
    run(newest, package, tmp_path, "before", keys="ranges")
    *there_and_back, last = [*older, *LINES[1:]]
    for line in there_and_back:
        for name, of_one in run(line, package, tmp_path, "before").items():
            assert of_one.get("closed") == [], (line, name, of_one)
    for name, of_one in run(last, package, tmp_path, "after", "closing").items():
        assert_all_closed(name, of_one)
