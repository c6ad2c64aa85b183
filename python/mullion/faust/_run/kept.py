"""What the records of tables mean, as far as it follows from a program: noted beside them, and compared at each start.

::

    no window               by key
    a window with ranges    by key and range: another size goes on, and its ranges begin with nothing
    a sliding window        by key and time, of which each time has what happened

What is kept in one way would not be found in another, or be taken for what it is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mullion.faust.tables.table import Table
from mullion.faust.windows import SlidingWindow


def kept_as(table: Table) -> dict[str, str]:
    """What the records of a table mean, by what it is of, in words."""
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
    """Why what is kept of a table would not be found, or be taken for something else; in words."""
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
    """What goes on in another way than it was, by the names of tables; in words."""
    told = {}
    for table in tables:
        was, now = noted.get(table.name, {}), kept_as(table)
        if was.get("records") == now["records"] and was.get("window", now.get("window")) != now.get("window"):
            told[table.name] = (
                f"its window was {was['window']} and is now {now['window']}. Ranges that are open stay, and go when "
                "they are stale by the window that it has now; those of the new window begin with nothing"
            )
    return told
