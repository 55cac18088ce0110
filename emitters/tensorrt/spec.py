"""What is known of TensorRT and TensorRT-RTX as a target without its code."""

from __future__ import annotations

from dataclasses import replace

from converter.errors import UsageError
from converter.files.signatures import Marks
from converter.files.unread_formats import Foreign
from converter.options.precisions import PRECISIONS, stores_weights
from converter.protocols.spec import TargetSpec

_RTX = TargetSpec(
    precisions=("fp32", "fp16", "bf16", "int8"),
    lacks={
        "int8-dynamic": (
            "it takes int8 scales from the graph",
            "Ask for --precision int8, with --samples to measure ranges on.",
        ),
        **dict.fromkeys(
            filter(stores_weights, PRECISIONS),
            (
                "its engines compute in the types of the graph",
                "Ask for --precision fp16, or int8 with --samples to measure ranges on.",
            ),
        ),
    },
    options=("TensorRT", "shapes", "external_data", "cuda_graph", "max_batch", "preferred_batch"),
    extra="tensorrt-rtx",
    packages=("tensorrt-rtx",),
    cached={"tensorrt-rtx": r"[0-9a-f]{32}-.+\.bin"},
    marks=Marks(
        magic=(
            (0, b"ftrt", "an engine of TensorRT (.plan)"),
            (0, b"vtrt", "an engine of TensorRT-RTX (.plan)"),
        )
    ),
    refused=(
        Foreign(
            "a TensorRT engine",
            "It holds a device's code, and no graph: convert the model that it was made from. "
            "modelyard inspect shows what it takes, modelyard bench measures it.",
            lambda path, head: (
                head.startswith((b"ftrt", b"vtrt")) or path.suffix.lower() in (".engine", ".plan")
            ),
            UsageError,
        ),
    ),
)
SPECS = {
    "tensorrt-rtx": _RTX,
    "tensorrt": replace(
        _RTX,
        extra="tensorrt",
        packages=("tensorrt",),
        cached={"tensorrt": r".+\.timing|[0-9a-f]{32}-.+\.bin"},
    ),
}
