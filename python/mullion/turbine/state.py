"""``TurbineState``: the state that ``process`` and the callbacks of a shard share between calls, and over restarts.

It is a mapping from text to plain values. Within a tick ``process`` runs first, then the early callbacks, then the
close callbacks, and each sees the writes of the earlier ones. Spark's state store saves it with the micro-batch: a
batch that runs again starts from the state before it.

Values are JSON values (``None``, bool, int, float, str, lists and dicts with text for keys; tuples are read back as
lists) and Arrow's RecordBatches and Tables. A list or dict of the state may be changed in place: the changes of a call
of ``process`` or of a callback are saved when the call returns::

    state.setdefault("seen", {})[window.group["host"]] = window.end_ms
    state.setdefault("hosts", []).append(window.group["host"])

Changes to a value that ``self`` keeps from an earlier call are not saved: read the value again in each call.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, MutableMapping, Sequence
from typing import Any, Final, final

import pyarrow as pa

from mullion._keyed.calls import Undo
from mullion._keyed.journal import RecordJournal
from mullion._keyed.store import Records
from mullion._util.codec import arrow
from mullion.errors import InvalidArgumentError, UnsupportedError

__all__ = ["TurbineState"]

_KEY: Final = b"turbine:"
_JSON, _BATCH, _TABLE = b"j", b"b", b"t"
_ABSENT: Final = object()
_PLAIN: Final = (bool, int, float, str, type(None))


@final
class TurbineState(MutableMapping[str, Any]):
    """The state of one shard; see the module. Without records it is a plain mapping, for unit tests of callbacks."""

    __slots__ = ("_loaded", "_records")

    def __init__(self, records: Records | None = None) -> None:
        self._records = Scratch() if records is None else records
        # The lists and dicts that the running call has read, each with its saved bytes.
        self._loaded: dict[str, tuple[Any, bytes]] = {}

    def get(self, key: str, default: Any = None) -> Any:
        """The value under ``key``, or ``default``."""
        loaded = self._loaded.get(key)
        if loaded is not None:
            return loaded[0]
        saved = self._records.get(_key(key))
        if saved is None:
            return default
        value = _decode(saved)
        self._hold(key, value, saved)
        return value

    def __getitem__(self, key: str) -> Any:
        value = self.get(key, _ABSENT)
        if value is _ABSENT:
            raise KeyError(key)
        return value

    def __setitem__(self, key: str, value: Any) -> None:
        encoded = _encode(key, value)
        self._records.put(_key(key), encoded)
        self._loaded.pop(key, None)
        self._hold(key, value, encoded)

    def __delitem__(self, key: str) -> None:
        if key not in self:
            raise KeyError(key)
        self._loaded.pop(key, None)
        self._records.delete(_key(key))

    def _hold(self, key: str, value: Any, saved: bytes) -> None:
        if isinstance(value, (list, dict)):
            self._loaded[key] = value, saved

    def _save_changes(self) -> None:
        for key, (value, saved) in self._loaded.items():
            encoded = _encode(key, value)
            if encoded != saved:
                self._records.put(_key(key), encoded)
        self._loaded.clear()

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self._records.get(_key(key)) is not None

    def __iter__(self) -> Iterator[str]:
        for key, _ in self._records.scan(_KEY):
            yield key[len(_KEY) :].decode()

    def __len__(self) -> int:
        return sum(1 for _ in self._records.scan(_KEY))

    def __repr__(self) -> str:
        return f"TurbineState({dict(self)!r})"


def save_changes(state: object) -> None:
    """Saves the changes that a call made within values of the state, when it has returned."""
    if isinstance(state, TurbineState):
        state._save_changes()


@final
class StateJournal(RecordJournal):
    """The state of a shard, with undo of the writes of a failed call."""

    def __init__(self, records: Records) -> None:
        super().__init__(records)
        self.state: Final = TurbineState(self)

    def undo(self) -> None:
        """Undoes the writes since :meth:`begin`."""
        self.state._loaded.clear()
        super().undo()


def state_of(records: Records, on_error: str) -> tuple[TurbineState, Sequence[Undo]]:
    """The state of a shard; with ``on_error="skip"`` also its journal, which undoes the writes of failed calls."""
    if on_error == "stop":
        return TurbineState(records), ()
    journal = StateJournal(records)
    return journal.state, [journal]


@final
class Scratch:
    """Records in a dict."""

    def __init__(self) -> None:
        self._records: dict[bytes, bytes] = {}

    def get(self, key: bytes) -> bytes | None:
        return self._records.get(key)

    def put(self, key: bytes, value: bytes) -> None:
        self._records[key] = value

    def delete(self, key: bytes) -> None:
        self._records.pop(key, None)

    def scan(self, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """The records whose keys begin with ``prefix``."""
        return iter([record for record in self._records.items() if record[0].startswith(prefix)])


@final
class NoState:
    """A placeholder for the state, for code that does not read it."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise self._unsupported_use()

    def __getitem__(self, key: object) -> Any:
        raise self._unsupported_use()

    def __setitem__(self, key: object, value: object) -> None:
        raise self._unsupported_use()

    def __delitem__(self, key: object) -> None:
        raise self._unsupported_use()

    def __contains__(self, key: object) -> bool:
        raise self._unsupported_use()

    def _unsupported_use(self) -> UnsupportedError:
        return UnsupportedError(
            "The state is used here in a way that cannot be seen in the code. Use it by its parameter's name, as in "
            "state.get('count', 0)."
        )


def _key(key: object) -> bytes:
    if not isinstance(key, str):
        raise InvalidArgumentError(
            f"state[{key!r}] ({type(key).__name__}): the keys of the state are text. Write state[str(...)]."
        )
    return _KEY + key.encode()


def _encode(key: str, value: Any) -> bytes:
    if isinstance(value, (pa.RecordBatch, pa.Table)):
        return (_BATCH if isinstance(value, pa.RecordBatch) else _TABLE) + arrow.encoded(value)
    _require_plain(key, value)
    return _JSON + json.dumps(value, separators=(",", ":")).encode()


def _decode(value: bytes) -> Any:
    kind, data = value[:1], value[1:]
    if kind == _JSON:
        return json.loads(data)
    table = arrow.table_in(data)
    if kind == _TABLE:
        return table
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)


def _require_plain(key: str, value: Any) -> None:
    if isinstance(value, _PLAIN):
        return
    if isinstance(value, (list, tuple)):
        for each in value:
            _require_plain(key, each)
        return
    if isinstance(value, dict) and all(isinstance(name, str) for name in value):
        for each in value.values():
            _require_plain(key, each)
        return
    odd = f"{value!r} ({type(value).__name__})"
    if isinstance(value, dict):
        odd = f"a dict with the key {next(name for name in value if not isinstance(name, str))!r}"
    raise InvalidArgumentError(
        f"state[{key!r}] = {odd}: the state holds what JSON does (None, bool, int, float, str, lists, dicts with text "
        "for keys) and Arrow's batches and tables. Convert it first."
    )
