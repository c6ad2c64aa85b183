"""The text form of a table for a terminal: ``table.as_ansitable()``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any


def draw_table(
    rows: Iterable[tuple[Any, Any]], title: str, key: str, value: str, sortkey: Callable[[Any], Any] | None = None
) -> str:
    """Formats keys and values in two columns under a title.

    >>> print(drawn([("b", 2), ("a", 1)], "views", "page", "n", lambda row: row[0]))
    +views+---+
    | page | n |
    +------+---+
    | a    | 1 |
    | b    | 2 |
    +------+---+
    """
    ordered = sorted(rows, key=sortkey) if sortkey is not None else list(rows)
    lines = [(str(key), str(value)), *((str(k), str(v)) for k, v in ordered)]
    first, second = (max(len(line[at]) for line in lines) for at in (0, 1))
    edge = f"+{'-' * (first + 2)}+{'-' * (second + 2)}+"
    top = f"+{title}".ljust(first + 3, "-") + f"+{'-' * (second + 2)}+" if len(title) < first + 3 else f"+{title}+"
    body = [f"| {k.ljust(first)} | {v.ljust(second)} |" for k, v in lines]
    return "\n".join([top, body[0], edge, *body[1:], edge])
