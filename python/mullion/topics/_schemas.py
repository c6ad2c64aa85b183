"""The schema of a stream: as an argument, and as stored between starts of a query."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.types import StructType

from mullion._bridge.ddl import type_of
from mullion._util.files import json_in, reading, replace_text
from mullion.errors import InvalidArgumentError
from mullion.topics import _types
from mullion.topics._broker import SchemaLike
from mullion.topics._records import RESERVED


def given_schema(schema: SchemaLike | None) -> SchemaLike | None:
    """A schema argument, to be kept until a query starts. Raises the errors of :func:`spark_schema`.

    Spark parses DDL only in a session. Without one, as when a program is imported, the text is returned unchanged.
    """
    if schema is None:
        return None
    try:
        return spark_schema(schema)
    except NoSessionError:
        return schema


class NoSessionError(InvalidArgumentError):
    """Spark cannot read DDL yet."""


def spark_schema(schema: object) -> StructType:
    """A schema argument as a Spark type, nullable everywhere. Raises :class:`InvalidArgumentError`."""
    if isinstance(schema, str):
        try:
            parsed = type_of(schema, "schema", "region string, amount double", kind="schema")
        except PySparkException as error:
            raise NoSessionError(
                f"schema={schema!r} is DDL, which Spark reads in a session, and there is none. Make the session first, "
                "or give a StructType or a pyarrow Schema."
            ) from error
    elif isinstance(schema, pa.Schema):
        try:
            parsed = _types.schema_of(schema)
        except _types.UnstorableError as no_type:
            raise InvalidArgumentError(f"schema= has the Arrow type {no_type}, which Spark has none for.") from None
    elif isinstance(schema, StructType):
        parsed = schema
    else:
        raise InvalidArgumentError(
            f"schema={schema!r} ({type(schema).__name__}) is not a schema. Give DDL, as in 'region string, amount "
            "double', a StructType or a pyarrow Schema."
        )
    assert isinstance(parsed, StructType)
    for name in parsed.names:
        if name in RESERVED:
            raise InvalidArgumentError(f"schema= has the column {name!r}, which is the topic's own. Leave it out.")
    if not parsed.names:
        raise InvalidArgumentError("schema= has no columns. Name those of the topic's values.")
    fitted = _types.nullable(parsed)
    assert isinstance(fitted, StructType)
    return fitted


def remembered_schema(file: str | os.PathLike[str] | None) -> StructType | None:
    """The schema of an earlier start, if any."""
    if file is None or not Path(file).exists():
        return None
    schema = json_in(Path(file), dict)
    with reading(file):
        return StructType.fromJson(schema)


def remember(file: str | os.PathLike[str] | None, schema: StructType) -> None:
    """Writes a schema for later starts."""
    if file is not None:
        replace_text(Path(file), schema.json())
