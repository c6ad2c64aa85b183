"""Bytewax's windowing API, on Spark: a program for Bytewax 0.21 runs after its imports change.

::

    from mullion.bytewax import operators as op
    from mullion.bytewax.dataflow import Dataflow
    from mullion.bytewax.operators import windowing as win
    from mullion.bytewax.testing import TestingSource, run_main

Its modules have the names of Bytewax's: ``dataflow``, ``operators``, ``operators.windowing``, ``inputs``, ``outputs``,
``connectors``, ``testing``, ``recovery`` and ``run``. ``seed.windowing`` is the API of another document, where the two
cannot both be had. :func:`explain` says where each step of a dataflow runs.
"""

from mullion.bytewax._run.explain import explain

__all__ = ["explain"]
