"""What is known of Core ML as a target without its code."""

from __future__ import annotations

from converter.options.precisions import PRECISIONS, stores_weights
from converter.options.request import IMAGE_OPTIONS
from converter.protocols.spec import TargetSpec

SPECS = {
    "coreml": TargetSpec(
        precisions=("fp32", "fp16", "int8", *filter(stores_weights, PRECISIONS)),
        lacks={
            "bf16": ("Core ML computes in fp16 and fp32", "Use fp16."),
            "int8-dynamic": (
                "Core ML quantizes activations by scales of the file",
                "Use int8-weights, or int8 with --samples to measure ranges on.",
            ),
        },
        options=(
            *("Core ML", "shapes", "max_batch", "preferred_batch"),
            *("description", "author", "license", "model_version", "metadata"),
            *IMAGE_OPTIONS,
        ),
        extra="coreml",
        packages=("coremltools",),
        labels={"coreml_target": "Core ML target"},
    )
}
