"""The effect of starting a changed program on its state, before it starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, final

REFUSED: Final = "refused"


@final
@dataclass(frozen=True)
class Change:
    """The effect on a part of a program (a query, a window, a table), with the reason."""

    part: str
    verdict: Literal["goes on", "drains", "drops", "refused"]
    what: str
