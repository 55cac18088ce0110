"""The TFLite target: the Model as a LiteRT file, written without TensorFlow."""
