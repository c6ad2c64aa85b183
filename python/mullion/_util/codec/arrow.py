"""Arrow batches and schemas as bytes and text: IPC streams with one batch or many."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import pyarrow as pa


def encoded(rows: pa.RecordBatch | pa.Table) -> bytes:
    """A RecordBatch or Table as one Arrow IPC stream."""
    data: bytes = buffer_of(rows).to_pybytes()
    return data


def buffer_of(rows: pa.RecordBatch | pa.Table) -> pa.Buffer:
    """The same, without a copy."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write(rows)
    return sink.getvalue()


def decoded(data: bytes | pa.Buffer) -> pa.RecordBatch:
    """The RecordBatch in the bytes of :func:`encoded`."""
    with pa.ipc.open_stream(data) as reader:
        return reader.read_next_batch()


def batches_in(data: bytes | pa.Buffer) -> Iterator[pa.RecordBatch]:
    """The RecordBatches of a stream, in order."""
    yield from pa.ipc.open_stream(data)


def table_in(data: bytes | pa.Buffer) -> pa.Table:
    """The Table in the bytes of :func:`encoded`."""
    return pa.ipc.open_stream(data).read_all()


def schema_in(data: bytes | pa.Buffer) -> pa.Schema:
    """The schema in the bytes of ``schema.serialize()``."""
    return pa.ipc.read_schema(pa.py_buffer(data))


def text_of_schema(schema: pa.Schema) -> str:
    """A schema as text, for a file of JSON."""
    return base64.b64encode(schema.serialize().to_pybytes()).decode()


def schema_of_text(text: str) -> pa.Schema:
    """The schema in the text of :func:`text_of_schema`."""
    return schema_in(base64.b64decode(text))
