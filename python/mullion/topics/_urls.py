"""Brokers by their URLs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mullion.errors import InvalidArgumentError
from mullion.topics._broker import Broker
from mullion.topics._folder.broker import DirBroker
from mullion.topics._kafka.broker import KafkaBroker
from mullion.topics._kafka.options import without_secrets


def broker(url: str | Broker, options: Mapping[str, Any] | None = None) -> Broker:
    """The broker of a URL: a ``DirBroker`` for ``dir:PATH``, a ``KafkaBroker`` for ``kafka://host:port``.

    >>> broker("dir:/tmp/topics")
    DirBroker('/tmp/topics')

    - ``options``: the connection options of a Kafka cluster; see :class:`mullion.topics.KafkaBroker`.

    Raises :class:`InvalidArgumentError` for anything else.
    """
    if options and not (isinstance(url, str) and url.startswith("kafka://")):
        raise InvalidArgumentError("options= are of a broker 'kafka://host:port'. Leave them out for any other.")
    if isinstance(url, str):
        if url.startswith("dir:") and url != "dir:":
            return DirBroker(url.removeprefix("dir:"))
        if url.startswith("kafka://") and url != "kafka://":
            return KafkaBroker(url.removeprefix("kafka://"), options or {})
    elif isinstance(url, Broker):
        return url
    raise InvalidArgumentError(
        f"broker={without_secrets(url)!r} is not a broker. Write 'dir:PATH' for topics in a folder, or "
        "'kafka://host:port' for Kafka."
    )
