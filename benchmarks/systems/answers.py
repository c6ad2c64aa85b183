"""The answer of a system: the number of its panes, of their rows, and a checksum over their contents.

The checksum uses integers that every engine has, costs little, and does not depend on order. A pane is ``k``,
``start_ms`` and ``end_ms`` since the epoch, and the aggregates ``n``, ``total``, ``least``, ``most``.
"""

from __future__ import annotations

MODULUS = 65521
# For Spark, DuckDB and Flink alike. A remainder has the type of the modulus in Flink, and would overflow as INT.
_MODULUS = f"CAST({MODULUS} AS BIGINT)"
_PANE = f"MOD(k * 31 + start_ms * 7 + end_ms, {_MODULUS}) * MOD(n * 131 + total * 31 + least * 17 + most, {_MODULUS})"
COLUMNS = ("COUNT(*) AS panes", "COALESCE(SUM(n), 0) AS of_rows", f"COALESCE(SUM({_PANE}), 0) AS checksum")
ANSWER_SQL = ", ".join(COLUMNS)


def columns_of(names: list[str]) -> tuple[str, ...]:
    """The expressions of an answer for panes with other columns. They need Spark."""
    rows = "COALESCE(SUM(n), 0)" if "n" in names else "CAST(0 AS BIGINT)"
    checksum = f"COALESCE(SUM(PMOD(XXHASH64({', '.join(f'`{name}`' for name in sorted(names))}), {_MODULUS})), 0)"
    return "COUNT(*) AS panes", f"{rows} AS of_rows", f"{checksum} AS checksum"


class Answer:
    """The answer of an engine that returns panes one by one."""

    def __init__(self) -> None:
        self.panes = self.of_rows = self.checksum = 0

    def add(self, k: int, start_ms: int, end_ms: int, n: int, total: int, least: int, most: int) -> None:
        self.panes += 1
        self.of_rows += n
        self.checksum += (
            (k * 31 + start_ms * 7 + end_ms) % MODULUS * ((n * 131 + total * 31 + least * 17 + most) % MODULUS)
        )

    def values(self) -> dict[str, int]:
        return {"panes": self.panes, "of_rows": self.of_rows, "checksum": self.checksum}
