"""Small float models of every kind of operator that a scheme quantizes."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from converter.ir.model import Model
from tests.passes.models import Array, text_model

NODE = re.compile(r"((\w+).*?) = (\w+)(\(.*\))(?: (.*))?")
"""``y, z = Op(a, b) key=value; key=[1, 2]``"""


@dataclass(frozen=True)
class Net:
    """A float model as nodes, inputs and constants.

    Attributes:
        nodes: ``"y = Conv(x, w, b) strides=[2, 2]; group=2"``, in order.
        inputs: Shapes of the float inputs.
        constants: Shapes of the float constants (drawn anew), or arrays.
        outputs: Names of the outputs; the last node's where empty.
    """

    nodes: tuple[str, ...]
    inputs: Mapping[str, Sequence[int]]
    constants: Mapping[str, Sequence[int] | Array]
    outputs: tuple[str, ...] = ()

    def model(self, seed: int = 0) -> Model:
        """The model, inner types inferred, nodes named after their outputs."""
        rng = np.random.default_rng(seed)
        nodes = []
        for text in self.nodes:
            left, first, op, inputs, attributes = NODE.fullmatch(text).groups("")  # type: ignore[union-attr]
            given = re.sub(r"=([A-Za-z_]+)", r'="\1"', f"<{attributes}>").replace(";", ",")
            nodes.append(f"[n_{first}] {left} = {op}{given if attributes else ''}{inputs}")
        outputs = self.outputs or (NODE.fullmatch(self.nodes[-1])[2],)  # type: ignore[index]
        given = ", ".join(f"float{[*shape]} {name}" for name, shape in self.inputs.items())
        text = f"net ({given}) => ({', '.join(outputs)}) {{ {' '.join(nodes)} }}"
        return text_model(text, **{k: _drawn(what, rng) for k, what in self.constants.items()})

    def proto(self, seed: int = 0) -> onnx.ModelProto:
        """The same as a protobuf."""
        return self.model(seed).to_proto()

    def feeds(self, seed: int = 1) -> dict[str, Array]:
        """Normal noise, a little off the middle."""
        rng = np.random.default_rng(seed)
        return {
            name: (rng.standard_normal(tuple(shape)) * 1.5 + 0.3).astype(np.float32)
            for name, shape in self.inputs.items()
        }


def _drawn(what: Sequence[int] | Array, rng: np.random.Generator) -> Array:
    if isinstance(what, np.ndarray):
        return what
    array = rng.standard_normal(tuple(what)).astype(np.float32)
    if array.ndim > 1:  # channels of different sizes are what scales by channel are for
        sizes = np.geomspace(0.1, 1.0, array.shape[0], dtype=np.float32)
        array *= sizes.reshape(-1, *[1] * (array.ndim - 1))
    return array
