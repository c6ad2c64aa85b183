"""Pictures with matplotlib, the extra ``plot`` of this package.

>>> from mullion import plot
>>> plot.timeline(spark.table("panes"), by="carrier", value="n").figure.savefig("panes.png")  # doctest: +SKIP

A notebook shows a picture that is the result of a cell.
"""

from mullion.plot._delays import delays
from mullion.plot._timeline import timeline

__all__ = ["delays", "timeline"]
