"""The lowerings, a file for each family of ONNX operators."""

from __future__ import annotations

from functools import cache
from importlib import import_module

FAMILIES = (
    "activation",
    "arithmetic",
    "bits",
    "averaging",
    "blocks",
    "casting",
    "control",
    "convolution",
    "detection",
    "division",
    "elementwise",
    "gathering",
    "local_response",
    "logic",
    "matrix",
    "mel",
    "normalization",
    "padding",
    "pooling",
    "quantization",
    "recurrent",
    "reduction",
    "resizing",
    "scattering",
    "selecting",
    "shaping",
    "slicing",
    "transposed_convolution",
)


@cache
def load() -> None:
    """Has every family register its lowerings."""
    for family in FAMILIES:
        import_module(f"{__name__}.{family}")
