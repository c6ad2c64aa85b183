"""The shared parts of programs: the App, its run loop, names, the report of ``explain()``, and the command.

::

    app  host              an App: topics, checkpoint, clock, session; an adapter has a subclass
    jobs  runner           its queries: what each reads and publishes; the loop that starts, watches and stops them
    started                a running query
    part_names  report     parts with state under their names; the output of explain() and windows()
    manifest  compare      the meaning of the program's state; the effect of a changed program on it
    outside_state          variables that a function changes and no checkpoint has
    savepoint              savepoints of programs
    session  failures      a default session; the reason why a query failed
    cli                    the command line: each adapter has its commands in a module _commands

No adapter is imported here: each passes its own parts to its App or its jobs.
"""
