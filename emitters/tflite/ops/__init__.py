"""The lowerings, a file for each family of ONNX operators."""
