"""The translation of a user's functions: their source, the values of their names, and their expressions.

::

    functions    a function's tree, its names, its scopes, its parameters; a lambda by its place and its code
    reach        objects reachable from a function, through names, cells and objects
    methods      the lines that read a parameter or change attributes of self
    syntax       the translated form: expressions, and the statements around them
    reader       from the tree to that form; an adapter with more constructs has its own Reader
    evaluate     evaluation of expressions in Python: the model of the others
    jvm          the same as JSON, for the JVM

    outside_writes    writes of a function to variables outside of it, found in its code
    variables         changes of such variables, found by comparison before and after the function runs
    contents          the contents of objects, for that comparison

One rule holds for all of them: exact, or not at all. A construct that is not understood in every detail is ``Unknown``
(in a tree) or ``Refused`` (in an expression), and the function is called unchanged. An expression may therefore be
added if ``evaluate``, and each of the others that supports it, computes the result of CPython: ``test_code_reader.py``,
``test_bytewax_traced.py`` and ``faust_random.py`` test it with random programs.
"""
