"""The running program: the query of its agents, its worker in Spark's Python processes, and its background tasks.

::

    query           topics -> one operator for all agents and timers
      worker        one shard partition, one batch: the agents' events, in order of arrival
        agent_loop  an agent's body over those events
        shard       the tables' records for the keys of one shard
    background      tasks, commands and signals, in the process that started the program
"""
