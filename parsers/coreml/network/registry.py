"""Which function reads which layer of a neural network.

@layer("softmax")
def softmax(net: Network, at: Layer) -> onnx_ir.Value:
    return net.op("softmax", x=at.inputs[0], axis=-3)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import onnx_ir

from converter.families import load, registering

if TYPE_CHECKING:
    from parsers.coreml.network.tensors import Network


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
    return registering(_READINGS, kinds)


def reading_of(kind: str) -> Reading | None:
    """The function that reads layers of a kind, or None."""
    load("parsers.coreml.network")
    return _READINGS.get(kind)
