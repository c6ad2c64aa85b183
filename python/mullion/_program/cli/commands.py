"""The commands of an adapter: a module ``_commands`` in its package, with a list ``COMMANDS``.

::

    # mullion/turbine/_commands.py
    COMMANDS = (
        on_app("turbine", "run", "run it until it is stopped, by SIGINT or SIGTERM", run, until=DRAINED),
        on_app("turbine", "explain", "show which parts run in the JVM and which in Python, and why", explain),
    )

A command of another form is a :class:`Command`. The command line finds the adapters by these modules, and imports only
the requested one.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, final

from mullion._program.app import App
from mullion._program.cli.loading import load

Until: TypeAlias = Any
"""The value of ``--until``, one of the ends of a command; ``None`` if it is missing."""

DRAINED: Final = {"drained": "process all existing rows and end, closing windows only by their clock"}
"""The end that every App has."""


@final
@dataclass(frozen=True)
class Command:
    """A command of an adapter.

    - ``name``, ``text``: its name, and its description, in a line without a full stop.
    - ``arguments``: adds its arguments to a parser.
    - ``prepare``: receives the options, and returns the function to run. Its own :class:`mullion.errors.MullionError`
      is an error of the command line; one of the returned function is a failure of the program.
    """

    name: str
    text: str
    arguments: Callable[[argparse.ArgumentParser], None]
    prepare: Callable[[argparse.Namespace], Callable[[], None]]


def on_app(
    api: str,
    name: str,
    text: str,
    action: Callable[[App, Until], None],
    *flags: str,
    until: Mapping[str, str] | None = None,
    more: Callable[[argparse.ArgumentParser], None] = lambda parser: None,
) -> Command:
    """A command on an App of the adapter ``api``.

    - ``flags``: the options for the App; the only argument if there are none.
    - ``until``: the values of ``--until``, each with a description; ``action`` receives the chosen one.
    - ``more``: adds arguments that are accepted and ignored.
    """

    def arguments(parser: argparse.ArgumentParser) -> None:
        required: dict[str, Any] = {"required": True} if flags else {}
        parser.add_argument(
            *(flags or ("app",)), metavar="module:app", help="the App, as in examples.revenue:app", **required
        )
        more(parser)
        parser.set_defaults(until=None)
        if until:
            parser.add_argument("--until", choices=list(until), help="; ".join(until.values()))

    def prepare(options: argparse.Namespace) -> Callable[[], None]:
        app = load(options.app, api)
        return lambda: action(app, options.until)

    return Command(name, text, arguments, prepare)


def run(app: App, until: Until) -> None:
    """Runs a program."""
    app.run(until)


def explain(app: App, _until: Until) -> None:
    """Prints which parts run where."""
    print(app.explain())  # noqa: T201


def windows(app: App, _until: Until) -> None:
    """Prints the named parts, and their contents."""
    print(app.windows())  # noqa: T201
