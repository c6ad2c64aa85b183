"""How a dataflow runs on Spark: its plan, its log of inputs, the stages in the workers, and its sinks.

::

    driver   sources -> log of inputs (files)                                      sinks, inspectors
    Spark      log -> steps without state -> [shuffle by key] -> step with state, and those after it -> ... -> driver

Values are Python's, and cross Spark as bytes (``values``), many in one row.
"""
