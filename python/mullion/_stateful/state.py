"""State as a Python function sees it: records of bytes, kept by the task that it runs in.

The store itself is in the JVM, opened at the version that the micro-batch starts from, and committed with it. The two
talk over a Unix domain socket in frames of a length and a body, whose numbers are big-endian::

    request   u32 length | u8 operation | ...
    answer    u32 length | u8 status    | ...                    status 0: done, 1: failed, with the reason as text

Records are read into a cache, and writes wait there, so that a hot key costs no round trip. Everything that waits is
sent before a scan and when the function ends.
"""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, Final, Self

from mullion.errors import InvalidArgumentError, MullionError, error_of

EVENT: Final = "event"
WALL: Final = "wall"

_GET, _WRITE, _SCAN, _TIMERS, _DUE, _NEXT, _FAILED, _END, _LATE = range(1, 10)
_CLOCKS: Final = {EVENT: 0, WALL: 1}
# What the store is known to have under a key that is written: it saves the store a look.
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

    Keys and values are ``bytes``. What is written is seen by every read after it, by all stages of the batch, and by
    later batches; it is durable once the batch is. A batch that is tried again starts from what was before it.

    - ``shard``: the number of the partition, from 0. Rows of one shard are always in the same one.
    - ``batch_id``: the number of the micro-batch; one that is tried again has the same.
    - ``batch_time_us``: the wall clock of the batch, microseconds since the epoch; never the system's own.
    - ``watermark_us``: the event clock of the batch, microseconds since the epoch: the watermark of what the function
      is given, whole milliseconds, and 0 until there is one.
    """

    _cached_bytes = 64 << 20

    def __init__(self, connection: socket.socket, shard: int, batch_id: int, time_us: int, watermark_us: int) -> None:
        self.shard = shard
        self.batch_id = batch_id
        self.batch_time_us = time_us
        self.watermark_us = watermark_us
        self._connection = connection
        self._answers = connection.makefile("rb", buffering=1 << 16)
        self._known: dict[bytes, bytes | None] = {}
        self._dirty: dict[bytes, int] = {}
        self._timers: dict[tuple[int, int, bytes], bool] = {}
        self._bytes = 0

    @classmethod
    def connect(cls, told: bytes) -> State:
        """The state that the task tells of in the first frame of a stage."""
        header = json.loads(told)
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.connect(header["socket"])
        return cls(connection, header["shard"], header["batch"], header["time"], header["watermark"])

    def get(self, key: bytes) -> bytes | None:
        """The value of ``key``; ``None`` if there is none."""
        # One look for a key that is known, and no check of it; what cannot be a key is refused below.
        value: Any
        try:
            value = self._known.get(key, _ASK)
        except TypeError:
            value = _ASK
        return self.get_many([key])[0] if value is _ASK else value

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of ``keys``, in their order: one round trip for those that are not known yet."""
        for key in keys:
            _require_bytes("key", key)
        self._read([key for key in dict.fromkeys(keys) if key not in self._known])
        values = [self._known[key] for key in keys]
        self._trim()
        return values

    def put(self, key: bytes, value: bytes) -> None:
        """Sets the value of ``key``."""
        _require_bytes("key", key)
        _require_bytes("value", value)
        self._set(key, value)

    def put_many(self, records: Iterable[tuple[bytes, bytes]]) -> None:
        """Sets the value of each key."""
        for key, value in records:
            self.put(key, value)

    def delete(self, key: bytes) -> None:
        """Removes ``key``, if it is there."""
        _require_bytes("key", key)
        self._set(key, None)

    def scan(self, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """The records whose keys begin with ``prefix``, in no order, as they stand when the scan is called.

        What is written while it runs is not in it. The prefix is found by its first 8 bytes, so a key should begin with
        what it is scanned by.
        """
        _require_bytes("prefix", prefix)
        self.flush()
        return self._scanned(self._ask(_SCAN, prefix))

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """All records, in no order, as they stand when this is called."""
        return self.scan()

    def put_timer(self, due_us: int, key: bytes, clock: str = EVENT) -> None:
        """Notes that ``key`` is due at ``due_us``, microseconds since the epoch; again is no more than once.

        When the clock comes there, a batch runs, rows or no rows, and the function is called in this partition: by the
        ``"event"`` clock (``watermark_us``) or the ``"wall"`` clock (``batch_time_us``). Timers by the wall clock need
        ``wall_timers=True``, and do not keep a query going whose trigger ends it.
        """
        self._set_timer(due_us, key, clock, present=True)

    def delete_timer(self, due_us: int, key: bytes, clock: str = EVENT) -> None:
        """Removes a timer, if it is there."""
        self._set_timer(due_us, key, clock, present=False)

    def due(
        self, until_us: int | None = None, clock: str = EVENT, *, since_us: int | None = None
    ) -> Iterator[tuple[int, bytes]]:
        """The timers due by ``until_us``, that included, in order of time, as ``(due_us, key)``; each is removed.

        ``None`` for the clock of this batch. With ``since_us`` those that are due earlier stay. Reads those that are
        due and no others. A timer that is not taken from the iterator stays; one that is put while it runs is not in
        it.
        """
        until = until_us if until_us is not None else self._now(clock)
        since = since_us if since_us is not None else -_LONGEST
        _require_time("until_us", until)
        _require_time("since_us", since)
        self.flush()
        return self._taken(self._ask(_DUE, bytes([_clock(clock)]) + _I64.pack(until) + _I64.pack(since)), clock)

    def count_late(self, of: str, rows: int) -> None:
        """Counts rows that came too late for what they were to change: the operator's metric ``rowsLate``.

        The executor's log says so once for the batch, with the name that ``of`` is: of a table.
        """
        if rows:
            self._ask(_LATE, _I64.pack(rows) + of.encode())

    def flush(self) -> None:
        """Sends every write that waits to the store. Never needed for what this object reads."""
        if self._dirty:
            self._send_records()
        if self._timers:
            self._send_timers()

    def _now(self, clock: str) -> int:
        return self.watermark_us if _clock(clock) == 0 else self.batch_time_us

    def _set(self, key: bytes, value: bytes | None) -> None:
        if key not in self._dirty:
            found = self._known.get(key, _ASK)
            self._dirty[key] = _UNKNOWN if found is _ASK else _ABSENT if found is None else _PRESENT
        self._known[key] = value
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
        """Empties the cache when it has grown too large."""
        if self._bytes > self._cached_bytes:
            self.flush()
            self._known.clear()
            self._bytes = 0

    def _read(self, keys: list[bytes]) -> None:
        for start in range(0, len(keys), _REQUEST_KEYS):
            asked = keys[start : start + _REQUEST_KEYS]
            answer = self._ask(_GET, b"".join([part for key in asked for part in (_U32.pack(len(key)), key)]))
            at = 0
            for key in asked:
                (length,) = _I32.unpack_from(answer, at)
                at += 4
                value = None
                if length != _NONE:
                    value = answer[at : at + length]
                    at += length
                self._known[key] = value
                self._bytes += _RECORD_BYTES + len(key) + len(value or b"")

    def _send_records(self) -> None:
        parts: list[bytes] = []
        size = 0
        for key, there in self._dirty.items():
            value = self._known[key]
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
        """Of a running scan: the bytes of each chunk, where its records begin, and how many they are."""
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
        """Tells the task why the function failed, so that the query can say it."""
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
