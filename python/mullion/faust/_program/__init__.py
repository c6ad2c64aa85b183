"""The definitions of a program: tables, topics, agents, timers, tasks, commands and signals.

``program`` collects them. The other modules implement the command line of a program that runs as a script, its own
commands, the discovery of agents in other modules, and the broker's URL. Names and arguments are those of Faust.
"""
