"""What Faust has and is not here: refused by its name, with what to write in its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from mullion.errors import UnsupportedError


def absent(name: str, instead: str) -> Callable[..., NoReturn]:
    """A method that raises :class:`UnsupportedError`."""

    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise UnsupportedError(f"{name} is not served. {instead}")

    refuse.__name__ = name
    refuse.__doc__ = "Not served: raises :class:`UnsupportedError`, which says what to write in its place."
    return refuse


def reply(name: str) -> Callable[..., NoReturn]:
    """A method of agents that would wait for an answer."""
    return absent(
        f"agent.{name}",
        "An answer is published once its micro-batch is done, so none can be waited for within one. Send with cast(), "
        "and have the agent yield its answer to a sink: a topic, or an agent that goes on with it.",
    )


def join(name: str) -> Callable[..., NoReturn]:
    """A method of streams that would join another stream."""
    return absent(
        f"stream.{name}",
        "Keep what comes of one topic in a table, by the key of both, and read it in the agent of the other: agents "
        "that are in shards by the same key see the same records.",
    )
