"""From a subscription to a streaming query: a plan for each way that one can run.

::

    plan         what all have, and what a job is made of
    window       the query of one window              together    of several windows, which share what they can
    process      of what process returns              shard       of process, windows and callbacks with state
    batches  panes  returns  counts  sessions         parts of these

Which plan a window has decides which query has its panes: what is changed here must not move a window that runs. A
plan that is new is made in ``mullion.turbine.app``, and says there why.
"""
