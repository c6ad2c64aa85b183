"""The command ``mullion``: ``mullion API COMMAND module:app``.

::

    mullion turbine run module:app        run it until it is stopped
    mullion turbine explain module:app    which parts run in the JVM and which in Python, and why
    mullion turbine windows module:app    its windows, and their open panes

    mullion faust worker -A module:app    as Faust's own command; and explain, and tables
    mullion kx run module:app             run its pipelines; and explain, and windows

    mullion savepoint CHECKPOINT TO       copy a checkpoint or a program's folder, for example with other partitions
    mullion plan-change CHECKPOINT module:panes   the effect of a changed query or App on a checkpoint

The adapters define their own commands: see :mod:`mullion._program.cli.commands`.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import pkgutil
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Final

import mullion
from mullion._program.cli.commands import Command
from mullion._program.cli.compare_command import PLAN_CHANGE
from mullion._program.cli.savepoint_command import SAVEPOINT
from mullion._version import __version__
from mullion.errors import MullionError

FAILED, REFUSED = 1, 2
"""Exit codes of a failed program, and of a wrong command line (the same as argparse's)."""

OWN: Final[tuple[Command, ...]] = (SAVEPOINT, PLAN_CHANGE)
"""The commands for all adapters."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command. Returns the exit code."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    api = next((one for one in words if not one.startswith("-")), None)
    if api in doors():
        # An adapter may support other forms of its command line.
        words = getattr(importlib.import_module(f"mullion.{api}._commands"), "rewritten", list)(words)
    options = _parser(words).parse_args(words)
    logging.basicConfig(format="%(levelname)s %(message)s", level=logging.INFO, stream=sys.stderr)
    command: Command = options.chosen
    try:
        run = command.prepare(options)
    except MullionError as refused:
        print(f"mullion: {refused}", file=sys.stderr)  # noqa: T201
        return REFUSED
    try:
        run()
    except MullionError as failed:
        print(f"mullion: {failed}", file=sys.stderr)  # noqa: T201
        return FAILED
    return 0


def doors() -> list[str]:
    """The packages of Mullion that have commands."""
    packages = [one.name for one in pkgutil.iter_modules(mullion.__path__) if one.ispkg and one.name[0] != "_"]
    return [name for name in packages if _has_commands(name)]


def _has_commands(door: str) -> bool:
    # Imports only the package ``mullion``, which is loaded already, not the adapter.
    spec = find_spec(f"mullion.{door}")
    folders = [] if spec is None else spec.submodule_search_locations or []
    return any(one.name == "_commands" for one in pkgutil.iter_modules(folders))


def _parser(arguments: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mullion", description="Runs and explains programs over topics, and copies and compares checkpoints."
    )
    parser.add_argument("--version", action="version", version=f"mullion {__version__}")
    apis = parser.add_subparsers(dest="api", metavar="API", required=True)
    requested = next((one for one in arguments if not one.startswith("-")), None)
    for own in OWN:
        _add(own, apis)
    for door in doors():
        api = apis.add_parser(door, help=f"programs written with mullion.{door}")
        if door == requested:
            commands = api.add_subparsers(dest="command", metavar="COMMAND", required=True)
            for command in importlib.import_module(f"mullion.{door}._commands").COMMANDS:
                _add(command, commands)
    return parser


def _add(command: Command, to: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = to.add_parser(command.name, help=command.text, description=f"{command.text[0].upper()}{command.text[1:]}.")
    command.arguments(parser)
    parser.set_defaults(chosen=command)
