"""TFLite flatbuffers become ONNX graphs: the file read, its state made explicit, its operators
lowered."""
