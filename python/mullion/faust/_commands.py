"""The commands of ``mullion faust``, with the arguments of Faust's own command."""

import argparse
from collections.abc import Callable
from typing import Final

from mullion._program.cli.commands import DRAINED, Command, explain, on_app, run, windows
from mullion._program.cli.loading import load
from mullion.errors import InvalidArgumentError

_APP: Final = ("-A", "--app")


def _of_worker(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-l", "--loglevel", help="accepted as by Faust's command; Spark's settings control the log")
    for names in (("-f", "--logfile"), ("-p", "--web-port"), ("-b", "--web-bind")):
        parser.add_argument(*names, help="accepted as by Faust's command; has no effect")
    parser.add_argument(
        "--without-web", action="store_true", help="accepted as by Faust's command; there is no web server"
    )


def _of_program(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(*_APP, metavar="module:app", help="the App, as in examples.site:app", required=True)
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="the command's name, and what it takes")


def _run_command(options: argparse.Namespace) -> Callable[[], None]:
    from mullion.faust.app import App

    app = load(_full_name(options.app), "faust")
    assert isinstance(app, App)
    arguments: list[str] = options.arguments
    names = sorted(app.commands)
    if not arguments or arguments[0] not in names:
        raise InvalidArgumentError(
            f"{app.name}: there is no command {' '.join(arguments[:1])!r}. There are: worker, explain, tables"
            f"{', ' * bool(names)}{', '.join(names)}."
        )
    return lambda: app.call(app.commands[arguments[0]].calling(app, arguments[1:]))


def _full_name(app: str) -> str:
    """The full name of an App: the name of a module alone means its ``app``, as in Faust."""
    return app if ":" in app else f"{app}:app"


def rewritten(arguments: list[str]) -> list[str]:
    """Rewrites Faust's command line for the parser: ``-A`` before the command, and a program's own commands."""
    at = next((i for i, one in enumerate(arguments) if one in _APP), None)
    if at is None or at + 1 >= len(arguments):
        return arguments
    door, *rest = [*arguments[:at], *arguments[at + 2 :]]
    app = [_APP[0], _full_name(arguments[at + 1])]
    if rest and not rest[0].startswith("-") and rest[0] not in {one.name for one in COMMANDS}:
        return [door, "command", *app, *rest]
    return [door, *rest[:1], *app, *rest[1:]]


COMMANDS: Final[tuple[Command, ...]] = (
    on_app(
        "faust",
        "worker",
        "run it until it is stopped, by SIGINT or SIGTERM",
        run,
        *_APP,
        until=DRAINED,
        more=_of_worker,
    ),
    on_app("faust", "explain", "show which agents run in the JVM and which in Python, and why", explain, *_APP),
    on_app("faust", "tables", "list its tables and agents, and which have state", windows, *_APP),
    Command("command", "run a command of the program itself, by its name", _of_program, _run_command),
)
