"""Small files beside a checkpoint."""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mullion.errors import DamagedStateError, MullionError


def replace_text(file: Path, text: str) -> None:
    """Writes a small file so that a reader sees the old one or the new one."""
    file.parent.mkdir(parents=True, exist_ok=True)
    hidden = file.with_name(f".{file.name}-{uuid.uuid4().hex[:8]}")
    hidden.write_text(text, "utf-8")
    hidden.replace(file)


@contextlib.contextmanager
def reading(file: object) -> Iterator[None]:
    """While what a file of ours says is read. Raises :class:`DamagedStateError` where it does not say what we write."""
    try:
        yield
    except MullionError:
        raise
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError, ArithmeticError) as theirs:
        raise DamagedStateError(
            f"{file} is cut short or is not what Mullion writes. Nothing was written. Restore it from a copy, or begin "
            "anew with a new folder."
        ) from theirs


def json_in(file: Path, kind: type[Any]) -> Any:
    """The JSON of a file of ours, a ``dict`` or a ``list``; raises :class:`DamagedStateError` for anything else."""
    with reading(file):
        said = json.loads(file.read_text("utf-8"))
        if not isinstance(said, kind):
            raise TypeError(type(said).__name__)
    return said
