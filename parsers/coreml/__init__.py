"""Core ML's format: read from its protobufs and weights, its operations expressed in ONNX."""
