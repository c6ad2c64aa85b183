"""Pipelines written for the KX Stream Processor, over Spark: ``from mullion.kx import sp``.

Programs use :mod:`mullion.kx.sp`. The other modules are internal: ``_arguments`` checks arguments, ``_operators`` has
the operators and joins them, and ``_graph`` names the parts of a pipeline and checks it. ``_plan`` builds queries,
``_windows`` builds the engine's windows, ``_worker`` runs functions over Arrow tables in Spark's workers, and
``_sources`` and ``_sinks`` read and write.
"""

from mullion.kx import sp

__all__ = ["sp"]
