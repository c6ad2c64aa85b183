"""The commands of ``mullion turbine``."""

from typing import Final

from mullion._program.cli.commands import DRAINED, Command, explain, on_app, run, windows

COMMANDS: Final[tuple[Command, ...]] = (
    on_app("turbine", "run", "run it until it is stopped, by SIGINT or SIGTERM", run, until=DRAINED),
    on_app("turbine", "explain", "show which parts run in the JVM and which in Python, and why", explain),
    on_app("turbine", "windows", "list its windows and their open panes", windows),
)
