"""Plans: the ways in which a subscription runs as streaming queries.

::

    plan         the common part of all plans         together    one query for several windows
    window       one query for one window             shard       process, windows and callbacks with state
    process      the results of process               batches  panes  returns  counts  sessions: helpers

The plan of a window decides which query has its panes: a change here must not move a window that has run. Plans are
chosen in ``mullion.turbine.app``.
"""
