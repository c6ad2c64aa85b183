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
        kept = "by key"
    elif isinstance(window, SlidingWindow):
        kept = "by key and time"
    else:
        kept = "by key and range"
    said = {"records": kept}
    if table.key_type is not None:
        said["key_type"] = getattr(table.key_type, "__qualname__", None) or repr(table.key_type)
    if window is not None:
        said |= {"window": str(window.ident), "key_index": str(table.key_index)}
    return said


def differences(was: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """The reasons, in words, why a table's stored records would be missing or misread."""
    found = [
        f"{what} {was[name]}, and {would} {now[name]}"
        for name, what, would in (
            ("records", "its records are kept", "would now be kept"),
            ("key_type", "its keys are of the key_type", "would now be of"),
        )
        if name in was and name in now and was[name] != now[name]
    ]
    if not found and was.get("key_index") == "False" and now.get("key_index") == "True":
        found.append("it has not kept which keys there are, which key_index=True would list")
    return found


def changes(tables: Iterable[Table], noted: Mapping[str, Any]) -> dict[str, str]:
    """The tables that continue with another window, by name, described in words."""
    told = {}
    for table in tables:
        was, now = noted.get(table.name, {}), kept_as(table)
        if was.get("records") == now["records"] and was.get("window", now.get("window")) != now.get("window"):
            told[table.name] = (
                f"its window was {was['window']} and is now {now['window']}. Ranges that are open stay, and go when "
                "they are stale by the window that it has now; those of the new window begin with nothing"
            )
    return told
