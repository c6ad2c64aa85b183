"""Tables of values by key, without windows.

A table is declared once, as a global variable of a module, and its records are kept in the shard of the current event.
Only an event can change it. Values are saved by assignment: a value that is changed in place must be assigned back, or
a :class:`ForgottenChangeWarning` is issued.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import GenericAlias
from typing import Any, ClassVar

from mullion.errors import InvalidArgumentError
from mullion.faust._context import context, event_for
from mullion.faust._public_names.unsupported import missing_attribute
from mullion.faust.tables.ansi_table import draw_table
from mullion.faust.tables.records import MISSING, TableData
from mullion.faust.windows import WindowT

__all__ = ["PlainTable"]


class PlainTable:
    """A dict of which each shard holds its own keys: a :class:`Table` without the methods for windows."""

    def __init__(
        self,
        name: str,
        *,
        default: Callable[[], Any] | None = None,
        key_type: Any = None,
        value_type: Any = None,
        on_window_close: Callable[[Any, Any], Any] | None = None,
    ) -> None:
        if not isinstance(name, str) or not name or not all(c.isalnum() or c in "._-" for c in name):
            raise InvalidArgumentError(
                f"{name!r} is not the name of a table. Use letters, digits, '.', '_' and '-', as in Table('totals')."
            )
        if default is not None and not callable(default):
            raise InvalidArgumentError(
                f"default={default!r} of the table {name!r} is a value; it must make one. Write default=lambda: "
                f"{default!r}."
            )
        self.name = name
        self.default = default
        self.key_type = key_type
        self.value_type = value_type
        self.on_window_close = on_window_close
        self.window: WindowT | None = None
        self.key_index = False
        self.is_global = False
        self.changelog: Any = None
        self.on_recovered: list[Callable[[], Any]] = []

    __class_getitem__: ClassVar[Any] = classmethod(GenericAlias)

    # -- the dict

    def __getitem__(self, key: Any) -> Any:
        data = self._reads(key)
        value = data.get(key)
        if value is MISSING:
            value = data.default(key)
        if value is MISSING:
            raise KeyError(key)
        return value

    def __setitem__(self, key: Any, value: Any) -> None:
        self._put(self._writes(key), key, value)

    def __delitem__(self, key: Any) -> None:
        if not self._delete(self._writes(key), key):
            raise KeyError(key)

    def __contains__(self, key: Any) -> bool:
        return self._reads(key).get(key) is not MISSING

    def __iter__(self) -> Iterator[Any]:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self.keys())

    def __bool__(self) -> bool:
        # Always true: programs test for the existence of a table more often than for an empty shard.
        return True

    def __getattr__(self, name: str) -> Any:
        raise missing_attribute("table", self, name)

    def get(self, key: Any, default: Any = None) -> Any:
        """Returns the value of a key, or ``default`` (not the table's default)."""
        value = self._reads(key).get(key)
        return default if value is MISSING else value

    def keys(self) -> list[Any]:
        """Returns the keys of this shard."""
        return [key for key, _ in self.items()]

    def values(self) -> list[Any]:
        """Returns the values of this shard."""
        return [value for _, value in self.items()]

    def items(self) -> list[tuple[Any, Any]]:
        """Returns the keys and values of this shard."""
        return self._all_keys(f"The table {self.name!r} was read").items()

    def pop(self, key: Any, default: Any = MISSING) -> Any:
        """Removes a key and returns its value, or ``default``.

        Raises ``KeyError`` for a missing key without default.
        """
        data = self._writes(key)
        value = data.get(key)
        if value is not MISSING:
            self._delete(data, key)
            return value
        if default is MISSING:
            raise KeyError(key)
        return default

    def setdefault(self, key: Any, default: Any = None) -> Any:
        """Returns the value of a key, after setting a missing key to ``default``."""
        data = self._writes(key)
        value = data.get(key)
        if value is MISSING:
            self._put(data, key, default)
            value = default
        return value

    def update(self, other: Mapping[Any, Any] | Iterable[tuple[Any, Any]] = (), **named: Any) -> None:
        """Sets several keys."""
        for key, value in {**dict(other), **named}.items():
            self[key] = value

    def clear(self) -> None:
        """Removes all keys of this shard."""
        event_for(f"{self.name} was cleared")
        data = self._all_keys("")
        for key, _ in data.items():
            self._delete(data, key)

    def on_recover(self, function: Callable[[], Any]) -> Callable[[], Any]:
        """Adds a function that is called when the program starts, with the table as the last run left it."""
        self.on_recovered.append(function)
        return function

    def copy(self) -> dict[Any, Any]:
        """Returns a copy of the keys and values of this shard, as a dict."""
        return dict(self.items())

    def as_ansitable(
        self,
        title: str = "{table.name}",
        *,
        key: str = "Key",
        value: str = "Value",
        sort: bool = False,
        sortkey: Callable[[Any], Any] = lambda row: row[0],
        **_: Any,
    ) -> str:
        """Formats the keys and values of this shard as a table for a terminal."""
        return draw_table(self.items(), title.format(table=self), key, value, sortkey if sort else None)

    def __repr__(self) -> str:
        return f"<Table: {self.name}>"

    def _put(self, data: TableData, key: Any, value: Any) -> None:
        data.put(key, value)
        if self.changelog is not None:
            self.changelog.send(key=key, value=value)

    def _delete(self, data: TableData, key: Any) -> bool:
        there = data.delete(key)
        if there and self.changelog is not None:
            self.changelog.send(key=key, value=None)
        return there

    def _all_keys(self, doing: str) -> TableData:
        current = context(doing)
        current.shard.require_all_keys(self.name, current.event)
        data: TableData = current.shard.data(self)
        return data

    def _reads(self, key: Any) -> TableData:
        current = context(f"{self.name}[{key!r}] was read")
        current.shard.require_own(self.name, key, current.event)
        data: TableData = current.shard.data(self)
        return data

    def _writes(self, key: Any) -> TableData:
        event = event_for(f"{self.name}[{key!r}] was changed")
        shard = context("").shard
        shard.require_own(self.name, key, event)
        data: TableData = shard.data(self)
        return data
