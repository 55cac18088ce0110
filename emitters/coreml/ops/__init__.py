"""The lowerings, a file for each family of ONNX operators."""

from __future__ import annotations

from functools import cache
from importlib import import_module

FAMILIES = (
    "elementwise",
    "convolution",
    "shaping",
)


@cache
def load() -> None:
    """Has every family register its lowerings."""
    for family in FAMILIES:
        import_module(f"{__name__}.{family}")
