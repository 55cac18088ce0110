"""What is known of the server triton without its code."""

from __future__ import annotations

from converter.protocols.spec import ServerSpec
from emitters.serving.triton.request import HEADING

SPECS = {
    "triton": ServerSpec(
        accepts=("tensorrt", "onnx", "tflite", "torchscript", "savedmodel"),
        options=(
            *(HEADING, "max_batch", "dynamic_batching", "preferred_batch", "queue_delay"),
            *("instances", "instance_kind", "version", "warmup", "parameters"),
        ),
        packages=("tritonclient",),
        tools=("tritonserver", "docker"),
        ports={"http": 8000, "grpc": 8001, "metrics": 8002},
        publishes=True,
        several=True,
        joins=True,
    )
}
