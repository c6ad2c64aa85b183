"""Topics that are folders of Parquet files: ``dir:PATH``.

::

    broker       the broker, as mullion.topics.Broker has it
    topic        one topic: its files in order, and the note of its columns
    publisher    what puts a query's batches there, exactly once, whatever is killed when
    json         messages of any shape in the columns of a topic, and as text beside them
    rows         files as a query reads them whose columns are others

What is on disk is read by programs that were stopped months ago: files are only added, and a note has its format's
number. Another form of either needs another number, and a reader for the old one.
"""
