"""The meaning of tables' records, as far as it follows from the program: stored with the state, compared at each start.

::

    no window               by key
    a window with ranges    by key and range: with another size it continues, and the new ranges start empty
    a sliding window        by key and time: the changes at each time

Records that are stored in one way would be missing, or misread, in another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mullion.faust.tables.table import Table
from mullion.faust.windows import SlidingWindow


def kept_as(table: Table) -> dict[str, str]:
    """A description of the meaning of a table's records, by property."""
    window = table.window
    if window is None:
        layout = "by key"
    elif isinstance(window, SlidingWindow):
        layout = "by key and time"
    else:
        layout = "by key and range"
    meaning = {"records": layout}
    if table.key_type is not None:
        meaning["key_type"] = getattr(table.key_type, "__qualname__", None) or repr(table.key_type)
    if window is not None:
        meaning |= {"window": str(window.ident), "key_index": str(table.key_index)}
    return meaning


def differences(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """The reasons, in words, why a table's stored records would be missing or misread."""
    reasons = [
        f"{what} {before[name]}, and {would} {now[name]}"
        for name, what, would in (
            ("records", "its records are kept", "would now be kept"),
            ("key_type", "its keys are of the key_type", "would now be of"),
        )
        if name in before and name in now and before[name] != now[name]
    ]
    if not reasons and before.get("key_index") == "False" and now.get("key_index") == "True":
        reasons.append("it has not kept which keys there are, which key_index=True would list")
    return reasons


def changes(tables: Iterable[Table], noted: Mapping[str, Any]) -> dict[str, str]:
    """The tables that continue with another window, by name, described in words."""
    changes_by_table = {}
    for table in tables:
        before, now = noted.get(table.name, {}), kept_as(table)
        if before.get("records") == now["records"] and before.get("window", now.get("window")) != now.get("window"):
            changes_by_table[table.name] = (
                f"its window was {before['window']} and is now {now['window']}. Ranges that are open stay, and go when "
                "they are stale by the window that it has now; those of the new window begin with nothing"
            )
    return changes_by_table
