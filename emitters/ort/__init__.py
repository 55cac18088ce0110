"""The ORT target: the Model in ONNX Runtime's own format, for its minimal builds too."""
