"""The functions of a program that are not agents: timers, tasks and commands."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from datetime import tzinfo
from typing import Any, TypeVar, overload

from mullion.errors import InvalidArgumentError
from mullion.faust._program.commands import Command, Option
from mullion.faust._settings import Settings
from mullion.faust._values.crontab import Crontab
from mullion.faust._values.times import Seconds, positive_us
from mullion.faust.agents import Timer

F = TypeVar("F", bound=Callable[..., Any])

_SILENT = ("partitions", "internal", "help", "concurrency", "loop", "start_manager", "acks", "allow_empty", "is_global")
"""Options that need no note: the program already behaves as they request."""


class Functions:
    """The timers, tasks and commands of a program, and notes about arguments that have no effect."""

    def __init__(self, conf: Settings) -> None:
        self.conf = conf
        self.timers: list[Timer] = []
        self.tasks: list[Callable[[], Any]] = []
        self.commands: dict[str, Command] = {}
        self._noted: dict[str, None] = {}

    def timer(
        self, interval: Seconds, on_leader: bool = False, *, name: str | None = None, **accepted: Any
    ) -> Callable[[F], F]:
        """Calls a function at an interval of the clock, first one interval after the start.

        It is called once for the program. A function that uses tables is called once for each shard partition that has
        had events, with the records of that partition: together, with all records. With ``on_leader`` it is called once
        and may not use tables, because it would read only a part of them. A function with a parameter receives the App.
        """
        self._accept("a timer", accepted, ("traced", "max_drift_correction"), "timer")
        return self._add_timer(positive_us(interval, "interval"), on_leader, name)

    def crontab(
        self,
        cron_format: str,
        *,
        timezone: tzinfo | None = None,
        tz: tzinfo | None = None,
        on_leader: bool = False,
        **accepted: Any,
    ) -> Callable[[F], F]:
        """Calls a function at the times of a crontab, as :meth:`timer` does: ``@app.crontab("30 8 * * 1-5")``.

        The default of ``timezone``, or ``tz``, is the App's setting, whose default is UTC. Times that pass while the
        program is stopped are skipped.

        Raises :class:`InvalidArgumentError` for text that is not a crontab.
        """
        self._accept("a crontab", accepted, ("traced", "max_drift_correction", "name"), "crontab")
        zone = timezone or tz or self.conf.timezone
        return self._add_timer(Crontab.of(cron_format, zone), on_leader, accepted.get("name"))

    def _add_timer(self, every: int | Crontab, on_leader: bool, name: str | None) -> Callable[[F], F]:
        def add(function: F) -> F:
            called = str(name or getattr(function, "__name__", repr(function)))
            self.timers.append(Timer(self._with_app(function), every, called, bool(on_leader)))
            return function

        return add

    def _with_app(self, function: Callable[..., Any]) -> Callable[[], Any]:
        """Wraps a function so that it needs no arguments: one with a parameter receives the App."""
        try:
            parameters = inspect.signature(function).parameters.values()
        except (TypeError, ValueError):
            return function
        wants = [one for one in parameters if one.default is one.empty and one.kind in _POSITIONAL]
        return WithApp(function, self) if wants else function

    @overload
    def task(self, function: F) -> F: ...

    @overload
    def task(self, function: None = None, **accepted: Any) -> Callable[[F], F]: ...

    def task(self, function: Any = None, **accepted: Any) -> Any:
        """Calls a function once, when the program starts; one with a parameter receives the App."""
        self._accept("a task", accepted, ("on_leader", "traced"), "task")
        if function is None:
            return self.task
        self.tasks.append(self._with_app(function))
        return function

    def command(self, *options: Option, **accepted: Any) -> Callable[[F], F]:
        """Creates a command from a function: ``python site.py produce``, or ``mullion faust produce -A site:app``.

        ``options`` come from :func:`mullion.faust.cli.option` and :func:`mullion.faust.cli.argument`. A function with
        parameters receives the command's context first, which has ``app`` and ``say``, and then the values of its
        options.
        """
        if len(options) == 1 and not isinstance(options[0], Option):
            raise InvalidArgumentError(
                f"@app.command is given {options[0]!r}, which is not an option. Write @app.command()."
            )
        self._accept("a command", accepted, ("base",), "command")

        def add(function: F) -> F:
            command = Command(function, options)
            self.commands[command.name] = command
            return function

        return add

    def note(self, what: str) -> None:
        """Records, once, an argument that was accepted without effect."""
        self._noted[what] = None

    def _accept(self, of: str, arguments: dict[str, Any], parameters: Sequence[str], method: str) -> None:
        for name, value in arguments.items():
            if name not in parameters:
                raise TypeError(f"{method}() got an unexpected keyword argument {name!r}")
            if name not in _SILENT and value is not None:
                self.note(f"{name}= of {of}")


class WithApp:
    """A function that receives the App when it is called."""

    def __init__(self, function: Callable[..., Any], app: Functions) -> None:
        self.function = function
        self.app = app
        self.__name__ = getattr(function, "__name__", repr(function))

    def __call__(self) -> Any:
        return self.function(self.app)


_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
