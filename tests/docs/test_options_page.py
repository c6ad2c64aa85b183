"""docs/reference/options.md has every parameter and every kind of window, with the answers of Mullion's checks."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import get_args

import pytest
from pyspark.sql import SparkSession

from mullion import windowed
from mullion.windows import Window

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

import options

ANOTHER_ROLE = {"df", "window", "by"}


def test_every_window_and_every_option_is_in_the_matrix() -> None:
    assert {type(window) for window in options.WINDOWS.values()} == {*get_args(Window)}
    tried = {name for arguments, _ in options.OPTIONS.values() for name in arguments}
    assert tried == inspect.signature(windowed).parameters.keys() - ANOTHER_ROLE, "add a row to scripts/options.py"


@pytest.mark.always
def test_the_tables_are_the_answers_of_the_checks(spark: SparkSession) -> None:
    page = options.PAGE.read_text("utf-8")
    assert options.filled_in(page, spark) == page, "run python scripts/options.py"


def test_a_summary_is_the_first_sentence_without_roles() -> None:
    assert options.summary("the treatment, e.g. of :class:`Upgrade`. By default ``none``.") == (
        "The treatment, e.g. of `Upgrade`"
    )
