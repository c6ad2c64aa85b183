"""The shared parts of programs: the App, its run loop, names, the report of ``explain()``, and the command.

::

    app                    an App: topics, checkpoint, clock, session; an adapter has a subclass
    jobs                   its queries, each from sources to a sink, which runner starts, watches and stops
    sources  sinks         the existing kinds; an adapter may have others
    commands  cli          the command line: each adapter has its commands in a module _commands
    names  report          parts with state under their names; the output of explain() and windows()
    loading  session  failures      module:app, a default session, the reason why a query failed

No adapter is imported here: each passes its own parts to its App or its jobs.
"""
