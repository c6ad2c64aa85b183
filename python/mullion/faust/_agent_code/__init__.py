"""The translation of agents' bodies from their syntax trees.

::

    parser          body -> syntax: a fold, running, or Python
    interpreter     reference implementation of the syntax, for tests
    folds           the agents that run in the JVM, and their instructions

A body is translated only if every detail of it is supported. Otherwise it runs in Python.
"""
