"""What is known of the source's own files as a target without its code."""

from __future__ import annotations

from converter.options.precisions import QUANTIZED
from converter.protocols.spec import TargetSpec

_FLOATS = (
    "the layers that it is traced from compute in floats",
    "Use fp16, or --to tflite --precision int8.",
)

SPECS = {
    "torchscript": TargetSpec(precisions=("fp32",)),
    "savedmodel": TargetSpec(
        precisions=("fp32", "fp16"),
        lacks={
            "bf16": ("next to none of TensorFlow's kernels for CPUs take it", "Use fp16 or fp32."),
            **dict.fromkeys(QUANTIZED, _FLOATS),
        },
        extra="tensorflow",
        packages=("tensorflow", "keras"),
    ),
}
