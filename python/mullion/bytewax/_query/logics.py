"""Keeps the logics of a program between the micro-batches of one run.

In Bytewax, a logic stays in memory while the dataflow runs, and ``builder(state)`` is called for a new key or after a
restart. Many programs rely on it: their ``snapshot()`` returns ``None``, or their ``builder`` ignores the state. Spark
may process the next micro-batch of a key in any Python worker, so the logic itself is kept with the state of its key::

    within a run       the logic, pickled, is restored
    after a restart    builder(snapshot)

A pickled logic is signed with a random key that only the running program and its workers have. State of another run,
or written by others into the checkpoint, has no valid signature and is never unpickled.
"""

from __future__ import annotations

import _thread
import hmac
import io
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final

from pyspark import cloudpickle

from mullion.bytewax._values.class_names import class_of
from mullion.errors import InvalidArgumentError

log = logging.getLogger("mullion")

_SIGNATURE_BYTES: Final = 16
_MOST_BYTES: Final = 4 << 20
"""The size limit of a pickled logic. A larger one, such as a logic that refers to a model, is kept as its snapshot."""

_LOCKS: Final = (_thread.LockType, _thread.RLock)


class _TooLargeError(Exception):
    """The error for a logic that exceeds the size limit."""


class _Buffer(io.BytesIO):
    def write(self, data: Any) -> int:
        if self.tell() + memoryview(data).nbytes > _MOST_BYTES:
            raise _TooLargeError
        return super().write(data)


class _Pickler(cloudpickle.Pickler):
    """Pickles the program's own classes by name. No lock is held between micro-batches: a new one replaces it."""

    def __init__(self, file: io.BytesIO, names: Mapping[type, str]) -> None:
        super().__init__(file)  # type: ignore[no-untyped-call]
        self._names = names

    def reducer_override(self, obj: Any) -> Any:
        kind = type(obj)
        if kind in _LOCKS:
            return kind if kind is _thread.RLock else _thread.allocate_lock, ()
        if issubclass(kind, type) and obj in self._names:
            return class_of, (self._names[obj],)
        return super().reducer_override(obj)  # type: ignore[no-untyped-call]


@dataclass
class Logics:
    """Keeps the logics of one step in one task.

    - ``key``: the key of the run's signatures.
    - ``classes``: the program's own classes by name, which each worker has.
    - ``resumes``: True if a later run may continue from the state. Otherwise no snapshot is needed.
    """

    step_id: str
    key: bytes
    classes: Mapping[str, type]
    resumes: bool
    _new: Counter[str] = field(default_factory=Counter, init=False)

    def __post_init__(self) -> None:
        self._names = {kind: name for name, kind in self.classes.items()}

    def state_of(self, logic: Any) -> tuple[Any, ...]:
        """The snapshot of a logic and the logic itself, pickled and signed; ``None`` in place of one that is missing.

        The operators of this package define their snapshot as their complete state, so the snapshot is sufficient.
        """
        if getattr(logic, "_snapshot_is_complete", False):
            return logic.snapshot(), None
        signed = self._signed(logic)
        if signed is not None and not self.resumes:
            return None, signed
        return logic.snapshot(), signed

    def pickled_state_of(self, logic: Any, why: InvalidArgumentError) -> tuple[Any, ...]:
        """The same for a logic whose snapshot cannot be encoded, which only a later run needs; raises ``why``."""
        signed = None if self.resumes else self._signed((logic.snapshot(),))
        if signed is None:
            raise why
        return None, signed

    def restored(self, state: tuple[Any, ...], builder: Callable[[Any], Any]) -> Any:
        """The logic of this run, or a new one from the snapshot."""
        snapshot, signed = state
        logic_or_snapshot = None if signed is None else self._opened(signed)
        if type(logic_or_snapshot) is tuple:
            return builder(logic_or_snapshot[0])
        if logic_or_snapshot is not None:
            return logic_or_snapshot
        logic = builder(snapshot)
        if snapshot is None and not getattr(logic, "_snapshot_is_complete", False):
            self._new[type(logic).__qualname__] += 1
        return logic

    def warn(self) -> None:
        """Logs how many keys started anew because neither their logic nor a snapshot was kept."""
        for name, count in self._new.items():
            log.warning(
                "The step %r: %d keys start anew. The snapshot() of %s returned None, and the logic is of another run, "
                "cannot be pickled or is larger than 4 MiB. Return the state from snapshot().",
                self.step_id,
                count,
                name,
            )
        self._new.clear()

    def _signed(self, value: Any) -> bytes | None:
        buffer = _Buffer()
        try:
            _Pickler(buffer, self._names).dump(value)  # type: ignore[no-untyped-call]
        except Exception:  # Objects of any class may raise any error. Their snapshot is kept instead.
            return None
        pickled = buffer.getvalue()
        return self._signature(pickled) + pickled

    def _opened(self, signed: bytes) -> Any:
        signature, pickled = signed[:_SIGNATURE_BYTES], signed[_SIGNATURE_BYTES:]
        if not hmac.compare_digest(signature, self._signature(pickled)):
            return None
        return cloudpickle.loads(pickled)

    def _signature(self, pickled: bytes) -> bytes:
        return blake2b(pickled, key=self.key, digest_size=_SIGNATURE_BYTES).digest()
