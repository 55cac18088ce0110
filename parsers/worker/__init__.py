"""The child process that holds a framework and the user's own code: what all frameworks share.

Each framework's half is `parsers/*/child`, or a file of a plug-in that lies elsewhere. `main.py` is
started as a script, possibly by another interpreter, and loads `parsers` under the private package
name `_modelyard_parsers`, so that no name of ours stands in the way of a user's module. Only
the standard library, numpy and the framework itself may be imported.
"""
