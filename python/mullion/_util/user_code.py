"""The line of the user's code that an error came through, by one rule for the messages of all APIs."""

from __future__ import annotations

import sysconfig
import traceback
from pathlib import Path
from typing import Final

from mullion import errors

_MULLION: Final = str(Path(errors.__file__).parent)
_LIBRARIES: Final = (_MULLION, sysconfig.get_path("stdlib"), "<frozen")
_PACKAGES: Final = ("site-packages", "dist-packages", "/pyspark/", "/py4j/")
# Compiled modules of libraries have names relative to their package.
_COMPILED: Final = (".pyx", ".pxi", ".pxd")


def is_user_code(filename: str) -> bool:
    """True for a file that belongs neither to Mullion nor to another library."""
    return not filename.startswith(_LIBRARIES) and not (
        filename.endswith(_COMPILED) or any(part in filename for part in _PACKAGES)
    )


def failed_line(error: BaseException, function: object = None) -> traceback.FrameSummary | None:
    """The innermost line in the file of ``function``; else of the user's code; else outside of Mullion."""
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(_MULLION)]
    own = [frame for frame in frames if code is not None and frame.filename == code.co_filename]
    users = own or [frame for frame in frames if is_user_code(frame.filename)] or frames
    return users[-1] if users else None


def failed_at(error: BaseException, function: object = None) -> str:
    """``file:line`` of :func:`failed_line`; if the error came through no such line, of the function itself."""
    line = failed_line(error, function)
    if line is not None:
        return f"{line.filename}:{line.lineno}"
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    return "an unknown line" if code is None else f"{code.co_filename}:{code.co_firstlineno}"


def raised_at(error: BaseException, function: object = None) -> str:
    """An error of user code in one line, with its place: ``ValueError: no, at score.py:7: raise ValueError("no")``."""
    message = " ".join(str(error).split())
    text = f"{type(error).__name__}{': ' if message else ''}{message}"
    line = failed_line(error, function)
    if line is None:
        return text
    return f"{text}, at {line.filename}:{line.lineno}" + (f": {line.line}" if line.line else "")
