"""Pipelines as the KX Stream Processor writes them, over Spark: ``from mullion.kx import sp``.

:mod:`mullion.kx.sp` is what programs use. What stands beside it is ours: ``_arguments`` checks what is given,
``_operators`` are the operators and how they are joined, ``_graph`` names and checks a whole pipeline, ``_plan`` makes
queries of it, ``_windows`` asks the engine for its windows, ``_worker`` runs functions over Arrow tables in Spark's
workers, ``_sources`` and ``_sinks`` are the ends.
"""

from mullion.kx import sp

__all__ = ["sp"]
