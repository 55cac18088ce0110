"""A Keras model's inputs and outputs: how its functional model names them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from converter.ir.model import TensorSpec

_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")


@dataclass(frozen=True)
class Interface:
    """What a model takes and gives.

    Attributes:
        name: The model's, as Python has names.
        inputs, outputs: As the source has them.
    """

    name: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]

    @property
    def plain_inputs(self) -> bool:
        """Whether it takes a tensor, and no dict of them."""
        return len(self.inputs) == 1 and bool(_NAME.match(self.inputs[0].name))

    @property
    def plain_outputs(self) -> bool:
        """Whether it gives a tensor, and no dict of them."""
        return len(self.outputs) == 1 and bool(_NAME.match(self.outputs[0].name))

    @property
    def layer(self) -> str:
        """The one layer's name: an output's is that of the layer that gives it."""
        own = self.outputs[0].name if self.plain_outputs else "network"
        return own if own not in {self.input_name(spec) for spec in self.inputs} else f"{own}_"

    def input_name(self, spec: TensorSpec) -> str:
        """The name of an input's layer: Keras' have no slash."""
        return spec.name.replace("/", "_").replace('"', "_").replace("\\", "_")

    def shape(self, spec: TensorSpec) -> list[int | None]:
        """Sizes, None for free ones."""
        return [size if isinstance(size, int) else None for size in spec.shape or ()]
