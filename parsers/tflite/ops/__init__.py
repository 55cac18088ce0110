"""How each TFLite operator is said in ONNX: a module a family, a function an operator."""
