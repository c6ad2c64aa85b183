"""What a program's code names, before anything runs: its tables, topics, agents, timers, tasks, commands and signals.

``program`` collects them. Beside it: the command line of a program that is run itself, commands of its own, agents in
modules that are discovered, the address of its broker. Names and arguments are Faust's and stay as they are.
"""
