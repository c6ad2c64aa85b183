"""The commands of ``mullion kx``."""

from typing import Final

from mullion._program.cli.commands import DRAINED, Command, explain, on_app, run, windows

_ENDS: Final = {**DRAINED, "end": "process the existing records and end, closing all windows"}

COMMANDS: Final[tuple[Command, ...]] = (
    on_app("kx", "run", "run its pipelines until they end or are stopped, by SIGINT or SIGTERM", run, until=_ENDS),
    on_app("kx", "explain", "show which operators run in the JVM and which in Python, and why", explain),
    on_app("kx", "windows", "list its windows and writers, and which have state", windows),
)
