"""The command ``mullion``: ``mullion API COMMAND module:app``.

::

    mullion turbine run module:app        run it until it is stopped
    mullion turbine explain module:app    which parts run in the JVM and which in Python, and why
    mullion turbine windows module:app    its windows, and what is open in them

    mullion faust worker -A module:app    as Faust's own command has it; and explain, and tables
    mullion kx run module:app             run its pipelines; and explain, and windows
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

from mullion._programs.app import App
from mullion._programs.loading import load
from mullion._version import __version__
from mullion.errors import MullionError

FAILED, REFUSED = 1, 2
"""Exit codes: a program that failed, and a command line that is wrong (which is argparse's own)."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; gives the exit code."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(format="%(levelname)s %(message)s", level=logging.INFO, stream=sys.stderr)
    try:
        app = load(options.app, options.api)
    except MullionError as refused:
        print(f"mullion: {refused}", file=sys.stderr)  # noqa: T201
        return REFUSED
    try:
        options.action(app, options.until)
    except MullionError as failed:
        print(f"mullion: {failed}", file=sys.stderr)  # noqa: T201
        return FAILED
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="mullion", description="Runs and explains programs over topics.")
    parser.add_argument("--version", action="version", version=f"mullion {__version__}")
    apis = parser.add_subparsers(dest="api", metavar="API", required=True)
    turbine = _api(apis, "turbine")
    _until(_command(turbine, "run", "run it until it is stopped, by SIGINT or SIGTERM", _run))
    _command(turbine, "explain", "show which parts run in the JVM and which in Python, and why", _explain)
    _command(turbine, "windows", "list its windows, and what is open in them", _windows)
    faust = _api(apis, "faust")
    worker = _command(faust, "worker", "run it until it is stopped, by SIGINT or SIGTERM", _run, "-A", "--app")
    worker.add_argument(
        "-l", "--loglevel", help="as Faust's own command takes it; Spark's own settings say what is logged"
    )
    _until(worker)
    _command(faust, "explain", "show which agents run in the JVM and which in Python, and why", _explain, "-A", "--app")
    _command(faust, "tables", "list its tables and agents, and which have state", _windows, "-A", "--app")
    kx = _api(apis, "kx")
    run = _command(kx, "run", "run its pipelines until they end or are stopped, by SIGINT or SIGTERM", _run)
    run.add_argument(
        "--until",
        choices=["drained", "end"],
        help="process what is there and end, closing only what the clock closes, or all windows",
    )
    _command(kx, "explain", "show which operators run in the JVM and which in Python, and why", _explain)
    _command(kx, "windows", "list its windows and writers, and which have state", _windows)
    return parser


_Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def _api(apis: _Commands, name: str) -> _Commands:
    api = apis.add_parser(name, help=f"programs written with mullion.{name}")
    return api.add_subparsers(dest="command", metavar="COMMAND", required=True)


def _command(
    commands: _Commands,
    name: str,
    text: str,
    action: Callable[[App, Literal["drained"] | None], None],
    *flags: str,
) -> argparse.ArgumentParser:
    """A command on an App, which is its argument, or where there are ``flags``, the value of these."""
    command = commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
    required: dict[str, Any] = {"required": True} if flags else {}
    command.add_argument(
        *(flags or ("app",)), metavar="module:app", help="the App, as in examples.revenue:app", **required
    )
    command.set_defaults(action=action, until=None)
    return command


def _until(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--until", choices=["drained"], help="process what is there and end, closing only what the clock closes"
    )


def _run(app: App, until: Literal["drained"] | None) -> None:
    app.run(until)


def _explain(app: App, _until: object) -> None:
    print(app.explain())  # noqa: T201


def _windows(app: App, _until: object) -> None:
    print(app.windows())  # noqa: T201
