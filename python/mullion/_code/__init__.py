"""How a user's functions are read: their source, what their names stand for, and what they compute.

::

    functions    a function's tree, its names, its scopes, its parameters; a lambda by its place and its code
    reach        what can be got at from a function, through names, cells and objects
    methods      which lines read a parameter, and which change what is in self
    syntax       what a function says: expressions, and the statements around them
    reader       from the tree to that; a door whose functions say more reads it in a Reader of its own
    evaluate     what an expression is, in Python: the model of the others
    jvm          the same as JSON, for the JVM

One rule holds for all of them: certain, or not at all. What is not known in every detail is ``Unknown`` (of a tree) or
``Refused`` (of an expression), and the function is run as it is. So an expression may be added here if
``evaluate``, and each of the others that does not refuse it, computes what CPython does: ``test_code_reader.py``,
``test_bytewax_traced.py`` and ``faust_random.py`` try it with random programs.
"""
