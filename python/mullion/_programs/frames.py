"""The DataFrame that ``module:name`` names on a command line, or that a function of that name gives."""

from __future__ import annotations

import inspect
from collections.abc import Callable

from pyspark.sql import DataFrame

from mullion._programs.loading import named
from mullion._programs.session import session_of_command
from mullion.errors import InvalidArgumentError


def frame(where: str, command: str, made: str = "windowed(...).agg(...)") -> Callable[[], DataFrame]:
    """What gives the DataFrame that ``where`` names; the module is imported at once.

    A function may take a session, or nothing. ``made`` says in errors what such a DataFrame is made by.

    Raises :class:`InvalidArgumentError` where there is no such thing, at once, or where it is no DataFrame, when it is
    asked for.
    """
    found = named(where)

    def of() -> DataFrame:
        what = found
        if callable(what) and not isinstance(what, DataFrame):
            given = inspect.signature(what).parameters
            what = what(session_of_command(command)) if given else what()
        if not isinstance(what, DataFrame):
            raise InvalidArgumentError(
                f"{where!r} gives {what!r} ({type(what).__name__}), not a DataFrame. Name what {made} made, or a "
                "function that gives it."
            )
        return what

    return of
