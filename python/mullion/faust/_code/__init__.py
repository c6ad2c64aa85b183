"""What an agent's body says, read from its syntax tree.

::

    parser          body -> syntax: a fold, running, or Python
    interpreter     what a body that has been read does: the model that other ways of running are held against
    folds           which agents run in the JVM, and their instructions for it

A body is read only where it is known in every detail; what is not known stays Python.
"""
