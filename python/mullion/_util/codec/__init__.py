"""Conversion of values to text and bytes, and back.

::

    json      plain values: the output of a program, and external JSON
    values    all Python values, with marks for the types that JSON lacks; values are read exactly as written
    objects   the state of functions: values, or a table
    pickles   objects of classes that opt in to pickle
    arrow     batches and schemas in Arrow's IPC format
    windows   the windows in Arrow columns as Python objects, and as text for errors

Checkpoints and topics contain all these formats except the last, so they must stay readable: a new kind of value gets
a new mark, and the format of old kinds does not change.
"""
