"""Runs dataflows on Spark: the plan, the log of inputs, the stages in the workers, and the sinks.

::

    driver   sources -> log of inputs (files)                                      sinks, inspectors
    Spark      log -> stateless steps -> [shuffle by key] -> stateful step -> stateless steps -> ... -> driver

Items are Python values. Spark rows carry them as bytes (``values``), many items in one row.
"""
