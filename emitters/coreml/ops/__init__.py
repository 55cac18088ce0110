"""The lowerings, a file for each family of ONNX operators."""

from __future__ import annotations

from functools import cache
from importlib import import_module

FAMILIES = (
    "elementwise",
    "arithmetic",
    "bits",
    "activation",
    "clipping",
    "softmax",
    "logic",
    "casting",
    "reduction",
    "extremes",
    "sorting",
    "cumulative",
    "dropout",
    "convolution",
    "transposed_convolution",
    "pooling",
    "averaging",
    "normalization",
    "blocks",
    "resizing",
    "sampling",
    "shaping",
    "slicing",
    "padding",
    "gathering",
    "scattering",
    "selecting",
    "uniqueness",
    "detection",
    "matrix",
    "mel",
    "dynamic_quantization",
    "recurrent",
    "control",
    "loops",
    "scans",
    "quantization",
)


@cache
def load() -> None:
    """Has every family register its lowerings."""
    for family in FAMILIES:
        import_module(f"{__name__}.{family}")
