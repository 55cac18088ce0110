"""What is known of MindSpore's models as a target without its code."""

from __future__ import annotations

from converter.files.signatures import Marks
from converter.files.unread_formats import Foreign
from converter.options.precisions import QUANTIZED
from converter.protocols.spec import TargetSpec
from emitters.mindspore.request import HEADING

SUFFIX = ".mindir"

_OURS = (
    "mindspore-lite 2.0.0 loads no Q and DQ, and its own quantization isn't used",
    "Use fp16, or --to tflite or openvino.",
)

SPECS = {
    "mindspore": TargetSpec(
        precisions=("fp32", "fp16"),
        lacks={
            "bf16": ("MindSpore Lite's CPU has no bfloat16", "Use fp16."),
            **dict.fromkeys(QUANTIZED, _OURS),
        },
        options=(HEADING,),
        marks=Marks(suffixes=(SUFFIX,)),
        refused=(
            Foreign(
                "a model of MindSpore (MindIR)",
                "Convert the model that it was made from.",
                lambda path, head: path.suffix == SUFFIX,
            ),
        ),
    )
}
