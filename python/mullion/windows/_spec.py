"""Helpers of specs: setting the fields of a frozen value, comparing them, and options that several have."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column

from mullion._util import durations
from mullion._util.durations import Duration
from mullion.errors import InvalidArgumentError


def hold(spec: object, **fields: object) -> None:
    """Sets the fields of a frozen value in its constructor."""
    for name, value in fields.items():
        object.__setattr__(spec, name, value)


def name_of(function: object) -> str:
    """The name of a function in a checkpoint and in a ``repr``."""
    return str(getattr(function, "__qualname__", type(function).__qualname__)).rsplit("<locals>.", 1)[-1]


def column_of_row(column: object, example: str) -> Column | str:
    """A column of the input, or its name."""
    if isinstance(column, (Column, str)):
        return column
    raise InvalidArgumentError(
        f"{column!r} ({type(column).__name__}) is neither a column's name nor a Column. Write, for instance, {example}."
    )


def same_parts(mine: Sequence[object], others: Sequence[object]) -> bool:
    """True if specs have equal fields. Columns cannot be compared, so they must be the same objects."""
    return all(
        one is other if isinstance(one, Column) or isinstance(other, Column) else one == other
        for one, other in zip(mine, others, strict=True)
    )


def hashable_parts(parts: Sequence[object]) -> tuple[object, ...]:
    """The fields of a spec, with columns replaced by their identity."""
    return tuple(id(part) if isinstance(part, Column) else part for part in parts)


def forgetting(after: Duration | None, example: str) -> int | None:
    """The time without rows after which a key is forgotten, in microseconds.

    Raises :class:`InvalidArgumentError` unless it is ``None`` or a duration longer than zero.
    """
    return None if after is None else durations.positive(after, "forget_after", example)
