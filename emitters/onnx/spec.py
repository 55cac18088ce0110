"""What is known of ONNX files as a target without its code."""

from __future__ import annotations

from converter.options.precisions import PRECISIONS
from converter.protocols.spec import TargetSpec

SPECS = {
    "onnx": TargetSpec(
        precisions=tuple(name for name in PRECISIONS if name != "int16x8"),
        lacks={"int16x8": ("its activations have 8 bits", "Ask for --precision int8, or fp16.")},
        options=("external_data", "providers", "reduce_range", "ort_extensions", "instance_kind"),
    )
}
