"""What is known of the server litserve without its code."""

from __future__ import annotations

from converter.protocols.spec import ServerSpec
from emitters.serving.request import SHARED

SPECS = {
    "litserve": ServerSpec(
        accepts=("onnx", "tflite"),
        options=(*SHARED, "request_timeout"),
        ports={"http": 8000},
        joins=True,
    )
}
