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


def join(name: str) -> Callable[..., NoReturn]:
    """A method of streams that would join another stream."""
    return absent(
        f"stream.{name}",
        "Keep what comes of one topic in a table, by the key of both, and read it in the agent of the other: agents "
        "that are in shards by the same key see the same records.",
    )


_OPTIONS = (
    "Write broker=mullion.topics.KafkaBroker('host:9093', {...}), with security.protocol, sasl.mechanism, "
    "sasl.username and others by their names in Kafka."
)

NAMES = {
    "Service": "What a service does when it starts can be an @app.task, and what it does every so often an @app.timer.",
    "ServiceT": "What a service does when it starts can be an @app.task.",
    "Worker": "Run a program with app.main(), app.run(), or mullion faust worker -A module:app.",
    "LiveCheck": "Test a program over a folder of topics: faust.App('site', broker='dir:...').run(until='drained').",
    "Codec": "Read the topic with value_serializer='raw', and decode the bytes in the agent.",
    "Monitor": "Spark's progress reports tell of batches: app.queries['agents'].progress.",
    "Sensor": "Spark's progress reports tell of batches: app.queries['agents'].progress.",
    "SASLCredentials": _OPTIONS,
    "SSLCredentials": _OPTIONS,
    "GSSAPICredentials": _OPTIONS,
    "OAuthCredentials": _OPTIONS,
    "web": "Pages are not served: app.table(name).read() reads what a table holds, from any process.",
    "livecheck": "Test a program over a folder of topics: faust.App('site', broker='dir:...').run(until='drained').",
    "sensors": "Spark's progress reports tell of batches: app.queries['agents'].progress.",
    "serializers": "Read the topic with value_serializer='raw', and decode the bytes in the agent.",
    "ModelOptions": "The options of a record stand in the line of its class: class Order(faust.Record, coerce=True).",
}
"""What the package of Faust has and this one has not, with what to write in its place."""


def refuse_name(name: str) -> NoReturn:
    """Raises :class:`UnsupportedError` for a name of Faust's, and :class:`AttributeError` for any other."""
    if name in NAMES:
        raise UnsupportedError(f"faust.{name} is not served. {NAMES[name]}")
    raise AttributeError(f"module 'mullion.faust' has no attribute {name!r}")
