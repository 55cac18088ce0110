"""What is known of the server rayserve without its code."""

from __future__ import annotations

from converter.protocols.spec import ServerSpec
from emitters.serving.rayserve.request import HEADING
from emitters.serving.request import SHARED

SPECS = {
    "rayserve": ServerSpec(
        accepts=("onnx", "tflite"),
        options=(HEADING, *SHARED, "max_instances", "request_timeout"),
        ports={"http": 8000},
        joins=True,
    )
}
