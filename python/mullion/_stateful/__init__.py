"""Functions of Python with state of their own, which rows pass through in a stream: what doors are built on.

::

    api        puts functions into a plan, and reads the state of a checkpoint
    stage      runs one in a worker, over the frames of its task
    store      what keyed state is to whoever uses it: records of bytes, and timers
    state      the store of a task, whose records are in the JVM
    memory     a store of a process, for tests and for what runs without Spark
    journal    goes around either, and takes back what a call that failed has written

A door talks to ``store`` alone, so that it can be tried without Spark. The frames of ``stage`` and ``state`` are those
of ``StatefulTask`` and ``StateServer`` in Scala: neither side changes without the other.
"""
