"""The object named ``module:name`` on a command line: an App, or something else."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from types import ModuleType

from pyspark.sql import DataFrame

from mullion._program.app import App
from mullion.errors import InvalidArgumentError


def load(where: str, api: str) -> App:
    """The App ``app`` of the module ``module``, which is searched in the working directory first.

    ``api`` is the package of Mullion that the App must belong to.

    Raises :class:`InvalidArgumentError` if there is none; errors of the module are not wrapped.
    """
    thing = named(where, "an App", "module:app, as in examples.revenue:app", App)
    if not isinstance(thing, App):
        raise InvalidArgumentError(f"{where!r} ({type(thing).__name__}) is not an App.")
    if thing.api != api:
        raise InvalidArgumentError(f"{where!r} is an App of mullion.{thing.api}. Write mullion {thing.api} ...")
    return thing


def named(
    where: str, what: str = "a DataFrame", form: str = "module:panes", kind: type | tuple[type, ...] = DataFrame
) -> object:
    """The object named ``where`` in a module, which is searched in the working directory first.

    ``what``, ``form`` and ``kind`` describe it in errors.

    Raises :class:`InvalidArgumentError` if there is none; errors of the module are not wrapped.
    """
    module, colon, attribute = where.partition(":")
    if not module or not colon or not attribute:
        raise InvalidArgumentError(f"{where!r} does not name {what}. Write {form}.")
    source = load_module(module, Path.cwd(), where)
    thing: object = source
    for name in attribute.split("."):
        if not hasattr(thing, name):
            there = ", ".join(f"{module}:{n}" for n, value in sorted(vars(source).items()) if isinstance(value, kind))
            of_kind = "Apps" if kind is App else "DataFrames"
            raise InvalidArgumentError(f"{module!r} has no {attribute!r}. The {of_kind} in it: {there or 'none'}.")
        thing = getattr(thing, name)
    return thing


def load_module(module: str, folder: Path, where: str) -> ModuleType:
    """The module of this name, which is searched in ``folder`` first. ``where`` names it in errors."""
    here = str(folder)
    if here not in sys.path:
        sys.path.insert(0, here)
        # Workers of a new session must find it too.
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")]))
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as missing:
        # A missing import of the named module is its own error.
        if missing.name and (module == missing.name or module.startswith(f"{missing.name}.")):
            raise InvalidArgumentError(
                f"There is no module {missing.name!r}, which {where!r} names, in {here} or among installed packages."
            ) from missing
        raise
