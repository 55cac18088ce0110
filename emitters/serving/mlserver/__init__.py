"""What is known of the server mlserver without its code."""

from __future__ import annotations

from converter.protocols.spec import ServerSpec
from emitters.serving.request import SHARED

SPECS = {
    "mlserver": ServerSpec(
        accepts=("onnx", "tflite"),
        options=(*SHARED, "version"),
        ports={"http": 8080, "grpc": 8081, "metrics": 8082},
        joins=True,
    )
}
