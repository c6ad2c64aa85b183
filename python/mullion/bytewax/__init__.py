"""Bytewax's windowing API on Spark: a program for Bytewax 0.21 runs after a change of its imports.

::

    from mullion.bytewax import operators as op
    from mullion.bytewax.dataflow import Dataflow
    from mullion.bytewax.operators import windowing as win
    from mullion.bytewax.testing import TestingSource, run_main

Its modules are named as in Bytewax: ``dataflow``, ``operators``, ``operators.windowing``, ``inputs``, ``outputs``,
``connectors``, ``testing``, ``recovery`` and ``run``. ``seed.windowing`` is a variant of the windowing API for the
cases in which its definition conflicts with Bytewax 0.21. :func:`explain` reports the place where each step runs.
"""

from mullion.bytewax._translation.explain import explain

__all__ = ["explain"]
