"""Named parts of a program with state under their names: windows, tables.

Their order in the code is irrelevant. A part that is removed from the code is reported, and its state is kept until it
is dropped explicitly::

    1st run    revenue  visits             revenue: new, visits: new
    2nd run    visits   revenue            no report
    3rd run    visits                      revenue: kept
    drop("revenue")                        its state is deleted
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from mullion._program.manifest import Manifest
from mullion._util.files import reading
from mullion.errors import InvalidArgumentError


@dataclass(frozen=True)
class Named:
    """A part. ``folder`` contains its state, under the checkpoint of the App, if it has its own folder."""

    kind: str
    name: str
    where: str
    folder: str | None = None


class Names:
    """The named parts of one App."""

    def __init__(self) -> None:
        self._parts: dict[str, Named] = {}

    def register(self, part: Named) -> None:
        """Adds a part; raises :class:`InvalidArgumentError` for a duplicate name."""
        if not isinstance(part.name, str) or not part.name:
            raise InvalidArgumentError(f"name={part.name!r} is not the name of a {part.kind}. Use a text.")
        other = self._parts.get(part.name)
        if other is not None:
            raise InvalidArgumentError(
                f"Two parts have the name {part.name!r}: the {other.kind} at {other.where or '?'} and the "
                f"{part.kind} at {part.where or '?'}. State is kept under the name: give each its own."
            )
        self._parts[part.name] = part

    def __getitem__(self, name: str) -> Named:
        if name not in self._parts:
            existing = ", ".join(sorted(self._parts)) or "none"
            raise InvalidArgumentError(f"There is no part {name!r}. The named parts are: {existing}.")
        return self._parts[name]

    def __contains__(self, name: object) -> bool:
        return name in self._parts

    def all(self) -> tuple[Named, ...]:
        """The parts in the order of the code."""
        return tuple(self._parts.values())

    def remember(self, checkpoint: Path) -> None:
        """Records the names next to the state."""
        _note(checkpoint, {**_noted(checkpoint), **self._parts})

    def removed_parts(self, checkpoint: Path) -> list[Named]:
        """The removed parts whose state is kept."""
        return [part for name, part in _noted(checkpoint).items() if name not in self._parts]

    def drop(self, checkpoint: Path, name: str) -> None:
        """Deletes the state of a removed part."""
        if name in self._parts:
            raise InvalidArgumentError(
                f"{name!r} is in use: the {self._parts[name].kind} at {self._parts[name].where}. Take it out of the "
                "code before its state is dropped."
            )
        noted = _noted(checkpoint)
        if name not in noted:
            removable = ", ".join(sorted(n for n in noted if n not in self._parts)) or "none"
            raise InvalidArgumentError(
                f"There is no state of {name!r} to drop. Parts whose state is kept: {removable}."
            )
        folder = noted.pop(name).folder
        if folder is not None:
            shutil.rmtree(checkpoint / folder, ignore_errors=True)
        _note(checkpoint, noted)


def folder_name(name: str) -> str:
    """A name as a folder name. Mullion's own folders begin with '_'."""
    quoted = quote(name, safe=" ")
    return f"%{ord(quoted[0]):02X}{quoted[1:]}" if quoted[:1] in ("_", ".") else quoted


def _noted(checkpoint: Path) -> dict[str, Named]:
    manifest = Manifest(checkpoint)
    parts = manifest.read("names", dict) or {}
    with reading(manifest.file):
        return {name: Named(part["kind"], name, part["where"], part["folder"]) for name, part in parts.items()}


def _note(checkpoint: Path, parts: dict[str, Named]) -> None:
    entries = {name: {"kind": part.kind, "where": part.where, "folder": part.folder} for name, part in parts.items()}
    Manifest(checkpoint).write("names", entries)
