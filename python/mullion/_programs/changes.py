"""What would become of a program's state if it were started as it now is: said before it starts, and nothing done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, final

REFUSED: Final = "refused"


@final
@dataclass(frozen=True)
class Change:
    """What becomes of a part of a program: a query, a window, a table, and why in words."""

    part: str
    verdict: Literal["goes on", "drains", "drops", "refused"]
    what: str
