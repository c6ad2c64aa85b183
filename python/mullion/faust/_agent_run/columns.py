"""The initial columns of a topic without messages, from the type of its values.

::

    class Login(faust.Record):
        user: str                  user string
        count: int                 count bigint
        at: datetime               none: its JSON is text or a number
        where: Place               none: a nested record

Python reads a value that does not fit the columns, so a column exists only if its type is certain.
"""

from __future__ import annotations

import types
import typing
from typing import Any, Final

from mullion.faust.models import Record

_KINDS: Final = {str: "string", int: "bigint", float: "double", bool: "boolean"}


def columns_of(kind: Any) -> str | None:
    """Returns the columns as DDL; ``None`` if the type determines none.

    >>> columns_of(int)
    'value bigint'
    """
    if kind in _KINDS:
        return f"value {_KINDS[kind]}"
    if isinstance(kind, type) and issubclass(kind, Record):
        if kind._options.reading.coerce:
            # The messages of such fields may have other types too.
            return None
        plain = {name: _plain_type(one) for name, one in kind._types().items()}
        columns = [f"`{name}` {_KINDS[one]}" for name, one in plain.items() if one is not None]
        return ", ".join(columns) or None
    return None


def _plain_type(kind: Any) -> Any:
    """The plain type of a field, which may be optional; ``None`` for any other type."""
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        arms = [arm for arm in typing.get_args(kind) if arm is not type(None)]
        kind = arms[0] if len(arms) == 1 else None
    return kind if kind in (str, int, float, bool) else None
