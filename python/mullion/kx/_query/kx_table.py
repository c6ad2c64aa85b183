"""Batches with the conversions of PyKX's tables, for functions that call these."""

from __future__ import annotations

import dis
from types import CodeType
from typing import Any, Final, final

import pyarrow as pa

from mullion._pyfunction.functions import plain

CONVERSIONS: Final = frozenset(("np", "pa", "pd", "py"))


@final
class KxTable:
    """A ``pyarrow.Table`` that also has ``pd()``, ``pa()``, ``np()`` and ``py()``."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def pd(self) -> Any:
        """The batch as a ``pandas.DataFrame``."""
        return self._table.to_pandas()

    def pa(self) -> pa.Table:
        """The batch as a ``pyarrow.Table``."""
        return self._table

    def np(self) -> Any:
        """The batch as a NumPy array of records."""
        return self._table.to_pandas().to_records(index=False)

    def py(self) -> dict[str, list[Any]]:
        """The batch as a dict with the list of each column's values."""
        columns: dict[str, list[Any]] = self._table.to_pydict()
        return columns

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    def __getitem__(self, key: Any) -> Any:
        return self._table[key]

    def __len__(self) -> int:
        return len(self._table)

    def __eq__(self, other: object) -> bool:
        return bool(self._table == (other._table if isinstance(other, KxTable) else other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._table)


def converts(function: Any) -> bool:
    """True if a function calls a conversion of PyKX's tables, such as ``data.pd()``."""
    plain_function = plain(function)
    return plain_function is not None and _converts(plain_function.__code__)


def _converts(code: CodeType) -> bool:
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_ATTR", "LOAD_METHOD") and step.argval in CONVERSIONS:
            return True
    return any(_converts(constant) for constant in code.co_consts if isinstance(constant, CodeType))
