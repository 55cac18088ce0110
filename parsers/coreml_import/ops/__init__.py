"""The readings, a file for each family of operations."""

from __future__ import annotations

from functools import cache
from importlib import import_module

FAMILIES = (
    "elementwise",
    "activation",
    "reduction",
    "convolution",
    "pooling",
    "normalization",
    "linear",
    "nearest",
    "resizing",
    "sampling",
    "randomness",
    "classification",
    "shaping",
    "joining",
    "slicing",
    "rearranging",
    "filling",
    "ordering",
    "suppression",
    "gathering",
    "scattering",
    "attention",
    "quantization",
    "compression",
    "recurrent",
    "control_flow",
    "lists",
    "states",
)


@cache
def load() -> None:
    """Has every family register its readings."""
    for family in FAMILIES:
        import_module(f"{__name__}.{family}")
