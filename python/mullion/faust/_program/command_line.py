"""The command line of a program that runs as a script: ``python site.py worker -l info``."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from mullion.errors import MullionError
from mullion.faust._program.commands import Command

FAILED, REFUSED = 1, 2
_WORKER = ("-l", "--loglevel"), ("-f", "--logfile"), ("-p", "--web-port"), ("-h", "--web-host"), ("-b", "--web-bind")
_ALONE = "--without-web", "--quiet", "--debug", "--no-color"


class Runnable(Protocol):
    """The App that the command line runs."""

    name: str
    commands: dict[str, Command]

    def discover(self) -> None:
        """Imports the modules that define agents."""

    def run(self) -> None:
        """Runs the agents."""

    def call(self, function: Callable[[], Any]) -> None:
        """Calls a function of the program."""


def run_command(app: Runnable, arguments: Sequence[str]) -> int:
    """Runs ``worker`` (the default) or a command of the program; returns the exit status."""
    name, *rest = arguments or ["worker"]
    app.discover()
    logging.basicConfig(format="%(levelname)s %(message)s", level=logging.INFO, stream=sys.stderr)
    try:
        if name == "worker":
            _worker_options(rest)
            app.run()
        elif name in app.commands:
            app.call(app.commands[name].calling(app, rest))
        else:
            print(f"{app.name}: there is no command {name!r}. There are: {_command_names(app)}.", file=sys.stderr)  # noqa: T201
            return REFUSED
    except MullionError as failed:
        print(f"{app.name}: {failed}", file=sys.stderr)  # noqa: T201
        return FAILED
    return 0


def _command_names(app: Runnable) -> str:
    return ", ".join(["worker", *sorted(app.commands)])


def _worker_options(arguments: Sequence[str]) -> None:
    """Accepts and ignores the options of Faust's worker."""
    parser = argparse.ArgumentParser(prog="worker", add_help=False)
    for names in _WORKER:
        parser.add_argument(*names)
    for name in _ALONE:
        parser.add_argument(name, action="store_true")
    parser.parse_args(list(arguments))
