"""The result of ``explain()``: where each part of a program runs, the reason, and the line that decided it."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, final

from mullion._util import html

Place = Literal["JVM", "Python"]

_HEADER: Final = ("part", "runs", "why", "decided at")


@final
@dataclass(frozen=True, slots=True)
class Part:
    """A part of a program. ``where`` is ``file:line``, or empty if no line of the user's decides."""

    name: str
    runs: Place
    why: str
    where: str = ""


@final
@dataclass(frozen=True, slots=True)
class Report:
    """The parts of a program; its text is an aligned table.

    >>> print(Report((Part("orders.process", "JVM", "it only updates windows", "app.py:12"),)))
    part            runs  why                      decided at
    orders.process  JVM   it only updates windows  app.py:12
    """

    parts: tuple[Part, ...]
    notes: tuple[str, ...] = ()
    """Remarks on the program that affect no decision."""

    def __str__(self) -> str:
        return "\n".join([table([_HEADER, *self._rows()]), *self._remarks()])

    def _repr_html_(self) -> str:
        return html.table(self._rows(), _HEADER, notes=self._remarks())

    def _rows(self) -> list[tuple[str, ...]]:
        return [(part.name, part.runs, part.why, part.where) for part in self.parts]

    def _remarks(self) -> list[str]:
        return [f"Taken, and not used: {note}." for note in self.notes]


def table(lines: Iterable[tuple[str, ...]]) -> str:
    """Rows of text, in aligned columns."""
    rows = list(lines)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def where_of(thing: Any) -> str:
    """The ``file:line`` of a function or class; empty if unknown."""
    try:
        thing = inspect.unwrap(thing)
        thing = getattr(thing, "__func__", thing)
        code = getattr(thing, "__code__", None)
        if code is not None:
            return f"{shown(code.co_filename)}:{code.co_firstlineno}"
        file = inspect.getsourcefile(thing)
        return f"{shown(file)}:{inspect.getsourcelines(thing)[1]}" if file else ""
    except (OSError, TypeError):
        return ""


def caller(outside: str) -> str:
    """The ``file:line`` that called into the package whose folder is ``outside``."""
    frame = inspect.currentframe()
    while frame is not None:
        if not frame.f_code.co_filename.startswith((outside, str(Path(__file__).parent))):
            return f"{shown(frame.f_code.co_filename)}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def shown(file: str) -> str:
    """A path for display: relative to the working directory, if it is in there."""
    try:
        return str(Path(file).relative_to(Path.cwd()))
    except ValueError:
        return file
