"""What a window was made with, as it is kept: for windows that ``process`` makes from data.

A :class:`WindowSpec` is all of a window but its callbacks, which are code. It is kept as JSON in the state of the shard
that made the window, and is given to ``on_recover``, which makes the window again::

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

import ast
import datetime
import decimal
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from types import CodeType
from typing import Any, Final, final

from mullion.errors import InvalidArgumentError
from mullion.turbine import aggregates, functions, windowing
from mullion.turbine.aggregates import Aggregate, Multi
from mullion.turbine.windowing import Spec, TurbineWindow

KEPT: Final = b"window:"
"""What the keys of specs begin with in a shard's state."""


@final
@dataclass(frozen=True, slots=True)
class WindowSpec:
    """All that a window was made with, but for its callbacks. Lengths are milliseconds.

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
        """What is kept of a window."""
        return cls(**{each.name: getattr(spec, each.name) for each in fields(cls)})

    def window(self, subscription: object, **callbacks: Callable[..., Any]) -> TurbineWindow:
        """The same window again, with the callbacks that are given: ``on_close_each=`` and so on.

        To be called in ``on_recover`` of the subscription, with its ``self``. Raises :class:`InvalidArgumentError` for
        callbacks that the window cannot have.
        """
        said = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "kind"}
        # A key of nothing is one that was left out.
        given = {name: value for name, value in said.items() if value not in (None, ())}
        kind: Any = getattr(windowing, self.kind)
        made: TurbineWindow = kind(subscription, **given, **callbacks)
        return made

    @property
    def parts(self) -> dict[str, Aggregate]:
        """The aggregates by the columns in which they come out."""
        return self.value.parts if isinstance(self.value, Multi) else {windowing.VALUE: self.value}

    def differences(self, other: WindowSpec) -> list[str]:
        """In what ``other`` is another window, in words."""
        return [
            f"{each.name} was {getattr(self, each.name)!r} and is now {getattr(other, each.name)!r}"
            for each in fields(self)
            if getattr(self, each.name) != getattr(other, each.name)
        ]

    def to_json(self) -> bytes:
        """The spec as it is kept; raises :class:`InvalidArgumentError` for an aggregate that has no text."""
        text = repr(self.value)
        try:
            again = value_of(text)
        except Exception:
            again = None
        if again != self.value:
            raise InvalidArgumentError(
                f"value={text} of the window {self.name!r} cannot be kept as text, and it is made from data: after a "
                "restart nobody would know it. Write its literals as plain numbers and texts, and its columns as "
                "fn.col(...)."
            )
        said = {each.name: getattr(self, each.name) for each in fields(self)} | {"value": text, "key": list(self.key)}
        return json.dumps({name: value for name, value in said.items() if value is not None}).encode()

    @classmethod
    def from_json(cls, said: bytes) -> WindowSpec:
        """The spec that :meth:`to_json` wrote."""
        known = json.loads(said)
        return cls(**known | {"value": value_of(known["value"]), "key": tuple(known["key"])})

    def __repr__(self) -> str:
        shown = [
            f"{each.name}={getattr(self, each.name)!r}"
            for each in fields(self)
            if getattr(self, each.name) != each.default
        ]
        return f"WindowSpec({', '.join(shown)})"


def specs_of(records: Iterable[tuple[bytes, bytes]]) -> dict[str, WindowSpec]:
    """The specs among the records of shards, by the windows' names, in order of these."""
    found = {key[len(KEPT) :].decode(): WindowSpec.from_json(value) for key, value in records if key.startswith(KEPT)}
    return dict(sorted(found.items()))


_NAMES: Final[dict[str, Any]] = {
    **{name: getattr(aggregates, name) for name in aggregates.__all__},
    "fn": functions,
    "float": float,
    "datetime": datetime,
    "Decimal": decimal.Decimal,
}

_NODES: Final = (
    ast.Expression,
    ast.Call,
    ast.keyword,
    ast.Name,
    ast.Load,
    ast.Attribute,
    ast.Constant,
    ast.List,
    ast.Tuple,
    ast.BinOp,
    ast.UnaryOp,
    ast.Compare,
    ast.operator,
    ast.unaryop,
    ast.cmpop,
)


def value_of(text: str) -> Aggregate | Multi:
    """The aggregate whose ``repr`` is ``text``: nothing but aggregates, ``fn`` and literals is looked up.

    >>> value_of("Multi(total=Sum(fn.col('a') + 1), n=Count())")
    Multi(total=Sum(fn.col('a') + 1), n=Count())
    """
    tree = ast.parse(text, mode="eval")
    for node in ast.walk(tree):
        odd = isinstance(node, ast.Name) and node.id not in _NAMES
        hidden = isinstance(node, ast.Attribute) and node.attr.startswith("_")
        if odd or hidden or not isinstance(node, _NODES):
            raise InvalidArgumentError(f"{text} is not the text of an aggregate.")
    code: CodeType = compile(tree, "<aggregate>", "eval")
    made: Aggregate | Multi = eval(code, {"__builtins__": {}}, _NAMES)  # noqa: S307 (only the names above)
    return made
