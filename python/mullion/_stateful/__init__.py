"""Functions of Python with state of their own, which rows pass through in a stream: what doors are built on.

``api`` puts them into a plan, ``stage`` runs in the worker, ``state`` talks to the JVM, where the records are, and
``journal`` takes back what a call that failed has written.
"""
