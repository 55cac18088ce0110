"""What each TFLite operator is in ONNX: one module a family of operators."""
