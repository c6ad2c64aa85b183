"""The command ``mullion savepoint``: a copy of a checkpoint."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Final

from mullion._native.savepoint import savepoint
from mullion._program.cli.commands import Command
from mullion._program.cli.frames import frame
from mullion._program.savepoint import is_program, savepoint_of_program
from mullion._program.session import session_of_command
from mullion.errors import UnsupportedError


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "checkpoint",
        metavar="CHECKPOINT",
        help="the checkpointLocation of a query, which may be running; or the folder of a program that has stopped: "
        "the checkpoint of its App, or the state of a dataflow",
    )
    parser.add_argument("to", metavar="TO", help="a folder that is not there yet")
    parser.add_argument("--partitions", type=int, help="how many partitions state is to have")
    parser.add_argument(
        "--panes",
        metavar="module:panes",
        help="the query: a DataFrame with a window in it, or a function that gives one, of a session or of nothing; "
        "needed with --spark-query, and where aggregates have no text in SQL",
    )
    parser.add_argument(
        "--spark-query",
        metavar="module:query",
        help="where the checkpoint is of Spark's own window() or session_window(): the DataFrame whose query wrote it",
    )
    parser.add_argument("--format", type=int, choices=(1, 2), help="the checkpoint format of the savepoint")


def _prepare(options: argparse.Namespace) -> Callable[[], None]:
    panes, spark_query = (
        None if where is None else frame(where, "savepoint", description)
        for where, description in (
            (options.panes, "windowed(...).agg(...)"),
            (options.spark_query, "groupBy(window(...)).agg(...)"),
        )
    )

    def run() -> None:
        folder = Path(options.checkpoint)
        if is_program(folder):
            _of_program(folder, options)
            return
        batch = savepoint(
            options.checkpoint,
            options.to,
            partitions=options.partitions,
            checkpoint_format=options.format,
            panes=panes and panes(),
            spark_query=spark_query and spark_query(),
            spark=session_of_command("savepoint"),
        )
        print(f"{options.to} continues after batch {batch} of {options.checkpoint}.")  # noqa: T201

    return run


def _of_program(folder: Path, options: argparse.Namespace) -> None:
    for option, value in (("--panes", options.panes), ("--spark-query", options.spark_query)):
        if value is not None:
            raise UnsupportedError(
                f"{option} with {folder}, which belongs to a program that defines its queries. Leave it out."
            )
    done = savepoint_of_program(
        session_of_command("savepoint"),
        folder,
        Path(options.to),
        partitions=options.partitions,
        checkpoint_format=options.format,
    )
    for place, batch in done.items():
        print(f"{options.to}/{place} continues after batch {batch} of {folder}/{place}.")  # noqa: T201


SAVEPOINT: Final = Command("savepoint", "write a checkpoint anew, with other partitions", _arguments, _prepare)
