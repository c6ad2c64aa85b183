"""What programs of all doors share: the App, its run loop, names, the report of ``explain()``, and the command.

::

    app                    an App: topics, checkpoint, clock, session; a door has one of its own over it
    jobs                   its queries, each from sources to a sink, which runner starts, watches and stops
    sources  sinks         the kinds that there are; another one is a class of a door's own
    commands  cli          the command line: each door has its commands in a module _commands
    names  report          parts whose state is kept under their names; what explain() and windows() show
    loading  session  failures      module:app, a session for who has none, why a query failed

No door is named here: what one needs, it hands to its App or its jobs.
"""
