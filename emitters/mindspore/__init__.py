"""The MindSpore target: a model of MindSpore Lite, converted and run in a Python 3.7."""
