"""Topics that are folders of Parquet files: ``dir:PATH``.

::

    broker       the broker, the implementation of mullion.topics.Broker
    topic        one topic: its files in order, and the note of its columns
    publisher    publishes a query's batches exactly once, whenever it is killed
    json         messages of any shape in the columns of a topic, with additional text
    rows         reads files for a query with other columns

Programs that were stopped months ago read these files: files are only added, and a note contains the number of its
format. A change of either needs a new number, and a reader for the old format.
"""
