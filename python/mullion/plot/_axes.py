"""Axes of pictures that notebooks show."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING

from mullion._util.install import pip_install
from mullion.errors import UnsupportedError

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def new_axes() -> Axes:
    """The axes of a new figure. A notebook shows them as a picture.

    The figure is unknown to pyplot: pyplot would choose a backend, and would keep each figure until it is closed.
    """
    try:
        from matplotlib.axes import Axes
        from matplotlib.figure import Figure
    except ImportError as missing:
        raise UnsupportedError(
            f"mullion.plot draws with matplotlib, which is an extra of this package: {pip_install('plot')}"
        ) from missing

    class ShownAxes(Axes):
        def _repr_png_(self) -> bytes:
            png = BytesIO()
            figure.savefig(png, format="png")
            return png.getvalue()

    figure = Figure(dpi=120, layout="constrained")
    return figure.add_subplot(axes_class=ShownAxes)
