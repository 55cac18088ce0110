"""What is known of the server bentoml without its code."""

from __future__ import annotations

from converter.protocols.spec import ServerSpec
from emitters.serving.request import SHARED

SPECS = {
    "bentoml": ServerSpec(
        accepts=("onnx", "tflite"),
        options=tuple(name for name in (*SHARED, "request_timeout") if name != "queue_delay"),
        ports={"http": 3000},
        joins=True,
    )
}
