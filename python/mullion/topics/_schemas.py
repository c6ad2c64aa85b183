"""The schema of a stream: as it is given, and as it is remembered from one start of a query to the next."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.types import DataType, StructType

from mullion._files import json_in, reading, replace_text
from mullion.errors import InvalidArgumentError
from mullion.topics import _types
from mullion.topics._broker import SchemaLike
from mullion.topics._records import RESERVED


def given_schema(schema: SchemaLike | None) -> SchemaLike | None:
    """A schema that was given, to be kept until a query starts; raises what :func:`spark_schema` does.

    Spark reads DDL in a session. A program is imported before there is one: the text is kept as it is then.
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
    """A schema that was given, as Spark's type, nullable throughout; raises :class:`InvalidArgumentError`."""
    if isinstance(schema, str):
        try:
            parsed: DataType = StructType.fromDDL(schema)
        except PySparkException as theirs:
            if theirs.getCondition() == "SESSION_OR_CONTEXT_NOT_EXISTS":
                raise NoSessionError(
                    f"schema={schema!r} is DDL, which Spark reads in a session, and there is none. Make the session "
                    "first, or give a StructType or a pyarrow Schema."
                ) from theirs
            raise InvalidArgumentError(
                f"schema={schema!r} is not a schema as DDL. Write, for instance, schema='region string, amount double'."
            ) from theirs
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
    """The schema that an earlier start wrote, if there was one."""
    if file is None or not Path(file).exists():
        return None
    said = json_in(Path(file), dict)
    with reading(file):
        return StructType.fromJson(said)


def remember(file: str | os.PathLike[str] | None, schema: StructType) -> None:
    """Writes a schema for later starts."""
    if file is not None:
        replace_text(Path(file), schema.json())
