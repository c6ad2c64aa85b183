"""Topics in Kafka, with JSON values: ``kafka://host:port``.

::

    broker          the broker, the implementation of mullion.topics.Broker
    client          Kafka from this process, without Spark; with transactions the only user of its client
    options         the options of a cluster, for both clients; values are never shown
    inferred        the columns of a topic, from most of its messages
    publisher       publishes a query's batches exactly once
    transactions    its producer: a batch is a transaction

``mullion._util.codec.json`` defines valid JSON, and the limits of depth and length.
"""
