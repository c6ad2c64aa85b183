"""The lateness of rows, and the watermark delay for it: the result of ``suggest_delay``."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Literal, final

from mullion._util import durations, html

SHARES: Final = (0.5, 0.9, 0.99, 0.999, 0.9999, 1.0)
"""The quantiles of a result."""

_SECOND: Final = 1_000_000
_MINUTE, _HOUR, _DAY = 60 * _SECOND, 3600 * _SECOND, 86_400 * _SECOND

ROUND_US: Final = (
    0,
    *(n * _SECOND for n in (1, 2, 5, 10, 15, 20, 30)),
    *(n * _MINUTE for n in (1, 2, 5, 10, 15, 20, 30)),
    *(n * _HOUR for n in (1, 2, 3, 6, 12)),
    *(n * _DAY for n in (1, 2, 3, 7)),
)
"""Delays that people choose, in microseconds."""


@final
@dataclass(frozen=True, slots=True)
class KeyLateness:
    """The lateness of the rows with one value of ``by``.

    ``late_by`` is the lateness that the share ``keep`` of these rows does not exceed.
    """

    key: tuple[str | None, ...]
    rows: int
    late_by: timedelta
    latest: timedelta


@final
@dataclass(frozen=True, slots=True)
class SuggestedDelay:
    """A watermark delay, and the lateness of the rows that it follows from.

    - ``delay``: the delay to choose, a round length of time: ``df.withWatermark("ts", suggested.text)``. With it, the
      share ``keep`` of the rows, or more, is in time.
    - ``keep``: the share of rows that must be in time, as requested.
    - ``quantiles``: pairs of a share and a lateness that this share of the rows does not exceed.
    - ``late_rows``: pairs of a delay and the number of rows that are later than that.
    - ``rows``: the number of rows, or of micro-batches if ``unit`` is ``"batches"``: then the lateness is that of the
      latest row of each batch.
    - ``keys``: with ``by``, the lateness of up to 20 values, the latest first.

    Its text is a table; a notebook shows it as HTML. :func:`mullion.plot.delays` draws it.
    """

    delay: timedelta
    keep: float
    quantiles: tuple[tuple[float, timedelta], ...]
    late_rows: tuple[tuple[timedelta, int], ...]
    rows: int
    unit: Literal["rows", "batches"] = "rows"
    keys: tuple[KeyLateness, ...] = ()

    @property
    def text(self) -> str:
        """The delay as text, as ``withWatermark`` accepts it."""
        return written(self.delay)

    def __str__(self) -> str:
        tables = [[self._header(), *self._shares()]]
        if self.keys:
            tables.append([self._keys_header(), *self._keys()])
        return "\n\n".join([self._title(), *map(_aligned, tables)])

    def _repr_html_(self) -> str:
        shares = html.table(self._shares(), self._header(), self._title())
        return shares + (html.table(self._keys(), self._keys_header()) if self.keys else "")

    def _title(self) -> str:
        return f"Delay: {self.text}, for {_percent(self.keep)} of {self.rows} {self.unit}"

    def _header(self) -> tuple[str, str]:
        return f"share of {self.unit}", "late by at most"

    def _shares(self) -> list[tuple[str, ...]]:
        return [(_percent(share), written(lateness)) for share, lateness in self.quantiles]

    def _keys_header(self) -> tuple[str, ...]:
        return "key", "rows", f"late by at most, {_percent(self.keep)}", "latest"

    def _keys(self) -> list[tuple[str, ...]]:
        return [
            (", ".join(str(part) for part in one.key), str(one.rows), written(one.late_by), written(one.latest))
            for one in self.keys
        ]


def rounded_up(us: int) -> timedelta:
    """The shortest round delay of at least ``us`` microseconds: whole weeks beyond the list."""
    return timedelta(microseconds=next((one for one in ROUND_US if one >= us), -(-us // (7 * _DAY)) * 7 * _DAY))


def written(length: timedelta) -> str:
    """A length of time as text."""
    return durations.written(length // timedelta(microseconds=1))


def _percent(share: float) -> str:
    return f"{share * 100:.6g} %"


def _aligned(rows: list[tuple[str, ...]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
