"""Writers, with which pipelines end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from mullion import topics
from mullion._util.checks import require_bool, require_one_of
from mullion._util.signatures import explained
from mullion.errors import InvalidArgumentError, UnsupportedError
from mullion.kx._arguments import function_of, missing_name, params_of
from mullion.kx._operators import Writer
from mullion.kx._query.sinks import ToCallback, ToConsole, ToFile, ToTopic, ToVariable
from mullion.topics import Broker, KafkaBroker

__all__ = ["Writer", "to_callback", "to_console", "to_file", "to_kafka", "to_topic", "to_variable"]

_FORMATS: Final = ("csv", "json", "parquet")
_ELSEWHERE: Final = {
    "to_stream": "sp.write.to_topic(topic) or sp.write.to_kafka(topic)",
    "to_amazon_s3": "sp.write.to_file('s3a://...', 'parquet')",
    "to_parquet": "sp.write.to_file(path, 'parquet')",
    "to_database": "sp.write.to_callback(function), which gets each batch",
    "to_http": "sp.write.to_callback(function), which gets each batch",
    "to_process": "sp.write.to_callback(function), which gets each batch",
    "to_subscriber": "sp.write.to_callback(function), which gets each batch",
}


def __getattr__(name: str) -> Any:
    raise missing_name("sp.write", name, __all__, _ELSEWHERE)


@explained("sp.write.to_console()", name="sp.write.to_console")
def to_console(prefix: str = "", *, name: str | None = None) -> ToConsole:
    """Prints each batch as a table, after ``prefix``. A micro-batch that runs again is printed again."""
    if not isinstance(prefix, str):
        raise InvalidArgumentError(
            f"prefix={prefix!r} ({type(prefix).__name__}) is not text. Write to_console('out: ')."
        )
    return ToConsole(prefix, name=name)


@explained("sp.write.to_variable('out')", name="sp.write.to_variable")
def to_variable(variable: str | list[Any], mode: str = "append", *, name: str | None = None) -> ToVariable:
    """Stores its input in memory.

    - ``variable``: a name, under which ``App.variables`` and the result of ``sp.run`` have the records as one Arrow
      table; or a list, to which each batch is appended unchanged.
    - ``mode``: ``"append"``, or ``"overwrite"`` to keep only the last batch.
    - ``name``: by default ``to_variable_1`` and so on.

    The memory grows with the input: use it for tests, notebooks and pipelines that end.
    """
    if not isinstance(variable, (str, list)) or variable == "":
        raise InvalidArgumentError(
            f"variable={variable!r} ({type(variable).__name__}) is neither a name nor a list. Write "
            "sp.write.to_variable('out'), or sp.write.to_variable(batches) for a list of yours."
        )
    if mode == "upsert":
        raise UnsupportedError(
            "mode='upsert' is for keyed tables of q, which Arrow has none of. Write mode='append', or keep rows by "
            "their keys with sp.write.to_callback(function)."
        )
    require_one_of("mode", mode, ("append", "overwrite"))
    return ToVariable(variable, mode, name=name)


@explained("sp.write.to_callback(function)", name="sp.write.to_callback")
def to_callback(
    function: str | Callable[..., Any],
    *,
    params: Sequence[str] = ("data",),
    pandas: bool = False,
    name: str | None = None,
) -> ToCallback:
    """Calls a function with each batch, in the process that runs the pipeline, in the order of the batches.

    - ``function``: a function, or the name of one.
    - ``params``: its parameters, of ``"operator"``, ``"metadata"`` and ``"data"``.
    - ``pandas``: True to pass it a ``pandas.DataFrame`` in place of a ``pyarrow.Table``.
    - ``name``: by default ``to_callback_1`` and so on.

    A micro-batch that runs again calls it again.
    """
    require_bool("pandas", pandas)
    checked = function_of(function, "function", "sp.write.to_callback(lambda data: ...)")
    return ToCallback(checked, params_of(params, "sp.write.to_callback"), pandas, name=name)


@explained("sp.write.to_file('windows', 'parquet')", name="sp.write.to_file")
def to_file(
    path: str | Path,
    format: str = "parquet",  # noqa: A002 - as Spark calls it
    *,
    name: str | None = None,
    **options: Any,
) -> ToFile:
    """Writes files, exactly once: the files of a micro-batch are in ``PATH/run=ID/batch=NUMBER``.

    - ``format``: ``"csv"``, ``"json"`` or ``"parquet"``.
    - ``options``: of Spark's writer of that format, such as ``header=True``.
    - ``name``: by default ``to_file_1`` and so on.

    Spark reads all of them, with the additional columns ``run`` and ``batch``: ``spark.read.parquet(path)``.
    """
    require_one_of("format", format, _FORMATS)
    return ToFile(str(path), format, options, name=name)


@explained("sp.write.to_topic('windows')", name="sp.write.to_topic")
def to_topic(topic: str, *, broker: str | Broker | None = None, name: str | None = None) -> ToTopic:
    """Publishes each record to a topic, exactly once; see :mod:`mullion.topics`.

    - ``broker``: ``"dir:PATH"`` or ``"kafka://host:port"``; by default the App's broker.
    - ``name``: by default ``to_topic_1`` and so on.
    """
    if not isinstance(topic, str) or not topic:
        raise InvalidArgumentError(f"topic={topic!r} is not the name of a topic. Write sp.write.to_topic('windows').")
    return ToTopic(topic, None if broker is None else topics.broker(broker), name=name)


@explained("sp.write.to_kafka('windows', 'localhost:9092')", name="sp.write.to_kafka")
def to_kafka(
    topic: str, brokers: str = "localhost:9092", *, options: Mapping[str, Any] | None = None, name: str | None = None
) -> ToTopic:
    """Publishes each record to a Kafka topic as JSON, exactly once; ``brokers`` is ``host:port``.

    - ``options``: the connection options of the cluster, see :class:`mullion.topics.KafkaBroker`.
    """
    if not isinstance(brokers, str) or not brokers:
        raise InvalidArgumentError(
            f"brokers={brokers!r} is not an address of Kafka. Write, for instance, 'localhost:9092'."
        )
    return to_topic(topic, broker=KafkaBroker(brokers, options or {}), name=name)
