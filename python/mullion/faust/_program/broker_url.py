"""Broker URLs as Faust accepts them: without a scheme, without a port, or several at once."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mullion.topics import Broker
from mullion.topics import broker as broker_of

_SCHEMES = re.compile(r"^(aiokafka|kafka|confluent)://")
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(:\d+)?")
_PORT = "9092"


def broker_named(url: str | Broker | Sequence[str]) -> Broker:
    """Returns the broker of a URL, or of several URLs of one cluster.

    >>> broker_named("kafka://localhost").url
    'kafka://localhost:9092'
    >>> broker_named(["kafka://a:1", "kafka://b:2"]).url == broker_named("kafka://a:1;kafka://b:2").url
    True

    Raises :class:`InvalidArgumentError` for any other value.
    """
    texts = [str(one) for one in url] if isinstance(url, (list, tuple)) else [url]
    if not all(isinstance(one, str) for one in texts):
        return broker_of(url)  # type: ignore[arg-type]
    parts = [part.strip() for one in texts for part in re.split("[;,]", str(one))]
    hosts = [_SCHEMES.sub("", part).rstrip("/") or "localhost" for part in parts]
    is_kafka = bool(_SCHEMES.match(parts[0])) or (":" in parts[0] and not parts[0].startswith("dir:"))
    if not is_kafka or not all(_HOST.fullmatch(host) for host in hosts):
        return broker_of(url)  # type: ignore[arg-type]
    return broker_of("kafka://" + ",".join(host if ":" in host else f"{host}:{_PORT}" for host in hosts))
