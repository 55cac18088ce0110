"""What is known of OpenVINO's IR as a target without its code."""

from __future__ import annotations

from converter.protocols.spec import TargetSpec

_TABLES = "OpenVINO's engine has no products of tables: they would be looked up as it loads"

SPECS = {
    "openvino": TargetSpec(
        precisions=(
            *("fp32", "fp16", "int8", "int8-weights", "int4-weights"),
            *("fp16+int8-weights", "fp16+int4-weights"),
        ),
        lacks={
            "bf16": (
                "its engine computes float32 in bfloat16 where it is asked to",
                "Use fp32, and compile with INFERENCE_PRECISION_HINT bf16.",
            ),
            "int16x8": ("its engine has no activations of 16 bits", "Use int8, or fp16."),
            "int8-dynamic": (
                "its engine rounds activations as it runs by a setting, and no file says it",
                "Use int8-weights, and compile with DYNAMIC_QUANTIZATION_GROUP_SIZE.",
            ),
            "palettized": (_TABLES, "Use int8-weights or int4-weights."),
            "fp16+palettized": (_TABLES, "Use fp16+int8-weights or fp16+int4-weights."),
        },
        extra="openvino",
        packages=("openvino",),
    )
}
