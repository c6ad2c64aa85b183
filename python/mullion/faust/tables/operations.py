"""The operators of ``table[key] += value`` and its like, by the names that are kept in state."""

from collections.abc import Callable
from typing import Any, Final

from mullion._code.evaluate import SIGNS

NAMED: Final[dict[str, Callable[[Any, Any], Any]]] = {
    sign: SIGNS[sign] for sign in ("+", "-", "*", "/", "//", "%", "**", "<<", ">>", "&", "^", "|")
}
