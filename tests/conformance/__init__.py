"""The official ONNX node tests (onnx/backend/test/case/node) through our emitters."""
