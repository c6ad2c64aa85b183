"""Small tables for notebooks. Colours are those of the page, so that they are readable in light and in dark mode."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

_CELL: Final = "text-align: left; padding: 0.2em 0.8em; border: 0; border-bottom: 1px solid rgba(128, 128, 128, 0.35)"
_TABLE: Final = "border-collapse: collapse; border: 0; color: inherit; background: none"


def table(
    rows: Iterable[Sequence[object]], header: Sequence[str] = (), title: str = "", notes: Sequence[str] = ()
) -> str:
    """A table with escaped cells. Without ``header``, the first cell of each row is its heading."""
    caption = f'<div style="font-weight: 600">{escape(title)}</div>' if title else ""
    head = f"<thead><tr>{''.join(_cell('th', name) for name in header)}</tr></thead>" if header else ""
    body = "".join(f"<tr>{_row(row, has_heading=not header)}</tr>" for row in rows)
    below = "".join(f"<div>{escape(note)}</div>" for note in notes)
    return f'{caption}<table style="{_TABLE}">{head}<tbody>{body}</tbody></table>{below}'


def _row(cells: Sequence[object], *, has_heading: bool) -> str:
    return "".join(_cell("th" if has_heading and not place else "td", cell) for place, cell in enumerate(cells))


def _cell(tag: str, content: object) -> str:
    return f'<{tag} style="{_CELL}">{"" if content is None else escape(str(content))}</{tag}>'
