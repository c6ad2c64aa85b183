"""Topics: named, ordered streams of rows, in a folder or in Kafka.

``broker="dir:PATH"`` is a broker without a server: a topic is a folder of Parquet files, which Spark reads and writes
exactly once. ``broker="kafka://host:port"`` is Kafka, with JSON values. This module is for tests, examples and
notebooks; programs that process topics use an ``App``.

>>> import tempfile
>>> broker = f"dir:{tempfile.mkdtemp()}"
>>> produce(broker, "orders", [{"region": "north", "amount": 5}, {"region": "south"}], timestamps=[0.5, 1.0])
>>> read(broker, "orders").to_pylist()[0]
{'region': 'north', 'amount': 5, '_key': None, '_timestamp': 0.5}
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from mullion._util.clock import Clock
from mullion._util.codec.arrow import decoded, encoded
from mullion.topics._broker import Broker, Publisher, has_columns
from mullion.topics._folder.broker import DirBroker
from mullion.topics._kafka.broker import KafkaBroker
from mullion.topics._outputs import OUTPUTS, OUTPUTS_WITH_HEADERS, OUTPUTS_WITH_TIMES
from mullion.topics._records import Data, HeadersOfRows
from mullion.topics._urls import broker

__all__ = [
    "OUTPUTS",
    "OUTPUTS_WITH_HEADERS",
    "OUTPUTS_WITH_TIMES",
    "Broker",
    "DirBroker",
    "KafkaBroker",
    "Publisher",
    "broker",
    "decoded",
    "encoded",
    "has_columns",
    "produce",
    "read",
]


def produce(
    broker: str | Broker,
    topic: str,
    data: Data,
    timestamps: Iterable[float] | None = None,
    keys: Sequence[str | None] | None = None,
    *,
    clock: Clock | None = None,
    headers: HeadersOfRows | None = None,
) -> None:
    """Appends rows to a topic. It creates the topic if it does not exist.

    - ``broker``: ``"dir:PATH"`` or ``"kafka://host:port"``, or the result of :func:`broker`.
    - ``data``: rows as dicts, or an Arrow RecordBatch or Table. A value that is not a record, such as a number or a
      text, becomes a row with the single column ``value``.
    - ``timestamps``: one for each row, in seconds since the epoch. By default all rows have the time of ``clock``.
    - ``keys``: one for each row, text or ``None``.
    - ``clock``: the clock for default timestamps; the machine's clock by default.
    - ``headers``: for Kafka, one for each row: ``{"name": b"bytes"}``, a list of such pairs, or ``None``.

    One call is one micro-batch of a ``dir:`` topic. The schema of the topic is the union over all calls. Integers
    and floats in one column become floats, a column of nulls fits any type, and a column that a call lacks is null in
    its rows.

    Raises :class:`InvalidArgumentError` when there are no rows, when there are more or fewer keys or timestamps than
    rows, when a column has values of two types, in the call or in the topic, and when a name is reserved.
    """
    _broker(broker).produce(topic, data, timestamps, keys, clock=clock, headers=headers)


def read(broker: str | Broker, topic: str, *, headers: bool = False) -> pa.Table:
    """Reads all rows of a topic, in order, as an Arrow table.

    The columns are the fields of the values, ``_key`` (string) and ``_timestamp`` (seconds since the epoch, double). A
    value that is not a record is in the column ``value``. A topic without messages is empty.

    With ``headers`` there is ``_headers`` too: a list of ``key`` and ``value`` (bytes). Only Kafka topics have them.

    Raises :class:`UnsupportedError` for the headers of a ``dir:`` topic.
    """
    return _broker(broker).read(topic, headers=headers)


_broker = broker
