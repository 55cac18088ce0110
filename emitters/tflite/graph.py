"""A TFLite model in memory: what lowerings make, and what is written to the file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx_ir

Array = np.ndarray[Any, Any]
Shape = tuple[int | str, ...]
"""A number or the symbol of a free dimension, for each axis."""

DataType = onnx_ir.DataType


@dataclass(frozen=True, eq=False)
class Quant:
    """How integers stand for real numbers: ``real = (stored - zero_point) * scale``.

    Attributes:
        scale: float32, of one element, or one for each index of ``axis``.
        zero_point: int64, of as many.
        axis: The axis that has a scale for each of its indices; None for one scale.
    """

    scale: Array
    zero_point: Array
    axis: int | None = None

    @classmethod
    def of(cls, scale: float, zero_point: int) -> Quant:
        """One scale for the whole tensor."""
        return cls(np.asarray([scale], np.float32), np.asarray([zero_point], np.int64))

    def same(self, other: Quant | None) -> bool:
        """Whether both give the same real numbers."""
        return (
            other is not None
            and self.axis == other.axis
            and np.array_equal(self.scale, other.scale)
            and np.array_equal(self.zero_point, other.zero_point)
        )

    def moved(self, axis: int) -> Quant:
        """The same with the scales along another axis."""
        return Quant(self.scale, self.zero_point, axis)


@dataclass(eq=False)
class Tensor:
    """One tensor.

    Attributes:
        name: Its name in the file.
        shape: Its shape; symbols become -1 in the file's ``shape_signature``.
        dtype: Its stored type.
        data: Its values, where it is a constant; it may be a view in any order.
        quant: Its scales, where it holds integers for real numbers.
    """

    name: str
    shape: Shape
    dtype: DataType
    data: Array | None = None
    quant: Quant | None = None

    @property
    def rank(self) -> int:
        """How many axes it has."""
        return len(self.shape)

    @property
    def is_static(self) -> bool:
        """Whether all sizes are known."""
        return all(isinstance(dim, int) for dim in self.shape)

    @property
    def is_constant(self) -> bool:
        """Whether its values are known."""
        return self.data is not None

    @property
    def size(self) -> int | None:
        """How many elements it has; None where that isn't known."""
        total = 1
        for dim in self.shape:
            if not isinstance(dim, int):
                return None
            total *= dim
        return total


@dataclass(eq=False)
class Operator:
    """One operator.

    Attributes:
        op: Its name in the schema: ``CONV_2D``.
        inputs: In the operator's order; None for one that is left out.
        outputs: In the operator's order.
        options: Fields of its options table, as the schema's generated classes call them.
        node: The ONNX node that it comes from.
    """

    op: str
    inputs: list[Tensor | None]
    outputs: list[Tensor]
    options: dict[str, Any] = field(default_factory=dict)
    node: str = ""


@dataclass(eq=False)
class Subgraph:
    """One graph of the file; the first is the model's main graph."""

    name: str
    inputs: list[Tensor] = field(default_factory=list)
    outputs: list[Tensor] = field(default_factory=list)
    operators: list[Operator] = field(default_factory=list)


@dataclass(eq=False)
class TfliteModel:
    """What a file holds.

    Attributes:
        subgraphs: The main graph first.
        inputs, outputs: The signature's tensors by the user's names, in order.
        description: One line.
        metadata: Further buffers by name.
        files: What is appended to the file as an archive: contents by name.
        sizes: What the file stores for free dimensions, by name; 1 for others.
    """

    subgraphs: list[Subgraph]
    inputs: Mapping[str, Tensor]
    outputs: Mapping[str, Tensor]
    description: str = ""
    metadata: Mapping[str, bytes] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)


def uses_of(graph: Subgraph) -> dict[Tensor, list[Operator]]:
    """The operators that take each tensor, in order; once each."""
    found: dict[Tensor, list[Operator]] = {}
    for operator in graph.operators:
        for tensor in dict.fromkeys(operator.inputs):
            if tensor is not None:
                found.setdefault(tensor, []).append(operator)
    return found


def makers_of(graph: Subgraph) -> dict[Tensor, Operator]:
    """The operator that makes each tensor."""
    return {tensor: operator for operator in graph.operators for tensor in operator.outputs}


def known(dims: Sequence[int | str]) -> tuple[int, ...] | None:
    """The sizes, where all are numbers."""
    numbers = tuple(dim for dim in dims if isinstance(dim, int))
    return numbers if len(numbers) == len(dims) else None
