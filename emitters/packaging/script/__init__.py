"""The parts of ``selftest.py``: standard library, numpy and what runs the model; Python 3.10."""
