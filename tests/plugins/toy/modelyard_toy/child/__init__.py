"""What may run in a Python of the user's: standard library, numpy and onnx, Python 3.9 or newer."""
