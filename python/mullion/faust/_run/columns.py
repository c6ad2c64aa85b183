"""The columns of a topic that nobody has written to, as far as the type of its values says them.

::

    class Login(faust.Record):
        user: str                  user string
        count: int                 count bigint
        at: datetime               none: it is a text, or a number
        where: Place               none: a record in it

A value that has more than the columns is read in Python as it is: so what is not certain has none.
"""

from __future__ import annotations

import types
import typing
from typing import Any, Final

from mullion.faust.models import Record

_KINDS: Final = {str: "string", int: "bigint", float: "double", bool: "boolean"}


def columns_of(kind: Any) -> str | None:
    """The columns as DDL; ``None`` where the type says none for certain.

    >>> columns_of(int)
    'value bigint'
    """
    if kind in _KINDS:
        return f"value {_KINDS[kind]}"
    if isinstance(kind, type) and issubclass(kind, Record):
        if kind._options.reading.coerce:
            # Such fields are sent in other types too.
            return None
        plain = {name: _plain(one) for name, one in kind._types().items()}
        found = [f"`{name}` {_KINDS[one]}" for name, one in plain.items() if one is not None]
        return ", ".join(found) or None
    return None


def _plain(kind: Any) -> Any:
    """The plain type that a field is of, or may be of; ``None`` for any other."""
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        arms = [arm for arm in typing.get_args(kind) if arm is not type(None)]
        kind = arms[0] if len(arms) == 1 else None
    return kind if kind in (str, int, float, bool) else None
