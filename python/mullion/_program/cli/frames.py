"""The DataFrame, or the function that returns one, named ``module:name`` on a command line."""

from __future__ import annotations

import inspect
from collections.abc import Callable

from pyspark.sql import DataFrame

from mullion._program.cli.loading import named
from mullion._program.session import session_of_command
from mullion.errors import InvalidArgumentError


def frame(where: str, command: str, example: str = "windowed(...).agg(...)") -> Callable[[], DataFrame]:
    """Returns a function for the DataFrame named ``where``; the module is imported at once.

    A named function may accept a session, or nothing. ``example`` describes such a DataFrame in errors.

    Raises :class:`InvalidArgumentError`: at once if the name does not exist, and when called if it is no DataFrame.
    """
    named_object = named(where)

    def of() -> DataFrame:
        what = named_object
        if callable(what) and not isinstance(what, DataFrame):
            parameters = inspect.signature(what).parameters
            what = what(session_of_command(command)) if parameters else what()
        if not isinstance(what, DataFrame):
            raise InvalidArgumentError(
                f"{where!r} gives {what!r} ({type(what).__name__}), not a DataFrame. Name what {example} made, or a "
                "function that gives it."
            )
        return what

    return of
