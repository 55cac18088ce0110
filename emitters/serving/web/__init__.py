"""What is known of the server web without its code."""

from __future__ import annotations

from converter.protocols.spec import ServerSpec

SPECS = {"web": ServerSpec(accepts=("onnx", "tflite"), tools=("npm",), ports={"http": 8000})}
