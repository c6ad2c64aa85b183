"""What specs have in common: how a frozen value gets its fields, and what a function is called."""

from __future__ import annotations


def hold(spec: object, **fields: object) -> None:
    """Sets the fields of a frozen value while it is being made."""
    for name, value in fields.items():
        object.__setattr__(spec, name, value)


def name_of(function: object) -> str:
    """What a checkpoint and a ``repr`` call a function."""
    return str(getattr(function, "__qualname__", type(function).__qualname__)).rsplit("<locals>.", 1)[-1]
