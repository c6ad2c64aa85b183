"""Values that represent one value in each of several ranges.

An event of overlapping windows changes all ranges that it falls into, and their values differ. ``stats['sum'] += 5``
reads the sum of the current range, and adds to the sum of each range::

    range         before     stats['sum']          += 5
    [0, 10)        20                               25
    [5, 15)         3        3 (visible to code)     8

So a number or text holds its value in every range, and so does the result of arithmetic on it. When it is assigned
back, each range gets its own value. The current range, the last one, decides the branch of an ``if``.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

_CONTAINERS = (dict, list, set)
_SCALARS: dict[type, type] = {}
_IADD: Callable[[Any, Any], Any] = operator.iadd
_IOR: Callable[[Any, Any], Any] = operator.ior


class _Failed:
    """The error of an operation in a range other than the current one: raised when the value is assigned."""

    def __init__(self, error: Exception) -> None:
        self.error = error


class Each:
    """A dict, list or set in each of several ranges: reads use the last one, changes apply to all."""

    def __init__(self, values: Sequence[Any]) -> None:
        self._values = list(values)

    def __getitem__(self, name: Any) -> Any:
        current = self._values[-1][name]
        return wrap(current, [_item(value, name, current) for value in self._values])

    def __setitem__(self, name: Any, value: Any) -> None:
        for i, range_value in enumerate(self._values):
            range_value[name] = of_range(value, i, len(self._values))

    def __delitem__(self, name: Any) -> None:
        del self._values[-1][name]
        for value in self._values[:-1]:
            if not isinstance(value, dict) or name in value:
                del value[name]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        getattr(self._values[-1], name)

        def call(*args: Any, **kwargs: Any) -> Any:
            n, results = len(self._values), []
            for i, value in enumerate(self._values):
                arguments = [of_range(arg, i, n) for arg in args]
                results.append(getattr(value, name)(*arguments, **{k: of_range(v, i, n) for k, v in kwargs.items()}))
            return wrap(results[-1], results)

        return call

    def __iadd__(self, other: Any) -> Any:
        for i, value in enumerate(self._values):
            self._values[i] = _IADD(value, of_range(other, i, len(self._values)))
        return self

    def __ior__(self, other: Any) -> Any:
        for i, value in enumerate(self._values):
            self._values[i] = _IOR(value, of_range(other, i, len(self._values)))
        return self

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values[-1])

    def __len__(self) -> int:
        return len(self._values[-1])

    def __contains__(self, item: object) -> bool:
        return item in self._values[-1]

    def __eq__(self, other: object) -> bool:
        return bool(self._values[-1] == (other._values[-1] if isinstance(other, Each) else other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._values[-1])


def wrap(current: Any, each: list[Any]) -> Any:
    """Wraps a value that differs by range for user code."""
    if isinstance(current, _CONTAINERS):
        return Each(each)
    kind = _SCALARS.get(type(current))
    if kind is None:
        return current
    value = kind(current)
    value._each = each
    return value


def of_range(value: Any, i: int, n: int) -> Any:
    """Returns a value of user code in the ``i``-th of ``n`` ranges."""
    if isinstance(value, Each):
        return copy.deepcopy(value._values[i])
    each = getattr(value, "_each", None)
    if each is not None:
        if isinstance(each[i], _Failed):
            raise each[i].error
        return each[i]
    if type(value) is dict:
        return {of_range(key, i, n): of_range(item, i, n) for key, item in value.items()}
    if type(value) in (list, tuple, set):
        return type(value)(of_range(item, i, n) for item in value)
    # Ranges must not share a mutable value.
    return value if i == n - 1 else copy.deepcopy(value)


def plain(value: Any) -> Any:
    """Returns a value in the current range, without wrapper."""
    if isinstance(value, Each):
        return value._values[-1]
    each = getattr(value, "_each", None)
    return value if each is None else each[-1]


def _item(container: Any, name: Any, current: Any) -> Any:
    """An item in another range; if it is missing there, an empty one of the same type."""
    try:
        return container[name]
    except (KeyError, IndexError):
        missing = type(current)()
        if isinstance(container, dict) and isinstance(current, _CONTAINERS):
            container[name] = missing
        return missing


def _tracking(kind: type) -> type:
    """A subclass of a type of number or text that holds its value in each range."""

    def tracked(operation: Callable[..., Any], reflected: bool) -> Callable[[Any, Any], Any]:
        def apply(self: Any, other: Any) -> Any:
            mine, operand = self._each[-1], plain(other)
            current = operation(operand, mine) if reflected else operation(mine, operand)
            each: list[Any] = []
            for i in range(len(self._each) - 1):
                try:
                    left, right = self._each[i], of_range(other, i, len(self._each))
                    if isinstance(left, _Failed):
                        raise left.error
                    each.append(operation(right, left) if reflected else operation(left, right))
                except Exception as error:
                    each.append(_Failed(error))
            return wrap(current, [*each, current])

        return apply

    members: dict[str, Any] = {"__reduce__": lambda self: (kind, (self._each[-1],))}
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift", "and", "or", "xor"):
        operation = getattr(operator, f"{name}_" if name in ("and", "or") else name)
        if hasattr(kind, f"__{name}__"):
            members[f"__{name}__"] = tracked(operation, reflected=False)
        if hasattr(kind, f"__r{name}__"):
            members[f"__r{name}__"] = tracked(operation, reflected=True)
    return type(f"_{kind.__name__}", (kind,), members)


_SCALARS.update({kind: _tracking(kind) for kind in (int, float, str)})
