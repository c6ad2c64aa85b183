"""Readers, with which pipelines begin."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame

from mullion import topics
from mullion._bridge.columns import require_dataframe
from mullion._util.checks import require_bool
from mullion._util.signatures import explained
from mullion.errors import InvalidArgumentError
from mullion.kx._arguments import column_name, missing_name, require_count
from mullion.kx._operators import Reader
from mullion.kx._query.sources import FromCallback, FromDataFrame, FromExpr, FromFile, FromTopic
from mullion.topics import Broker, KafkaBroker
from mullion.topics._broker import SchemaLike
from mullion.topics._schemas import given_schema

__all__ = [
    "Reader",
    "from_callback",
    "from_csv",
    "from_dataframe",
    "from_expr",
    "from_file",
    "from_json",
    "from_kafka",
    "from_parquet",
    "from_topic",
]

_FORMATS: Final = {".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json", ".parquet": "parquet"}
_ELSEWHERE: Final = {
    "from_stream": "sp.read.from_topic(topic) or sp.read.from_kafka(topic)",
    "from_amazon_s3": "sp.read.from_file('s3a://...')",
    "from_azure_storage": "sp.read.from_file('abfss://...')",
    "from_google_storage": "sp.read.from_file('gs://...')",
    "from_database": "sp.read.from_dataframe(spark.read.jdbc(...))",
    "from_postgres": "sp.read.from_dataframe(spark.read.jdbc(...))",
    "from_sqlserver": "sp.read.from_dataframe(spark.read.jdbc(...))",
    "from_http": "sp.read.from_expr(lambda: requests.get(url).json())",
    "from_upload": "sp.read.from_file(path)",
    "from_mqtt": "sp.read.from_kafka(topic), behind a bridge from MQTT",
    "from_pulsar": "sp.read.from_kafka(topic), behind Pulsar's protocol handler for Kafka",
}


def __getattr__(name: str) -> Any:
    raise missing_name("sp.read", name, __all__, _ELSEWHERE)


@explained("sp.read.from_expr(lambda: table)", name="sp.read.from_expr")
def from_expr(expr: Callable[[], Any] | Any, *, name: str | None = None) -> FromExpr:
    """Reads the results of a function: a batch, or batches one after the other from a generator or a list.

    - ``expr``: a function without parameters, or the data itself. A batch is an Arrow table, a ``pandas.DataFrame``, a
      dict or a list of dicts. The function is called when the pipeline starts, and its results are read to their end
      before the first batch is processed. In a pipeline with a checkpoint, batches of earlier runs are skipped.
    - ``name``: by default ``from_expr_1`` and so on.

    A pipeline ends if all of its readers are of this kind.
    """
    if isinstance(expr, str):
        raise InvalidArgumentError(
            f"expr={expr!r} is a text, and there is no q here to run it. Give a function, as in "
            "sp.read.from_expr(lambda: table)."
        )
    return FromExpr(expr, name=name)


@explained("sp.read.from_callback('publish')", name="sp.read.from_callback")
def from_callback(callback: str, *, schema: SchemaLike | None = None, name: str | None = None) -> FromCallback:
    """Reads the batches of ``App.publish(callback, batch)``, before the program runs or while it does.

    - ``callback``: the name of the callback, as text or as a symbol.
    - ``schema``: the columns, if the first batch is published after the start: DDL, a ``StructType`` or an Arrow
      schema.
    - ``name``: by default ``from_callback_1`` and so on.
    """
    called = column_name(callback, "callback", "sp.read.from_callback('publish')")
    return FromCallback(called, given_schema(schema), name=name)


@explained("sp.read.from_file('trades.csv')", name="sp.read.from_file")
def from_file(
    path: str | Path,
    format: str | None = None,  # noqa: A002 - as Spark calls it
    *,
    schema: SchemaLike | None = None,
    watch: bool = False,
    files_per_batch: int = 1,
    name: str | None = None,
    **options: Any,
) -> FromFile:
    """Reads files: a file, a folder of them, or a pattern such as ``trades/*.csv``. Each file is a batch.

    - ``format``: ``"csv"``, ``"json"`` or ``"parquet"``; by default the path's ending.
    - ``schema``: the columns. By default they are inferred from the files that exist at the first start.
    - ``watch``: True to read later files too. Otherwise the pipeline ends after the files that exist.
    - ``files_per_batch``: the number of files in one batch.
    - ``options``: of Spark's reader of that format, such as ``header=True``.
    - ``name``: by default ``from_file_1`` and so on.
    """
    where = str(path)
    file_format = format if format is not None else _FORMATS.get(Path(where).suffix.lower())
    if file_format is None or file_format not in _FORMATS.values():
        raise InvalidArgumentError(
            f"path={where!r}, format={format!r}: the format is not one of 'csv', 'json' and 'parquet'. Write, for "
            f"instance, sp.read.from_file({where!r}, 'csv', header=True); for other formats of Spark's "
            "sp.read.from_dataframe(spark.readStream.format(...).load(...))."
        )
    require_bool("watch", watch)
    each = require_count(files_per_batch, "files_per_batch", "files_per_batch=1")
    return FromFile(where, file_format, given_schema(schema), watch, each, options, name=name)


@explained("sp.read.from_csv('trades.csv')", name="sp.read.from_csv")
def from_csv(path: str | Path, *, header: bool = True, name: str | None = None, **options: Any) -> FromFile:
    """Reads CSV files, with a line of names first unless ``header=False``. The rest is as in :func:`from_file`."""
    require_bool("header", header)
    return from_file(path, "csv", name=name, header=header, **options)


@explained("sp.read.from_json('trades.json')", name="sp.read.from_json")
def from_json(path: str | Path, *, name: str | None = None, **options: Any) -> FromFile:
    """Reads JSON files with one record per line. The rest is as in :func:`from_file`."""
    return from_file(path, "json", name=name, **options)


@explained("sp.read.from_parquet('trades.parquet')", name="sp.read.from_parquet")
def from_parquet(path: str | Path, *, name: str | None = None, **options: Any) -> FromFile:
    """Reads Parquet files. The rest is as in :func:`from_file`."""
    return from_file(path, "parquet", name=name, **options)


@explained("sp.read.from_topic('trades')", name="sp.read.from_topic")
def from_topic(
    topic: str,
    *,
    broker: str | Broker | None = None,
    schema: SchemaLike | None = None,
    envelope: bool = False,
    name: str | None = None,
) -> FromTopic:
    """Reads a topic; see :mod:`mullion.topics`.

    - ``broker``: ``"dir:PATH"`` or ``"kafka://host:port"``; by default the App's broker.
    - ``schema``: the columns of its values. By default they are the columns of the topic at the first start.
    - ``envelope``: True for the columns ``_key`` and ``_timestamp`` in addition to those of the values.
    - ``name``: by default ``from_topic_1`` and so on.
    """
    if not isinstance(topic, str) or not topic:
        raise InvalidArgumentError(f"topic={topic!r} is not the name of a topic. Write sp.read.from_topic('trades').")
    require_bool("envelope", envelope)
    return FromTopic(
        topic, None if broker is None else topics.broker(broker), given_schema(schema), envelope, name=name
    )


@explained("sp.read.from_kafka('trades', 'localhost:9092')", name="sp.read.from_kafka")
def from_kafka(
    topic: str,
    brokers: str = "localhost:9092",
    *,
    options: Mapping[str, Any] | None = None,
    schema: SchemaLike | None = None,
    envelope: bool = False,
    name: str | None = None,
) -> FromTopic:
    """Reads a Kafka topic with JSON values, from its first record on. The rest is as in :func:`from_topic`.

    - ``brokers``: ``host:port``, several separated by commas.
    - ``options``: the connection options of the cluster, see :class:`mullion.topics.KafkaBroker`.
    """
    if not isinstance(brokers, str) or not brokers:
        raise InvalidArgumentError(
            f"brokers={brokers!r} is not an address of Kafka. Write, for instance, 'localhost:9092'."
        )
    return from_topic(topic, broker=KafkaBroker(brokers, options or {}), schema=schema, envelope=envelope, name=name)


@explained("sp.read.from_dataframe(spark.readStream.format('rate').load())", name="sp.read.from_dataframe")
def from_dataframe(df: DataFrame, *, name: str | None = None) -> FromDataFrame:
    """Reads a DataFrame of Spark: a stream, or a batch, which is the pipeline's only batch."""
    require_dataframe(df, "sp.read.from_dataframe() was given")
    return FromDataFrame(df, name=name)
