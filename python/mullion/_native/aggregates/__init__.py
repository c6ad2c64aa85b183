"""Aggregates in Python: the class that users extend, and the code that runs it in Spark's workers."""

from mullion._native.aggregates.api import PythonAggregate

__all__ = ["PythonAggregate"]
