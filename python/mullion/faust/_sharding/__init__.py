"""The sharding of an agent's events, which keeps all records of a table's key in one shard.

``table[withdrawal.country]`` needs the events of a country in one shard. An agent without ``group_by`` is sharded by
the key of its tables, if the key is provably one field of the event, unchanged since the topic. Without a proof, all
events are in one shard. If the keys are provably different fields, totals would be split, and the program raises an
error at its start.

The proof goes through the body line by line::

    async for e in stream:         e is the event
        k = e["k"]                 k is its field 'k'
        views[k] += 1              a key: the field 'k'
        e["k"] = "other"           the fields are unknown from here; k is still known
        views[k.upper()] += 1      a key that is not a field

::

    reach       the tables that an agent can reach
    values      the values of its topic, and their fields
    spoils      code that may change an event
    body        the fields by which a body uses its tables
    decision    the resulting sharding

Other packages use the names below. Allow a new use of a table or an event in ``body`` and ``spoils`` only if its effect
is certain: anything unknown there results in one shard.
"""

from mullion.faust._sharding.body import Keyed
from mullion.faust._sharding.decision import Sharding, check, hidden, keys_of, sharding_of
from mullion.faust._sharding.reach import leads_to_table, reached

__all__ = ["Keyed", "Sharding", "check", "hidden", "keys_of", "leads_to_table", "reached", "sharding_of"]
