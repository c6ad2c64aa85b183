"""Checkpoints that move from one line of Spark to another: read with all open panes, or refused with both lines named.

``docs/lines.md`` says which; its table is what is expected here. Each line runs in processes of its own environment,
with the JAR that the wheel has for it.
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

PAGE = (ROOT / "docs" / "lines.md").read_text("utf-8")
SCRIPT = str(Path(__file__).parents[1] / "support" / "campaigns" / "between_lines.py")


def table() -> dict[tuple[str, str], bool]:
    """By the line that began a checkpoint and the one that opens it: whether it is read."""
    rows = re.search(r"^\| begun on .*\n\|.*\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    assert rows is not None
    found = {}
    for row in rows[1].splitlines():
        begun, *opened = [cell.strip() for cell in row.strip("|").split("|")]
        for line, cell in zip(LINES, opened, strict=True):
            found[begun.removeprefix("Spark "), line] = cell == "read"
    return found


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked_wheel(tmp_path_factory.mktemp("package"))


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory, package: Path) -> Callable[[str], Path]:
    """The folder of the checkpoints that a line has begun, the first time that it is asked for."""

    @cache
    def of(line: str) -> Path:
        home = tmp_path_factory.mktemp(f"begun-{line}")
        for name, of_one in run(line, package, home, "before").items():
            assert of_one.get("closed") == [], (line, name, of_one)
        return home

    return of


def run(line: str, package: Path, home: Path, *rows: str, keys: str = "own") -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads(run_on(line, package, SCRIPT, str(home), keys, *rows))
    assert found.keys() == set(between_lines.QUERIES)
    return found


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
def test_a_checkpoint_is_read_on_another_line_or_refused_with_both_named(
    tmp_path: Path, package: Path, begun: Callable[[str], Path], old: str, new: str
) -> None:
    home = begun(old)
    # Spark's logs name the files of the rows, so the checkpoints are opened where they are, and then put back.
    kept = tmp_path / "kept"
    shutil.copytree(home, kept)
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
                    assert content(home / name / "checkpoint" / folder) == content(kept / name / "checkpoint" / folder)
        if not read:
            # Spark has planned a batch before it is refused; the line that began goes on with it.
            for name, of_one in run(old, package, home).items():
                assert_all_closed(name, of_one)
    finally:
        shutil.rmtree(home)
        shutil.copytree(kept, home)


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
