"""The stored parameters of a window, for windows that ``process`` makes from data.

A :class:`WindowSpec` has all parameters of a window except its callbacks, which are code. The state of the shard that
made the window stores it as JSON. ``on_recover`` receives it, and makes the window again::

    class quotas:
        def process(self, batch, state):
            for row in batch.to_pylist():
                if row["kind"] == "open":
                    size_ms, value = row["size_ms"], agg.Sum("bytes")
                    self._made[row["tenant"]] = win.PersistentTumbling(
                        self, name=row["tenant"], size_ms=size_ms, value=value, on_close_each=self._full
                    )
            ...

        def on_recover(self, name, spec):
            self._made[name] = spec.window(self, on_close_each=self._full)
            return self._made[name]
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import Any, Final, final

from mullion.errors import InvalidArgumentError
from mullion.turbine import windowing
from mullion.turbine._process import aggregate_json
from mullion.turbine._spec import VALUE, Spec
from mullion.turbine.aggregates import Aggregate, Multi
from mullion.turbine.windowing import TurbineWindow

KEPT: Final = b"window:"
"""The prefix of the keys of specs in a shard's state."""


@final
@dataclass(frozen=True, slots=True)
class WindowSpec:
    """The parameters of a window without its callbacks. Lengths are milliseconds.

    - ``kind``: the class, such as ``"PersistentTumbling"``.
    - ``value``: the aggregate.
    - ``early_fire_interval_ms``: ``None`` for no early firings.
    - ``idle_tick_ms``: of in-memory windows.

    >>> WindowSpec("PersistentSession", "visits", aggregates.Count(), gap_ms=1000)
    WindowSpec(kind='PersistentSession', name='visits', value=Count(), gap_ms=1000)
    """

    kind: str
    name: str
    value: Aggregate | Multi
    size_ms: int | None = None
    slide_ms: int | None = None
    gap_ms: int | None = None
    key: tuple[str, ...] = ()
    time_column: str | None = None
    allowed_lateness_ms: int = 0
    early_fire_interval_ms: int | None = None
    idle_tick_ms: int | None = None

    @classmethod
    def of(cls, spec: Spec) -> WindowSpec:
        """The stored parameters of a window."""
        return cls(**{each.name: getattr(spec, each.name) for each in fields(cls)})

    def window(self, subscription: object, **callbacks: Callable[..., Any]) -> TurbineWindow:
        """Makes the window again, with callbacks: ``on_close_each=`` and so on.

        Call it in ``on_recover`` of the subscription, with its ``self``. Raises :class:`InvalidArgumentError` for
        callbacks that the window cannot have.
        """
        values = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "kind"}
        # An empty key is the default.
        arguments = {name: value for name, value in values.items() if value not in (None, ())}
        kind: Any = getattr(windowing, self.kind)
        window: TurbineWindow = kind(subscription, **arguments, **callbacks)
        return window

    @property
    def parts(self) -> dict[str, Aggregate]:
        """The aggregates by the names of their result columns."""
        return self.value.parts if isinstance(self.value, Multi) else {VALUE: self.value}

    def differences(self, other: WindowSpec) -> list[str]:
        """A description of each parameter that differs in ``other``."""
        return [
            f"{each.name} was {getattr(self, each.name)!r} and is now {getattr(other, each.name)!r}"
            for each in fields(self)
            if getattr(self, each.name) != getattr(other, each.name)
        ]

    def to_json(self) -> bytes:
        """The spec as JSON; raises :class:`InvalidArgumentError` for an aggregate that cannot be stored."""
        if not is_kept_whole(self.value):
            raise InvalidArgumentError(
                f"value={self.value!r} of the window {self.name!r} cannot be kept, and it is made from data: after a "
                "restart nobody would know it. Write its literals as plain numbers and texts, and its columns as "
                "fn.col(...)."
            )
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        values |= {"value": aggregate_json.to_json(self.value), "key": list(self.key)}
        return json.dumps({name: value for name, value in values.items() if value is not None}).encode()

    @classmethod
    def from_json(cls, text: bytes) -> WindowSpec:
        """The spec that :meth:`to_json` wrote."""
        values = json.loads(text)
        if values["kind"] not in windowing.__all__[:-1]:
            raise InvalidArgumentError(f"{values['kind']!r} is not a kind of window.")
        return cls(**values | {"value": aggregate_json.from_json(values["value"]), "key": tuple(values["key"])})

    def __repr__(self) -> str:
        shown = [
            f"{each.name}={getattr(self, each.name)!r}"
            for each in fields(self)
            if getattr(self, each.name) != each.default
        ]
        return f"WindowSpec({', '.join(shown)})"


def is_kept_whole(value: Aggregate | Multi) -> bool:
    """Returns True if an aggregate is equal to its stored form, read back."""
    try:
        return aggregate_json.from_json(json.loads(json.dumps(aggregate_json.to_json(value)))) == value
    except InvalidArgumentError:
        return False


def specs_of(records: Iterable[tuple[bytes, bytes]]) -> dict[str, WindowSpec]:
    """The specs among the records of shards, in order of the windows' names."""
    specs = {key[len(KEPT) :].decode(): WindowSpec.from_json(value) for key, value in records if key.startswith(KEPT)}
    return dict(sorted(specs.items()))
