"""Calls of a user's functions in Spark's workers, by one rule for all APIs.

An error that a function raises, and a result that is not of its schema, become a :class:`FunctionError` with the call,
the function, and the line that raised it. A failed call leaves nothing behind: if failures are skipped, its writes are
undone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, Protocol, TypeVar

from mullion._keyed.results import WrongResultError
from mullion._util.user_code import raised_at
from mullion.errors import FunctionError

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

FAILURES: Final = (Exception, SystemExit)
"""The errors of a call. sys.exit() would end the worker without a message."""


def failed_call(error: BaseException, function: object, name: str, call: str, fix: str = "") -> FunctionError:
    """The error of a function.

    - ``name``: the function in the message.
    - ``call``: its input, such as ``the pane [0, 10) of host='a'``.
    - ``fix``: a sentence for errors with a known cause.
    """
    text = str(error) if isinstance(error, WrongResultError) else f"raised {raised_at(error, function)}"
    message = f"The function failed for {call}: {name} {text}{'. ' if fix else ''}{fix}"
    return FunctionError(" ".join(message.split()))


class Undo(Protocol):
    """Writes of calls, such as a journal of state."""

    def begin(self) -> None:
        """Accepts all earlier writes; later ones can be undone."""

    def undo(self) -> None:
        """Undoes the writes since :meth:`begin`."""


def results_of(
    items: Iterable[_Item],
    call: Callable[[_Item], _Result],
    writes: Sequence[Undo] = (),
    skip: Callable[[_Item, FunctionError], Any] | None = None,
) -> Iterator[tuple[_Item, _Result]]:
    """The items with the results of one call for each.

    - ``call``: raises :class:`FunctionError` if the function fails. Other errors are not those of one call.
    - ``writes``: the writes of a call, undone if it fails and is skipped.
    - ``skip``: gets the items of failed calls, which are left out; without it the first failure raises.
    """
    for item in items:
        for each in writes:
            each.begin()
        try:
            result = call(item)
        except FunctionError as error:
            if skip is None:
                raise
            for each in writes:
                each.undo()
            skip(item, error)
            continue
        yield item, result
