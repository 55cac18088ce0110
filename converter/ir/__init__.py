"""What can be asked of an ONNX graph, and small things done to it."""
