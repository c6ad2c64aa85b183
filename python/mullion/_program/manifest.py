"""The manifest of a program or a query: what its state means, in one file that is compared at each start.

::

    shop/manifest.json             {"version": 1, "names": {...}}
    shop/revenue/manifest.json     {"version": 1, "window": {...}, "topic": "orders"}

Each section has one owner, which compares it with the program and writes it before the first batch.
"""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any, Final, final

from mullion._util.files import json_in, reading, replace_text
from mullion.errors import IncompatibleStateError

VERSION: Final = 1
_WRITES = threading.Lock()


@final
class Manifest:
    """The manifest in a folder. A file that does not exist has no sections.

    Reading raises :class:`DamagedStateError` if the file is damaged, and :class:`IncompatibleStateError` if a newer
    Mullion wrote it.
    """

    NAME: Final = "manifest.json"

    def __init__(self, folder: Path) -> None:
        self.file = folder / self.NAME

    def read(self, section: str, kind: type[Any]) -> Any:
        """The JSON of a section, of the type ``kind``; ``None`` if nobody has written it."""
        value = self._sections().get(section)
        with reading(self.file):
            if value is not None and not isinstance(value, kind):
                raise TypeError(type(value).__name__)
        return value

    def write(self, section: str, value: object) -> None:
        """Replaces a section; ``None`` removes it. Does nothing if the section already has this value."""
        with _WRITES:
            sections = self._sections()
            if json.loads(json.dumps(value)) != sections.get(section):
                now = {**sections, "version": VERSION, section: value}
                replace_text(self.file, json.dumps({k: v for k, v in now.items() if v is not None}, indent=1))

    def _sections(self) -> dict[str, Any]:
        if not self.file.exists():
            return {}
        sections: dict[str, Any] = json_in(self.file, dict)
        with reading(self.file):
            version = int(sections["version"])
        if version > VERSION:
            raise IncompatibleStateError(
                f"{self.file} has version {version}, and this Mullion reads versions up to {VERSION}. Run the program "
                "with the newer Mullion that wrote it, or start with another folder."
            )
        return sections
