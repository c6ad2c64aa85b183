"""What a door adds to the command ``mullion``: a module ``_commands`` in its package, with a list ``COMMANDS``.

::

    # mullion/turbine/_commands.py
    COMMANDS = (
        on_app("turbine", "run", "run it until it is stopped, by SIGINT or SIGTERM", run, until=DRAINED),
        on_app("turbine", "explain", "show which parts run in the JVM and which in Python, and why", explain),
    )

A command of another form is a :class:`Command`. The command line finds the doors by these modules, and imports only
that of the door which it is asked for.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, final

from mullion._programs.app import App
from mullion._programs.loading import load

Until: TypeAlias = Any
"""What ``--until`` was given, one of the ends that a command has; ``None`` where it was left out."""

DRAINED: Final = {"drained": "process what is there and end, closing only what the clock closes"}
"""The end that every App has."""


@final
@dataclass(frozen=True)
class Command:
    """A command of a door.

    - ``name``, ``text``: what it is called, and what it does, in a line without a full stop.
    - ``arguments``: adds its arguments to a parser.
    - ``prepare``: takes the options, and gives what is then run. A :class:`mullion.errors.MullionError` of it says that
      the command line is wrong; one of what it gives, that the program failed.
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
    """A command on an App of the door ``api``.

    - ``flags``: where the App is named; as the only argument if there are none.
    - ``until``: the ends that ``--until`` may name, each with what it does; ``action`` is given the one that it named.
    - ``more``: adds arguments that are taken, and not used.
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
    """Prints the named parts, and what is in them."""
    print(app.windows())  # noqa: T201
