"""The parts of ``build_engine.py``, which builds an engine where it is to run.

:mod:`emitters.tensorrt.script` puts them into one file that goes into a folder of its own. So
everything here is Python 3.9, and imports the standard library, TensorRT and its siblings only.
"""
