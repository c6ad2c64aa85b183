"""Small files beside a checkpoint."""

from __future__ import annotations

import uuid
from pathlib import Path


def replace_text(file: Path, text: str) -> None:
    """Writes a small file so that a reader sees the old one or the new one."""
    file.parent.mkdir(parents=True, exist_ok=True)
    hidden = file.with_name(f".{file.name}-{uuid.uuid4().hex[:8]}")
    hidden.write_text(text, "utf-8")
    hidden.replace(file)
