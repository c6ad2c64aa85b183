"""Signals: a program's functions that are called at points of its life, such as ``app.on_rebalance_complete``.

::

    on_before_configured, on_configured(app, conf), on_after_configured     before a program is run or explained
    on_worker_init, on_partitions_assigned, on_rebalance_complete           when it starts, with its tasks
    on_before_shutdown                                                      after it has stopped
    on_partitions_revoked, on_produce_message                               never: these events do not exist here
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar, final, overload

F = TypeVar("F", bound=Callable[..., Any])

CONFIGURING: Final = ("on_before_configured", "on_configured", "on_after_configured")
BEGINNING: Final = ("on_worker_init", "on_partitions_assigned", "on_rebalance_complete")
ENDING: Final = ("on_before_shutdown",)
NEVER: Final = ("on_partitions_revoked", "on_produce_message")


@final
class Signal:
    """A point of a program's life, to which functions are connected."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._handlers: list[Callable[..., Any]] = []

    @overload
    def connect(self, function: F) -> F: ...

    @overload
    def connect(self, function: None = None, **options: Any) -> Callable[[F], F]: ...

    def connect(self, function: Any = None, **options: Any) -> Any:
        """Connects a function or a coroutine function: ``@app.on_rebalance_complete.connect``, with or without ()."""
        if function is None:
            return self.connect
        self._handlers.append(function)
        return function

    @property
    def handlers(self) -> Sequence[Callable[..., Any]]:
        return tuple(self._handlers)

    def disconnect(self, function: Callable[..., Any]) -> None:
        if function in self._handlers:
            self._handlers.remove(function)

    def calls(self, *arguments: Any) -> Iterator[Callable[[], Any]]:
        """Yields the calls of the handlers, each with the App and the signal's arguments."""
        for handler in self._handlers:
            yield _Call(handler, arguments, self)

    def __bool__(self) -> bool:
        return bool(self._handlers)

    def __repr__(self) -> str:
        return f"<Signal: {self.name}>"


@final
class _Call:
    """A handler with those of the arguments that its parameters accept."""

    def __init__(self, handler: Callable[..., Any], arguments: tuple[Any, ...], signal: Signal) -> None:
        self._handler = handler
        self._arguments = arguments
        self._signal = signal
        self.__name__ = getattr(handler, "__name__", repr(handler))

    def __call__(self) -> Any:
        parameters = inspect.signature(self._handler).parameters.values()
        named = {one.name for one in parameters}
        takes_more = any(one.kind is one.VAR_KEYWORD for one in parameters)
        takes_all = any(one.kind is one.VAR_POSITIONAL for one in parameters)
        places = sum(one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD) for one in parameters)
        arguments = self._arguments if takes_all else self._arguments[:places]
        more = {"signal": self._signal} if takes_more or "signal" in named else {}
        return self._handler(*arguments, **more)
