"""What is known of OpenVINO's IR as a target without its code."""

from __future__ import annotations

from converter.protocols.spec import TargetSpec

SPECS = {
    "openvino": TargetSpec(
        precisions=("fp32", "fp16", "int8"),
        extra="openvino",
        packages=("openvino",),
    )
}
