"""Helpers of all specs: setting the fields of a frozen value, and the name of a function."""

from __future__ import annotations


def hold(spec: object, **fields: object) -> None:
    """Sets the fields of a frozen value in its constructor."""
    for name, value in fields.items():
        object.__setattr__(spec, name, value)


def name_of(function: object) -> str:
    """The name of a function in a checkpoint and in a ``repr``."""
    return str(getattr(function, "__qualname__", type(function).__qualname__)).rsplit("<locals>.", 1)[-1]
