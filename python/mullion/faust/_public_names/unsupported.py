"""Names of Faust without a counterpart. Their errors name the alternative.

Importing such a name gives a class that raises :class:`UnsupportedError` once it is called, because many programs use
names in annotations only. Attributes raise :class:`MissingPartError`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import GenericAlias
from typing import Any, Final, NoReturn

from mullion.errors import UnsupportedError


class MissingPartError(UnsupportedError, AttributeError):
    """An attribute of Faust's objects without a counterpart. ``hasattr`` is false for it."""


def absent(name: str, instead: str) -> Callable[..., NoReturn]:
    """Returns a method that raises :class:`UnsupportedError`."""

    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise UnsupportedError(f"{name} is not supported. {instead}")

    refuse.__name__ = name
    refuse.__doc__ = "Not supported: raises :class:`UnsupportedError` with a replacement."
    return refuse


def join(name: str) -> Callable[..., NoReturn]:
    """Returns a method in the place of a join of streams, which raises :class:`UnsupportedError`."""
    return absent(
        f"stream.{name}",
        "Store the events of one topic in a table, by the key of both, and read it in the agent of the other topic: "
        "agents with the same shard key see the same records.",
    )


_OPTIONS = (
    "Write broker=mullion.topics.KafkaBroker('host:9093', {...}), with security.protocol, sasl.mechanism, "
    "sasl.username and others by their names in Kafka."
)
_PROGRESS = "Spark's progress reports tell of batches: app.queries['agents'].progress."
_TEST = "Test a program over a folder of topics: faust.App('site', broker='dir:...').run(until='drained')."
_DECODE = "Read the topic with value_serializer='raw', and decode the bytes in the agent."
_RUN = "Run a program with app.main(), app.run(), or mullion faust worker -A module:app."
_PAGES = "Pages are not served: app.table(name).read() reads what a table holds, from any process."
_SERVICE = "What a service does when it starts can be an @app.task, and what it does every so often an @app.timer."
_SPARK = "Spark does this part of Faust's worker."

_BY_MODULE: Final[Mapping[str, str]] = {
    "auth": _OPTIONS,
    "cli": "Write @app.command() above a coroutine function, with mullion.faust.cli.option and argument.",
    "joins": "Keep the events of one topic in a table, and read it in the agent of the other topic.",
    "livecheck": _TEST,
    "models": "Write the type as the annotation of a field, as in: price: Decimal.",
    "sensors": _PROGRESS,
    "serializers": _DECODE,
    "stores": "Tables are in Spark's state, next to the checkpoint.",
    "web": _PAGES,
    "worker": _RUN,
}

NAMES: Final[Mapping[str, str]] = {
    "Service": _SERVICE,
    "ServiceT": _SERVICE,
    "Worker": _RUN,
    "LiveCheck": _TEST,
    "Codec": _DECODE,
    "Monitor": _PROGRESS,
    "Sensor": _PROGRESS,
    "SASLCredentials": _OPTIONS,
    "SSLCredentials": _OPTIONS,
    "GSSAPICredentials": _OPTIONS,
    "OAuthCredentials": _OPTIONS,
    "ModelOptions": "The options of a record stand in the line of its class: class Order(faust.Record, coerce=True).",
}
"""The names of the package ``faust`` without a counterpart, with the alternative."""

