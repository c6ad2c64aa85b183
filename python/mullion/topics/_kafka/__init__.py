"""Topics in Kafka, with JSON values: ``kafka://host:port``.

::

    broker          the broker, as mullion.topics.Broker has it
    client          Kafka from this process, without Spark; with transactions the only file that touches its client
    options         what a cluster asks of those who connect, for each of the two clients; nothing shows its values
    inferred        the columns of a topic, as most of its messages have them
    publisher       what puts a query's batches there, exactly once
    transactions    the producer behind it: a batch is a transaction

How a message is read is not decided here: what is JSON, and how deep and long it may be, is ``mullion._codec.json``'s.
"""
