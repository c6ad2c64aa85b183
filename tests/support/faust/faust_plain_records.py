"""Records of Faust in plain Python: the conversion of a message's value, or :class:`Unfit`."""

from __future__ import annotations

import copy
from typing import Any


class Unfit(Exception):  # noqa: N818
    """A message that does not have its topic's type."""


class Field:
    """A field in the class's attributes."""

    def __init__(self, name: str, default: Any) -> None:
        self.name = name
        self.default = default

    def __get__(self, record: Any, owner: Any) -> Any:
        if record is not None:
            raise AttributeError(f"{self.name} was deleted")
        return self


NONE = object()
_BOOLS = {"true": True, "false": False, "1": True, "0": False, "yes": True, "no": False}


class Record:
    """A record with typed fields, defaults and options."""

    _fields: dict[str, tuple[Any, Field]] = {}  # noqa: RUF012
    _coerce = _validation = False

    def __init_subclass__(cls, coerce: bool | None = None, validation: bool | None = None) -> None:
        cls._coerce = cls._coerce if coerce is None else coerce
        cls._validation = cls._validation if validation is None else validation
        own = {name: (kind, Field(name, vars(cls).get(name, NONE))) for name, kind in cls.__annotations__.items()}
        cls._fields = {**cls._fields, **own}
        for name, (_, field) in cls._fields.items():
            setattr(cls, name, field)

    def __init__(self, **values: Any) -> None:
        for name, (kind, field) in self._fields.items():
            if name not in values and field.default is NONE:
                if type(None) not in getattr(kind, "__args__", ()):
                    raise Unfit(name)
                self.__dict__[name] = None
            elif name not in values:
                self.__dict__[name] = copy.deepcopy(field.default)
            else:
                self.__dict__[name] = read(values[name], kind, self._coerce, self._validation)
        self.__post_init__()

    def __post_init__(self) -> None:
        pass

    def asdict(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in self._fields}

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {', '.join(f'{k}={v!r}' for k, v in self.asdict().items())}>"


def read(value: Any, kind: Any, coerce: bool, validation: bool) -> Any:
    """Converts a plain value to a type."""
    arms = [one for one in getattr(kind, "__args__", (kind,)) if one is not type(None)]
    if value is None and len(arms) < len(getattr(kind, "__args__", (kind,))):
        return None
    (kind,) = arms
    fits = isinstance(value, kind) if kind is not float else isinstance(value, (int, float))
    if fits and not (isinstance(value, bool) and kind is not bool):
        return float(value) if kind is float and (coerce or validation) else value
    if coerce:
        try:
            if kind is bool and isinstance(value, str):
                return _BOOLS[value.lower()]
            if value is not None and not (kind is int and isinstance(value, float) and not value.is_integer()):
                return kind(value)
        except (KeyError, ValueError, OverflowError):
            pass
        raise Unfit(kind)
    if validation:
        raise Unfit(kind)
    return value
