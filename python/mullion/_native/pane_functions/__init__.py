"""Python functions over the rows of panes, in Spark's workers.

::

    pane       the facts about a firing that functions get: Pane
    reading    the firings in the Arrow batches of a task, whole or in pieces
    lists      the rows of panes as an aggregate, for windows and options that keep no rows
    apply      windowed(...).apply(function, schema): one call for each firing
    process    windowed(...).process(processor): a class with state for each pane

A window puts its rows into arrays, and Spark hands these to a worker as Arrow. ``apply`` hands them over row by row, so
that a batch has a bounded number of rows however large a pane is.
"""
