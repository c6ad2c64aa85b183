"""What the rest is written in: times, crontabs, types of fields, and the shard that a key is in.

Nothing here knows a program. The Scala operator computes the same shards, so ``shards`` and Scala's ``Shards`` change
together.
"""
