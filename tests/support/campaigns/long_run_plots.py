"""Plots of long runs: one figure below the other, over minutes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path


def plotted(
    minutes: Sequence[float], columns: Mapping[str, Sequence[float]], into: Path, *, lines: Mapping[str, float] = {}
) -> None:
    """Writes an SVG. ``lines`` are limits by the names of their figures."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(len(columns), 1, sharex=True, figsize=(8, 1.8 * len(columns)), layout="constrained")
    for axis, (name, column) in zip(axes, columns.items(), strict=True):
        axis.plot(minutes, column, linewidth=1)
        axis.set_title(name, fontsize=9, loc="left")
        axis.set_ylim(bottom=0)
        if name in lines:
            axis.axhline(lines[name], linewidth=0.5, linestyle="--")
    axes[-1].set_xlabel("minutes")
    figure.savefig(into, metadata={"Date": None})
