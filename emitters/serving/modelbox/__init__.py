"""What is known of the server modelbox without its code."""

from __future__ import annotations

from converter.protocols.spec import ServerSpec

SPECS = {
    "modelbox": ServerSpec(
        accepts=("mindspore", "onnx"), options=("max_batch", "request_timeout", "version")
    )
}
