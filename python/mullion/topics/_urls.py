"""Which broker a URL names."""

from __future__ import annotations

from mullion.errors import InvalidArgumentError
from mullion.topics._broker import Broker
from mullion.topics._folder.broker import DirBroker
from mullion.topics._kafka.broker import KafkaBroker


def broker(url: str | Broker) -> Broker:
    """The broker that a URL names: a ``DirBroker`` for ``dir:PATH``, a ``KafkaBroker`` for ``kafka://host:port``.

    >>> broker("dir:/tmp/topics")
    DirBroker('/tmp/topics')

    Raises :class:`InvalidArgumentError` for anything else.
    """
    if isinstance(url, str):
        if url.startswith("dir:") and url != "dir:":
            return DirBroker(url.removeprefix("dir:"))
        if url.startswith("kafka://") and url != "kafka://":
            return KafkaBroker(url.removeprefix("kafka://"))
    elif isinstance(url, Broker):
        return url
    raise InvalidArgumentError(
        f"broker={url!r} is not a broker. Write 'dir:PATH' for topics in a folder, or 'kafka://host:port' for Kafka."
    )
