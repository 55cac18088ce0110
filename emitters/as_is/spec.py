"""What is known of the source's own files as a target without its code."""

from __future__ import annotations

from converter.protocols.spec import TargetSpec

SPECS = {name: TargetSpec(precisions=("fp32",)) for name in ("torchscript", "savedmodel")}
