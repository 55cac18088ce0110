"""What is known of the server torchserve without its code."""

from __future__ import annotations

from converter.protocols.spec import ServerSpec
from emitters.serving.request import SHARED

SPECS = {
    "torchserve": ServerSpec(
        accepts=("onnx", "tflite", "torchscript"),
        options=(*SHARED, "max_instances", "request_timeout", "version"),
        joins=True,
        ports={
            "http": 8080,
            "management": 8081,
            "metrics": 8082,
            "grpc": 7070,
            "grpc_management": 7071,
        },
    )
}
