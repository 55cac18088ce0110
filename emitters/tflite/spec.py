"""What is known of TFLite as a target without its code."""

from __future__ import annotations

from converter.options.precisions import PRECISIONS, stores_weights
from converter.options.request import IMAGE_OPTIONS
from converter.protocols.spec import TargetSpec

SPECS = {
    "tflite": TargetSpec(
        precisions=("fp32", "fp16", "int8", "int16x8", "int8-dynamic"),
        lacks={
            "bf16": (
                "LiteRT has no kernels of it",
                "Use fp16, which is stored in 16 bits and computed in float32.",
            ),
            **dict.fromkeys(
                filter(stores_weights, PRECISIONS),
                (
                    "LiteRT's kernels take int8 weights as they are",
                    "Use int8-dynamic, whose weights are int8 too.",
                ),
            ),
        },
        options=("description", "author", "license", "model_version", *IMAGE_OPTIONS),
        extra="tflite",
    )
}
