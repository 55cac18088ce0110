"""What emitters that lower ONNX operator by operator share: a graph made ready, plans, refusals."""
