"""The picture of the delay that a stream needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mullion._util.delays import SuggestedDelay, written
from mullion.errors import InvalidArgumentError
from mullion.plot._axes import new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BAR, _CHOSEN, _INK = "#8fc1e3", "#c2185b", "#22313f"


def delays(suggested: SuggestedDelay, *, ax: Axes | None = None) -> Axes:
    """Draws the number of rows that are late, on a logarithmic scale, for each delay that you could choose.

    The suggested delay is bold, and its bar red. The first bar is that of no delay, the last one that of a delay with
    which no row is late, or of seven days. A notebook shows the picture if the call is the last line of a cell.

    - ``suggested``: the result of :func:`mullion.suggest_delay`.
    - ``ax``: the axes to draw on; by default those of a new figure.

    Raises :class:`UnsupportedError` when matplotlib is not installed.
    """
    if not isinstance(suggested, SuggestedDelay):
        raise InvalidArgumentError(
            f"plot.delays() was given a {type(suggested).__name__}. Pass the result of suggest_delay(...)."
        )
    axes = ax if ax is not None else new_axes()
    pairs = list(suggested.late_rows)
    enough = next((place for place, (_, count) in enumerate(pairs) if count == 0), len(pairs) - 1)
    shown = [pair for place, pair in enumerate(pairs) if place <= enough or pair[0] <= suggested.delay]
    counts = [count for _, count in shown]
    colours = [_CHOSEN if delay == suggested.delay else _BAR for delay, _ in shown]
    bars = axes.barh(range(len(shown)), counts, color=colours)
    axes.bar_label(bars, [f"{count} ({100 * count / suggested.rows:.3g} %)" for count in counts], padding=4, color=_INK)
    axes.set_yticks(range(len(shown)), [written(delay) for delay, _ in shown])
    for (delay, _), label in zip(shown, axes.get_yticklabels(), strict=True):
        label.set_fontweight("bold" if delay == suggested.delay else "normal")
    axes.invert_yaxis()
    axes.set_xscale("symlog", linthresh=1)
    axes.margins(x=0.2)
    axes.set_xlabel(f"late {suggested.unit}, of {suggested.rows}", color=_INK)
    axes.set_ylabel("watermark delay", color=_INK)
    axes.tick_params(colors=_INK, length=0)
    for side in axes.spines.values():
        side.set_visible(False)
    if ax is None:
        axes.figure.set_size_inches(8, 0.8 + 0.26 * len(shown))  # type: ignore[union-attr]
    return axes
