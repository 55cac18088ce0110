"""What is known of ONNX Runtime's own files as a target without its code."""

from __future__ import annotations

from converter.files.signatures import Marks
from converter.files.unread_formats import Foreign
from converter.protocols.spec import TargetSpec
from emitters.ort.request import HEADING

_TABLES = "as it is written, ONNX Runtime computes what is constant: tables would be gone"

SPECS = {
    "ort": TargetSpec(
        precisions=(
            *("fp32", "fp16", "int8", "int8-dynamic", "int8-weights", "int4-weights"),
            *("fp16+int8-weights", "fp16+int4-weights"),
        ),
        lacks={
            "bf16": ("ONNX Runtime's kernels for CPUs have none", "Use fp16."),
            "palettized": (_TABLES, "Use int8-weights or int4-weights."),
            "fp16+palettized": (_TABLES, "Use fp16+int8-weights or fp16+int4-weights."),
        },
        options=(HEADING, "reduce_range"),
        marks=Marks(magic=((4, b"ORTM", "ONNX Runtime's own format (.ort)"),)),
        refused=(
            Foreign(
                "a model in ONNX Runtime's own format",
                "Convert the .onnx file that it was made from.",
                lambda path, head: head[4:8] == b"ORTM",
            ),
        ),
    )
}
