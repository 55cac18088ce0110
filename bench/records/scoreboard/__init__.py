"""What the ONNX backend scoreboard (github.com/onnx/backend-scoreboard) asks of a backend."""
