"""The operators of ``table[key] += value`` and the like, by the names that state contains."""

from collections.abc import Callable
from typing import Any, Final

from mullion._pyfunction.evaluate import SIGNS

NAMED: Final[dict[str, Callable[[Any, Any], Any]]] = {
    sign: SIGNS[sign] for sign in ("+", "-", "*", "/", "//", "%", "**", "<<", ">>", "&", "^", "|")
}
