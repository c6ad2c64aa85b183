"""Python functions over the rows of a stream, in Spark's workers: the base of pane functions and of the adapters.

::

    api        puts functions into a plan, and reads the state of a checkpoint
    stage      runs one in a worker, over the frames of its task
    calls      the calls of user functions, with or without state: errors, and failures that are skipped
    results    the rows that a function returns, checked against its schema
    store      the interface of keyed state: records of bytes, and timers
    state      the store of a task, whose records are in the JVM
    memory     a store of a process, for tests and for use without Spark
    journal    wraps either, and undoes the writes of a failed call

An adapter only uses ``store``, so that it can be tested without Spark. The frames of ``stage`` and ``state`` are those
of ``KeyedFunctionTask`` and ``StateServer`` in Scala: both sides must be changed together.
"""
