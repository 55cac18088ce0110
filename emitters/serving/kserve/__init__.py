"""What is known of the server kserve without its code."""

from __future__ import annotations

from converter.protocols.spec import ServerSpec
from emitters.serving.request import SHARED

SPECS = {
    "kserve": ServerSpec(
        accepts=("onnx", "tflite"), options=SHARED, ports={"http": 8080, "grpc": 8081}, joins=True
    )
}
