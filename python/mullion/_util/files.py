"""Small files next to a checkpoint."""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mullion.errors import DamagedStateError, MullionError


def replace_text(file: Path, text: str) -> None:
    """Replaces a small file atomically."""
    file.parent.mkdir(parents=True, exist_ok=True)
    hidden = file.with_name(f".{file.name}-{uuid.uuid4().hex[:8]}")
    hidden.write_text(text, "utf-8")
    hidden.replace(file)


@contextlib.contextmanager
def reading(file: object) -> Iterator[None]:
    """Turns the errors of reading one of Mullion's files into :class:`DamagedStateError`."""
    try:
        yield
    except MullionError:
        raise
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError, ArithmeticError) as error:
        raise DamagedStateError(
            f"{file} is cut short or is not what Mullion writes. Nothing was written. Restore it from a copy, or begin "
            "anew with a new folder."
        ) from error


def json_in(file: Path, kind: type[Any]) -> Any:
    """The JSON of one of Mullion's files, a ``dict`` or a ``list``. Raises :class:`DamagedStateError` otherwise."""
    with reading(file):
        value = json.loads(file.read_text("utf-8"))
        if not isinstance(value, kind):
            raise TypeError(type(value).__name__)
    return value
