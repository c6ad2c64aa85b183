"""The command ``mullion plan-change``: what would become of a checkpoint under a query that has changed."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable
from typing import Final

from pyspark.sql import DataFrame

from mullion._changes import compare
from mullion._programs.commands import Command
from mullion._programs.loading import named
from mullion._programs.session import session_of_command
from mullion.errors import IncompatibleStateError, InvalidArgumentError


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help="the checkpointLocation of the query as it was")
    parser.add_argument(
        "panes",
        metavar="module:panes",
        help="the query as it is now: a DataFrame with a window in it, or a function that gives one, "
        "of a session or of nothing",
    )


def _prepare(options: argparse.Namespace) -> Callable[[], None]:
    what = named(options.panes)
    return lambda: plan_change(options.checkpoint, _panes(what, options.panes))


def plan_change(checkpoint: str, panes: DataFrame) -> None:
    """Prints a line for each thing that would change.

    Raises :class:`IncompatibleStateError` if something is refused, so that the query would not start.
    """
    told = compare(panes, checkpoint).collect()
    several = len({row.operator for row in told}) > 1
    for row in told:
        print(f"{row.verdict:8} {f'operator {row.operator}, ' if several else ''}{row.window}: {row.what}")  # noqa: T201
    refused = sum(row.verdict == "refused" for row in told)
    if refused:
        raise IncompatibleStateError(f"The query would not start over {checkpoint}: {refused} of {len(told)} refused.")


def _panes(what: object, where: str) -> DataFrame:
    if callable(what) and not isinstance(what, DataFrame):
        given = inspect.signature(what).parameters
        what = what(session_of_command("plan-change")) if given else what()
    if not isinstance(what, DataFrame):
        raise InvalidArgumentError(
            f"{where!r} gives {what!r} ({type(what).__name__}), not a DataFrame. Name what windowed(...).agg(...) "
            "made, or a function that gives it."
        )
    return what


PLAN_CHANGE: Final = Command(
    "plan-change",
    "say what would become of a checkpoint under a changed query, and touch nothing",
    _arguments,
    _prepare,
)
