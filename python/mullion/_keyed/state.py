"""The state of a Python function: records of bytes, stored by its task.

The store itself is in the JVM, opened at the micro-batch's initial version, and committed with it. The two communicate
over a Unix domain socket in frames of a length and a body, with big-endian numbers::

    request   u32 length | u8 operation | ...
    answer    u32 length | u8 status    | ...                    status 0: done, 1: failed, with the reason as text

Records are read into a cache, and writes are buffered there, so that a hot key needs no round trip. The buffer is sent
before a scan and when the function ends.
"""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, Final, Self

from mullion.errors import InvalidArgumentError, MullionError, error_of

EVENT: Final = "event"
WALL: Final = "wall"

_GET, _WRITE, _SCAN, _TIMERS, _DUE, _NEXT, _FAILED, _END, _LATE = range(1, 10)
_CLOCKS: Final = {EVENT: 0, WALL: 1}
# Whether the store has a written key, if known: that saves it a lookup.
_ABSENT, _PRESENT, _UNKNOWN = 0, 1, 2
_NONE: Final = -1
_ASK: Final[Any] = object()

_U32 = struct.Struct(">I")
_I32 = struct.Struct(">i")
_I64 = struct.Struct(">q")
_FLAG = struct.Struct(">BI")
_TIMER = struct.Struct(">BBqI")

_LONGEST: Final = 2**63
_RECORD_BYTES: Final = 150
_REQUEST_BYTES: Final = 4 << 20
_REQUEST_KEYS: Final = 4096


