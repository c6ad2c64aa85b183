"""The basic values: times, crontabs, types of fields, and the shard of a key.

Nothing here depends on programs. The Scala operator computes the same shards, so ``shards`` and Scala's ``Shards``
change together.
"""
