"""The commands of ``mullion faust``, which are called as those of Faust's own command are."""

import argparse
from typing import Final

from mullion._programs.commands import DRAINED, Command, explain, on_app, run, windows

_APP: Final = ("-A", "--app")


def _loglevel(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-l", "--loglevel", help="as Faust's own command takes it; Spark's own settings say what is logged"
    )


COMMANDS: Final[tuple[Command, ...]] = (
    on_app(
        "faust",
        "worker",
        "run it until it is stopped, by SIGINT or SIGTERM",
        run,
        *_APP,
        until=DRAINED,
        more=_loglevel,
    ),
    on_app("faust", "explain", "show which agents run in the JVM and which in Python, and why", explain, *_APP),
    on_app("faust", "tables", "list its tables and agents, and which have state", windows, *_APP),
)