class State:
    """The records and timers of one shard partition, for one batch.

    Keys and values are ``bytes``. A write is visible to every later read, in all stages of the batch and in later
    batches; it is durable once the batch is committed. A retried batch starts from the previous state.

    - ``shard``: the number of the partition, from 0. Rows of one shard are always in the same one.
    - ``batch_id``: the number of the micro-batch; a retry has the same.
    - ``batch_time_us``: the wall clock of the batch, microseconds since the epoch; never the system's own.
    - ``watermark_us``: the event clock of the batch, microseconds since the epoch: the watermark of the function's
      input, in multiples of a millisecond, and 0 until there is one.
    """

    _cached_bytes = 64 << 20

    def __init__(self, connection: socket.socket, shard: int, batch_id: int, time_us: int, watermark_us: int) -> None:
        self.shard = shard
        self.batch_id = batch_id
        self.batch_time_us = time_us
        self.watermark_us = watermark_us
        self._connection = connection
        self._answers = connection.makefile("rb", buffering=1 << 16)
        self._cache: dict[bytes, bytes | None] = {}
        self._dirty: dict[bytes, int] = {}
        self._timers: dict[tuple[int, int, bytes], bool] = {}
        self._bytes = 0

    @classmethod
    def connect(cls, task_json: bytes) -> State:
        """The state for the task in the first frame of a stage."""
        header = json.loads(task_json)
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.connect(header["socket"])
        return cls(connection, header["shard"], header["batch"], header["time"], header["watermark"])

    def get(self, key: bytes) -> bytes | None:
        """The value of ``key``; ``None`` if there is none."""
        # One lookup for a cached key, without a check; invalid keys raise below.
        value: Any
        try:
            value = self._cache.get(key, _ASK)
        except TypeError:
            value = _ASK
        return self.get_many([key])[0] if value is _ASK else value

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of ``keys``, in their order: one round trip for those that are not cached."""
        for key in keys:
            _require_bytes("key", key)
        self._read([key for key in dict.fromkeys(keys) if key not in self._cache])
        values = [self._cache[key] for key in keys]
        self._trim()
        return values

    def put(self, key: bytes, value: bytes) -> None:
        """Sets the value of ``key``."""
        _require_bytes("key", key)
        _require_bytes("value", value)
        self._set(key, value)

    def delete(self, key: bytes) -> None:
        """Removes ``key``, if it exists."""
        _require_bytes("key", key)
        self._set(key, None)

    def scan(self, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """The current records whose keys begin with ``prefix``, in no particular order.

        Later writes are not included. The search uses the first 8 bytes of the prefix, so a key should begin with the
        prefix of its scans.
        """
        _require_bytes("prefix", prefix)
        self.flush()
        return self._scanned(self._ask(_SCAN, prefix))

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """All current records, in no particular order."""
        return self.scan()

    def put_timer(self, due_us: int, key: bytes, clock: str = EVENT) -> None:
        """Sets a timer of ``key`` at ``due_us``, microseconds since the epoch; repeated calls have no effect.

        When the clock reaches it, a batch runs, with or without rows, and the function is called in this partition: by
        the ``"event"`` clock (``watermark_us``) or the ``"wall"`` clock (``batch_time_us``). Timers by the wall clock
        need ``wall_timers=True``, and do not prolong a query whose trigger ends it.
        """
        self._set_timer(due_us, key, clock, present=True)

    def delete_timer(self, due_us: int, key: bytes, clock: str = EVENT) -> None:
        """Removes a timer, if it exists."""
        self._set_timer(due_us, key, clock, present=False)

    def due(
        self, until_us: int | None = None, clock: str = EVENT, *, since_us: int | None = None
    ) -> Iterator[tuple[int, bytes]]:
        """The timers due by ``until_us``, inclusive, in order of time, as ``(due_us, key)``; each is removed.

        ``None`` for the clock of this batch. With ``since_us`` earlier ones stay. Reads only the due ones. Timers that
        are not consumed from the iterator stay; those set meanwhile are not included.
        """
        until = until_us if until_us is not None else self._now(clock)
        since = since_us if since_us is not None else -_LONGEST
        _require_time("until_us", until)
        _require_time("since_us", since)
        self.flush()
        return self._taken(self._ask(_DUE, bytes([_clock(clock)]) + _I64.pack(until) + _I64.pack(since)), clock)

    def count_late(self, of: str, rows: int) -> None:
        """Counts rows that came too late for a change: the operator's metric ``rowsLate``.

        The executor's log reports it once per batch, with the name ``of``, a table's.
        """
        if rows:
            self._ask(_LATE, _I64.pack(rows) + of.encode())

    def flush(self) -> None:
        """Sends all buffered writes to the store. Never needed for reads from this object."""
        if self._dirty:
            self._send_records()
        if self._timers:
            self._send_timers()

    def _now(self, clock: str) -> int:
        return self.watermark_us if _clock(clock) == 0 else self.batch_time_us

    def _set(self, key: bytes, value: bytes | None) -> None:
        if key not in self._dirty:
            cached = self._cache.get(key, _ASK)
            self._dirty[key] = _UNKNOWN if cached is _ASK else _ABSENT if cached is None else _PRESENT
        self._cache[key] = value
        self._bytes += _RECORD_BYTES + len(key) + (len(value) if value else 0)
        if self._bytes > self._cached_bytes:
            self._trim()

    def _set_timer(self, due_us: int, key: bytes, clock: str, *, present: bool) -> None:
        _require_time("due_us", due_us)
        _require_bytes("key", key)
        self._timers[(_clock(clock), due_us, key)] = present
        if len(self._timers) * _RECORD_BYTES > self._cached_bytes:
            self._send_timers()

    def _trim(self) -> None:
        """Empties the cache when it is too large."""
        if self._bytes > self._cached_bytes:
            self.flush()
            self._cache.clear()
            self._bytes = 0

    def _read(self, keys: list[bytes]) -> None:
        for start in range(0, len(keys), _REQUEST_KEYS):
            requested = keys[start : start + _REQUEST_KEYS]
            answer = self._ask(_GET, b"".join([part for key in requested for part in (_U32.pack(len(key)), key)]))
            at = 0
            for key in requested:
                (length,) = _I32.unpack_from(answer, at)
                at += 4
                value = None
                if length != _NONE:
                    value = answer[at : at + length]
                    at += length
                self._cache[key] = value
                self._bytes += _RECORD_BYTES + len(key) + len(value or b"")

    def _send_records(self) -> None:
        parts: list[bytes] = []
        size = 0
        for key, there in self._dirty.items():
            value = self._cache[key]
            if value is None and there == _ABSENT:
                continue
            parts += (_FLAG.pack(there, len(key)), key)
            parts += (_I32.pack(_NONE),) if value is None else (_I32.pack(len(value)), value)
            size += len(key) + len(value or b"")
            if size > _REQUEST_BYTES:
                self._ask(_WRITE, b"".join(parts))
                parts, size = [], 0
        if parts:
            self._ask(_WRITE, b"".join(parts))
        self._dirty.clear()

    def _send_timers(self) -> None:
        parts: list[bytes] = []
        size = 0
        for (clock, due_us, key), present in self._timers.items():
            parts += (_TIMER.pack(present, clock, due_us, len(key)), key)
            size += len(key)
            if size > _REQUEST_BYTES:
                self._ask(_TIMERS, b"".join(parts))
                parts, size = [], 0
        if parts:
            self._ask(_TIMERS, b"".join(parts))
        self._timers.clear()

    def _chunks(self, answer: bytes) -> Iterator[tuple[bytes, int, int]]:
        """The chunks of a running scan: their bytes, the start of their records, and their number."""
        while True:
            number, more, records = struct.unpack_from(">IBI", answer)
            yield answer, 9, records
            if not more:
                return
            answer = self._ask(_NEXT, _U32.pack(number))

    def _scanned(self, first: bytes) -> Iterator[tuple[bytes, bytes]]:
        for chunk, at, records in self._chunks(first):
            for _ in range(records):
                key, at = _bytes_at(chunk, at)
                value, at = _bytes_at(chunk, at)
                yield key, value

    def _taken(self, first: bytes, clock: str) -> Iterator[tuple[int, bytes]]:
        for chunk, at, records in self._chunks(first):
            for _ in range(records):
                (due_us,) = _I64.unpack_from(chunk, at)
                key, at = _bytes_at(chunk, at + 8)
                self._set_timer(due_us, key, clock, present=False)
                yield due_us, key

    def _ask(self, operation: int, body: bytes) -> bytes:
        self._connection.sendall(_U32.pack(len(body) + 1) + bytes([operation]) + body)
        (length,) = _U32.unpack(self._answer(4))
        answer = self._answer(length)
        if answer[0] != 0:
            condition, _, message = answer[1:].decode().partition("\n")
            raise error_of(condition, message)
        return answer[1:]

    def _answer(self, length: int) -> bytes:
        answer: bytes = self._answers.read(length)
        if len(answer) != length:
            raise MullionError("The task ended while a function still used its state.")
        return answer

    def _failed(self, condition: str, message: str) -> None:
        """Reports to the task why the function failed, for the query's error."""
        self._ask(_FAILED, f"{condition}\n{message}".encode(errors="replace"))

    def _end(self) -> None:
        self.flush()
        self._ask(_END, b"")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._answers.close()
        self._connection.close()


def _bytes_at(chunk: bytes, at: int) -> tuple[bytes, int]:
    (length,) = _U32.unpack_from(chunk, at)
    end = at + 4 + length
    return chunk[at + 4 : end], end


def _clock(clock: str) -> int:
    number = _CLOCKS.get(clock)
    if number is None:
        raise InvalidArgumentError(f"clock={clock!r} is neither 'event' nor 'wall'.")
    return number


def _require_bytes(name: str, value: Any) -> None:
    if not isinstance(value, bytes):
        raise InvalidArgumentError(
            f"{name}={value!r} ({type(value).__name__}) is not bytes, and state holds nothing else. Encode it first, "
            "as text with .encode() or as JSON with json.dumps(...).encode()."
        )


def _require_time(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not -_LONGEST <= value < _LONGEST:
        raise InvalidArgumentError(
            f"{name}={value!r} ({type(value).__name__}) is not a time in whole microseconds since the epoch."
        )
