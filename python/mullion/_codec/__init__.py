"""Values as text and bytes, and back: the one place that says how.

::

    json      plain values: what a program gives to the world, and what JSON it takes from there
    values    any value of Python's, marked where JSON has no word for it: what is read is what was written
    arrow     batches and schemas, as Arrow's IPC has them

What these make is in checkpoints and topics. So a format that is there stays readable: a new kind of value gets a mark
of its own, and what is written for the old ones does not change.
"""
