"""By what an agent's events must be in shards, so that all of a table's key are in one.

``table[withdrawal.country]`` needs the events of a country in one shard. An agent that says nothing is sharded by the
key of its tables, where it is proven that each is one field of the event as the topic has it. Where that is not proven,
all events are in one shard; where it is proven that they are several, totals would come in pieces, and the program is
refused when it starts.

What is a proof, line by line of the body::

    async for e in stream:         e is the event
        k = e["k"]                 k is its field 'k'
        views[k] += 1              a key: the field 'k'
        e["k"] = "other"           from here on no field is known; k still is
        views[k.upper()] += 1      a key that is not a field

::

    reach       which tables an agent can get at
    values      what the values of its topic are, and which fields they have
    spoils      what may change an event
    body        the fields by which a body uses its tables
    decision    what follows

Others use the names below. A new way to use a table or an event is allowed in ``body`` and ``spoils`` only once it is
certain what it does: all that is not known there makes one shard.
"""

from mullion.faust._sharding.body import Keyed
from mullion.faust._sharding.decision import Sharding, check, hidden, keys_of, sharding_of
from mullion.faust._sharding.reach import leads_to_table, reached

__all__ = ["Keyed", "Sharding", "check", "hidden", "keys_of", "leads_to_table", "reached", "sharding_of"]
