"""The child process that holds a framework and the user's own code.

Only `contents.py`, which needs no framework, is imported by the rest of Modelyard: `main.py` is
started as a script, possibly by another interpreter, and loads its sibling files under the private
package name `_modelyard_worker`, so that no name of ours stands in the way of a user's module.
Only the standard library, numpy and the framework itself may be imported.
"""
