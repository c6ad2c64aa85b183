"""The command ``mullion plan-change``: the effect of a changed query on a checkpoint."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame

from mullion._native.compare import compare
from mullion._program.app import App
from mullion._program.cli.commands import Command
from mullion._program.cli.frames import frame
from mullion._program.cli.loading import named
from mullion._program.compare import REFUSED, Change
from mullion.errors import IncompatibleStateError, InvalidArgumentError


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help="the checkpointLocation of the query as it was")
    parser.add_argument(
        "panes",
        metavar="module:panes",
        help="the query as it is now: a DataFrame with a window in it, or a function that gives one, "
        "of a session or of nothing; or an App, whose checkpoint is then CHECKPOINT",
    )


def _prepare(options: argparse.Namespace) -> Callable[[], None]:
    app = named(options.panes)
    if isinstance(app, App):
        app.checkpoint = Path(options.checkpoint)
        return lambda: plan_change_of_program(app)
    panes = frame(options.panes, "plan-change")
    return lambda: plan_change(options.checkpoint, panes())


def plan_change(checkpoint: str, panes: DataFrame) -> None:
    """Prints a line for each change.

    Raises :class:`IncompatibleStateError` if one is rejected, so that the query would not start.
    """
    rows = compare(panes, checkpoint).collect()
    several = len({row.operator for row in rows}) > 1
    changes = [
        Change(f"operator {row.operator}, {row.window}" if several else row.window, row.verdict, row.what)
        for row in rows
    ]
    _print(changes, f"The query would not start over {checkpoint}")


def plan_change_of_program(app: App) -> None:
    """The same for all queries of a program, over its checkpoint."""
    if not app.checkpoint.exists():
        raise InvalidArgumentError(
            f"There is no state of {app.name!r} in {app.checkpoint}. Name the folder that it is in."
        )
    _print(app.plan_change(), f"The program would not start over {app.checkpoint}")


def _print(changes: Sequence[Change], refusal: str) -> None:
    for change in changes:
        print(f"{change.verdict:8} {change.part}: {change.what}")  # noqa: T201
    refused = sum(change.verdict == REFUSED for change in changes)
    if refused:
        raise IncompatibleStateError(f"{refusal}: {refused} of {len(changes)} are rejected.")


PLAN_CHANGE: Final = Command(
    "plan-change",
    "say what would become of a checkpoint under a changed query, and touch nothing",
    _arguments,
    _prepare,
)
