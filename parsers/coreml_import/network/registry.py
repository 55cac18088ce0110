"""Which function reads which layer of a neural network.

@layer("softmax")
def softmax(net: Network, at: Layer) -> onnx_ir.Value:
    return net.op("softmax", x=at.inputs[0], axis=-3)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

import onnx_ir

if TYPE_CHECKING:
    from parsers.coreml_import.network.tensors import Network

FAMILIES = (
    "elementwise",
    "convolution",
    "normalization",
    "linear",
    "images",
    "shapes",
    "ordering",
    "reduction",
)


@dataclass(frozen=True)
class Layer:
    """A layer.

    Attributes:
        name: Its own.
        kind: Which layer it is, by the protobuf's name.
        parameters: The message of that name.
        inputs: What it is given.
        outputs: How many outputs it has.
    """

    name: str
    kind: str
    parameters: Any
    inputs: Sequence[onnx_ir.Value]
    outputs: int


Reading = Callable[["Network", Layer], "onnx_ir.Value | Sequence[onnx_ir.Value]"]
"""Adds a layer's nodes and gives its outputs; raises Refusal."""

_READINGS: dict[str, Reading] = {}


def layer(*kinds: str) -> Callable[[Reading], Reading]:
    """Registers a function for layers by their kind."""

    def register(function: Reading) -> Reading:
        for kind in kinds:
            if kind in _READINGS:
                raise ValueError(f"{kind} is read twice: remove one of the two functions")
            _READINGS[kind] = function
        return function

    return register


def reading_of(kind: str) -> Reading | None:
    """The function that reads layers of a kind, or None."""
    _load()
    return _READINGS.get(kind)


@cache
def _load() -> None:
    for family in FAMILIES:
        import_module(f"parsers.coreml_import.network.{family}")