_SEND = "Write await topic.send(value=...), or topic.send_soon(value=...) outside of a coroutine."
_OWN_WORKER = f"{_SPARK} For work at the start write an @app.task, and for repeated work an @app.timer."
_CHANNEL: Final[Mapping[str, str]] = {
    "put": _SEND,
    "as_future_message": _SEND,
    "publish_message": _SEND,
    "prepare_key": _SEND,
    "prepare_value": _SEND,
    "prepare_headers": _SEND,
    "deliver": _SEND,
    "get": "Write an agent of the channel, which receives its messages: @app.agent(channel).",
    "queue": "Write an agent of the channel, which receives its messages: @app.agent(channel).",
    "empty": "Write an agent of the channel, which receives its messages: @app.agent(channel).",
    "throw": "Raise an error in the agent; with on_error='dead_letter' its event goes to the dead letters.",
    "decode": "Messages are read in the topic's value_type.",
    "derive": "Write app.topic(name) with the options of the other topic.",
    "derive_topic": "Write app.topic(name) with the options of the other topic.",
    "clone": "Write app.topic(name) with the options of the topic.",
    "clone_using_queue": "Write app.topic(name) with the options of the topic.",
    "subscriber_count": _SPARK,
    "partitions": "The cluster decides the number of partitions.",
    **dict.fromkeys(
        ("on_decode_error", "on_key_decode_error", "on_value_decode_error"),
        "Messages that do not fit go to the topic of the dead letters: app.dead_letters.",
    ),
}
_SERVICES: Final = (
    *("add_context", "add_async_context", "add_dependency", "add_future", "add_runtime_dependency", "beacon", "crash"),
    *("crashed", "crash_reason", "from_awaitable", "itertimer", "join_services", "label", "loop", "maybe_start"),
    *("on_first_start", "on_init", "on_restart", "on_shutdown", "on_start", "on_started", "on_stop", "restart"),
    *("restart_count", "service_reset", "set_shutdown", "shortlabel", "started", "state", "stop", "supervisor"),
    *("transition_with", "wait", "wait_first", "wait_for_stopped", "wait_many", "wait_until_stopped"),
)
"""The attributes of Faust's services: its apps, agents, streams and tables are services."""
_OF: Final[Mapping[str, Mapping[str, str]]] = {
    "app": {
        **dict.fromkeys(_SERVICES, _OWN_WORKER),
        **dict.fromkeys(
            (
                *("assignor", "client_only", "commit", "consumer", "consumer_generation_id", "flow_control"),
                *("in_recovery", "in_transaction", "in_worker", "maybe_start_client", "maybe_start_producer"),
                *("producer", "producer_only", "producer_transport", "rebalancing_count", "start_client"),
                *("tracer", "traced", "trace", "transport", "unassigned", "worker_init"),
            ),
            _SPARK,
        ),
        **dict.fromkeys(("cache", "router", "web_server", "web_server_url"), _PAGES),
        "http_client": "Create the client in the agent, such as aiohttp.ClientSession().",
        "monitor": _PROGRESS,
        "serializers": _DECODE,
        "config_from_object": "Write the settings as arguments: faust.App(name, broker=..., version=2).",
    },
    "channel": _CHANNEL,
    "agent": {
        **dict.fromkeys(_SERVICES, _OWN_WORKER),
        "test_context": _TEST,
        "stream": "An agent's stream is the parameter of its function.",
        "actor_from_stream": _TEST,
        "cancel": _SPARK,
        "clone": "Write another agent with the same function: app.agent(topic, name='other')(function).",
        "info": "explain() describes the agents of a program.",
        "get_topic_names": "Write agent.channel.name.",
    },
    "stream": {
        **dict.fromkeys(_SERVICES, _OWN_WORKER),
        **dict.fromkeys(("derive_topic", "outbox", "throw", "contribute_to_stream", "get_root_stream"), _SPARK),
        "clone": "An agent has one stream. Write another agent of the topic.",
        "events_total": _PROGRESS,
    },
    "table": {
        **dict.fromkeys(_SERVICES, _OWN_WORKER),
        **dict.fromkeys(("join", "left_join", "inner_join", "outer_join", "combine"), _BY_MODULE["joins"]),
        **dict.fromkeys(
            ("changelog_topic_name", "persisted_offset", "reset_state", "send_changelog", "partition_for_key", "data"),
            "Tables are in Spark's state; app.table(name).read() reads one.",
        ),
        "popitem": "Write key, value = next(iter(table.items())), and then del table[key].",
        "fromkeys": "Write table[key] = value for each key.",
    },
}


def missing_attribute(kind: str, owner: object, name: str) -> AttributeError:
    """The error for an attribute of Faust's objects, or for any other missing attribute.

    ``kind`` is one of ``app``, ``channel``, ``agent``, ``stream`` and ``table``.
    """
    instead = _OF[kind].get(name)
    if instead is None:
        return AttributeError(f"{type(owner).__name__!r} object has no attribute {name!r}")
    return MissingPartError(f"{kind}.{name} is not supported. {instead}")


def placeholder(name: str) -> type[Any]:
    """A class in the place of a name of Faust's, such as ``sensors.Monitor``. Calling it raises the error."""
    instead = NAMES.get(name.rpartition(".")[2]) or _BY_MODULE.get(name.partition(".")[0], _SPARK)

    def refuse(cls: type[Any], *_: Any, **__: Any) -> NoReturn:
        raise UnsupportedError(f"faust.{name} is not supported. {instead}")

    last = name.rpartition(".")[2]
    bases = (Exception,) if last.endswith(("Error", "Exception", "Warning")) else ()
    content = {
        "__new__": refuse,
        "__class_getitem__": classmethod(GenericAlias),
        "__doc__": f"Not supported. {instead}",
    }
    return type(last, bases, content)
