"""What a lowering works with: the tensors of ONNX values, and operators to make of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx_ir

from converter.ir import operands
from converter.ir.edit import constant_tensor
from converter.ir.refused import Refused
from emitters.tflite import accepted
from emitters.tflite.graph import Array, DataType, Operator, Quant, Shape, Subgraph, Tensor

QUANT = "tflite-quant"
"""Key in a value's ``meta``: the :class:`Quant` of a value that holds integers for real numbers."""


DOUBLE = frozenset(
    {"CAST", "CONCATENATION", "GATHER", "PACK", "RESHAPE", "SHAPE", "SLICE", "SPLIT_V",
     "STRIDED_SLICE", "TRANSPOSE"}
)  # fmt: skip
"""Operators that move float64; none computes with it."""


@dataclass
class Program:
    """What the graphs of one model share.

    Attributes:
        model: The ONNX model that is lowered.
        subgraphs: What was made, the main graph first.
        names: Tensor names that are taken.
    """

    model: onnx_ir.Model
    subgraphs: list[Subgraph] = field(default_factory=list)
    names: set[str] = field(default_factory=set)

    @property
    def opset(self) -> int:
        """The opset whose operators are lowered."""
        return self.model.opset_imports.get("", 0)

    def name(self, like: str) -> str:
        """A name that is free: ``like``, or that with a number."""
        name, number = like or "tensor", 0
        while name in self.names:
            number += 1
            name = f"{like or 'tensor'}_{number}"
        self.names.add(name)
        return name


class Context:
    """One graph being lowered.

    Args:
        program: What all graphs share.
        name: The graph's name.
        outer: The values of enclosing graphs that are tensors here, for If and Loop.
    """

    def __init__(
        self, program: Program, name: str, outer: Mapping[onnx_ir.Value, Tensor] | None = None
    ) -> None:
        self.program = program
        self.graph = Subgraph(name)
        self._tensors: dict[onnx_ir.Value, Tensor] = dict(outer or {})
        self._constants: dict[tuple[str, Shape, bytes], Tensor] = {}
        self._sizes: dict[str, Tensor] = {}
        self._holders: dict[str, tuple[Tensor, int]] = {}
        self.node = ""

    # -- values ----------------------------------------------------------------------

    def tensor(self, value: onnx_ir.Value | None) -> Tensor:
        """The tensor of an input.

        float16 becomes float32, the type that LiteRT computes in
        (:mod:`emitters.tflite.float16_constants` makes constants float16 again in the file).
        """
        if value is None:
            raise Refused("an input is missing")
        if value not in self._tensors:
            stored = constant_tensor(value)
            if stored is None:
                raise Refused(f"nothing makes {value.name!r} here")
            self._tensors[value] = self._stored(value, stored)
        return self._tensors[value]

    def _stored(self, value: onnx_ir.Value, stored: onnx_ir.TensorProtocol) -> Tensor:
        array, quant = stored.numpy(), value.meta.get(QUANT)
        if stored.dtype == DataType.FLOAT16:
            array = array.astype(np.float32)
        return self.constant(array, value.name or "", quant=quant)

    def tensors(self, node: onnx_ir.Node) -> list[Tensor]:
        """The tensors of a node's inputs, all of which have to be there."""
        return [self.tensor(value) for value in node.inputs]

    def optional(self, node: onnx_ir.Node, index: int) -> Tensor | None:
        """The tensor of an input that may be left out."""
        value = node.inputs[index] if index < len(node.inputs) else None
        return None if value is None else self.tensor(value)

    array, needed = staticmethod(operands.array_of), staticmethod(operands.needed)

    def give(self, value: onnx_ir.Value, tensor: Tensor) -> None:
        """Makes ``tensor`` what stands for a node's output."""
        self._tensors[value] = tensor
        self._note(tensor)
        if value.shape is not None and len(value.shape) == tensor.rank:
            self._note(tensor, shape_of(value))

    def has(self, value: onnx_ir.Value) -> bool:
        """Whether there is a tensor for a value already."""
        return value in self._tensors

    def forget(self) -> None:
        """Lets go of all tensors, once the graph is whole: the operators have what they take."""
        self._tensors.clear()
        self._constants.clear()

    # -- what ONNX says of a value ---------------------------------------------------

    def shape(self, value: onnx_ir.Value | None) -> Shape:
        """A value's shape.

        Raises:
            Refused: Its rank isn't known.
        """
        if value is None or value.shape is None:
            name = value.name if value is not None else "an output"
            raise Refused(
                f"the rank of {name!r} isn't known",
                "give sizes above 1 that make it known (--dim NAME=SIZE), or fix the sizes "
                "that it depends on (--input NAME:DIMS, --batch N)",
            )
        return shape_of(value)

    def dtype(self, value: onnx_ir.Value) -> DataType:
        """The type that a value has in the file."""
        found = value.dtype or DataType.FLOAT
        return DataType.FLOAT if found == DataType.FLOAT16 else found

    # -- making ----------------------------------------------------------------------

    def constant(
        self,
        array: Array | Sequence[Any] | float,
        name: str = "",
        dtype: Any = None,
        quant: Quant | None = None,
    ) -> Tensor:
        """A constant tensor; small ones of the same contents are one.

        Args:
            array: Its elements.
            name: Roughly what it is called; else after the node.
            dtype: numpy's type; None: the array's.
            quant: Its scales.
        """
        made = np.asarray(array, dtype=dtype)
        ir_dtype = DataType.from_numpy(made.dtype)
        key = None
        if made.size <= 64 and quant is None:
            key = (ir_dtype.name, tuple(made.shape), made.tobytes())
            if key in self._constants:
                return self._constants[key]
        tensor = Tensor(
            self.program.name(name or f"{self.node}_constant"),
            tuple(made.shape),
            ir_dtype,
            made,
            quant,
        )
        if key is not None:
            self._constants[key] = tensor
        return tensor

    def integers(self, numbers: Iterable[int], name: str = "") -> Tensor:
        """A constant vector of int32: axes, shapes, paddings."""
        return self.constant(np.asarray(list(numbers), np.int32), name)

    def emit(
        self,
        op: str,
        inputs: Sequence[Tensor | None],
        shape: Sequence[int | str],
        dtype: DataType | None = None,
        *,
        options: Mapping[str, Any] | None = None,
        quant: Quant | None = None,
        name: str = "",
    ) -> Tensor:
        """Adds an operator of one output, and gives that.

        Args:
            op: The schema's name: ``CONV_2D``.
            inputs: In its order.
            shape: The output's.
            dtype: The output's; None for the first input's.
            options: Fields of its options table; the schema's defaults for the rest.
            quant: The output's scales.
            name: Roughly what it is called; else after the node.
        """
        return self.emit_many(op, inputs, [(shape, dtype, quant)], options=options, name=name)[0]

    def joined(
        self, parts: Sequence[Tensor], axis: int = 0, shape: Sequence[int | str] | None = None
    ) -> Tensor:
        """Tensors side by side, in the scales of the first: CONCATENATION.

        Args:
            parts: Of one type.
            axis: Not negative.
            shape: What they give, where that isn't known by their sizes.
        """
        first = parts[0]
        if len(parts) == 1:
            return first
        if shape is None:
            total = sum(int(part.shape[axis]) for part in parts)
            shape = (*first.shape[:axis], total, *first.shape[axis + 1 :])
        options = {"axis": axis, "fusedActivationFunction": 0}
        return self.emit("CONCATENATION", parts, shape, quant=first.quant, options=options)

    def emit_many(
        self,
        op: str,
        inputs: Sequence[Tensor | None],
        outputs: Sequence[tuple[Sequence[int | str], DataType | None, Quant | None]],
        *,
        options: Mapping[str, Any] | None = None,
        name: str = "",
    ) -> list[Tensor]:
        """Adds an operator of any number of outputs, and gives these.

        Args:
            op: The schema's name: ``SPLIT``.
            inputs: In its order.
            outputs: Shape, type and scales of each; a type of None is the first input's.
            options: Fields of its options table; the schema's defaults for the rest.
            name: Roughly what the outputs are called; else after the node.

        Raises:
            Refused: LiteRT's kernel doesn't take the inputs' types.
        """
        accepted.check(op, inputs)
        first = next((tensor.dtype for tensor in inputs if tensor is not None), DataType.FLOAT)
        if first == DataType.DOUBLE and op not in DOUBLE:
            raise Refused(f"LiteRT's {op} doesn't take float64", "cast to float32 in the model")
        made = [
            Tensor(self.program.name(name or self.node), tuple(shape), dtype or first, None, quant)
            for shape, dtype, quant in outputs
        ]
        self.graph.operators.append(
            Operator(op, list(inputs), made, dict(options or {}), self.node)
        )
        for tensor in made:
            self._note(tensor)
        return made

    # -- sizes that are known at run time --------------------------------------------

    def size(self, symbol: str) -> Tensor:
        """The size of a free dimension as an int32 vector of one element.

        Raises:
            Refused: No tensor so far has a dimension of that name.
        """
        if symbol not in self._sizes:
            if symbol not in self._holders:
                raise Refused(f"the size of the free dimension {symbol!r} can't be found here")
            tensor, axis = self._holders[symbol]
            shape = self.emit(
                "SHAPE", [tensor], (tensor.rank,), DataType.INT32, options={"outType": 2}
            )
            self._sizes[symbol] = self.emit(
                "STRIDED_SLICE",
                [shape, self.integers([axis]), self.integers([axis + 1]), self.integers([1])],
                (1,),
                options=strided(),
            )
        return self._sizes[symbol]

    def knows(self, symbol: str) -> bool:
        """Whether a tensor so far has a dimension of that name."""
        return symbol in self._holders

    def sizes(self, shape: Sequence[int | str]) -> Tensor:
        """A shape as an int32 vector: a constant where all of it is known."""
        if all(isinstance(dim, int) for dim in shape):
            return self.integers(int(dim) for dim in shape)
        pieces: list[Tensor] = []
        run: list[int] = []
        for dim in shape:
            if isinstance(dim, int):
                run.append(dim)
                continue
            if run:
                pieces.append(self.integers(run))
                run = []
            pieces.append(self.size(dim))
        if run:
            pieces.append(self.integers(run))
        return self.joined(pieces)

    def _note(self, tensor: Tensor, shape: Shape | None = None) -> None:
        """Remembers which tensor has a free dimension, by another name too."""
        for axis, dim in enumerate(tensor.shape if shape is None else shape):
            if isinstance(dim, str):
                self._holders.setdefault(dim, (tensor, axis))


def strided(begin_mask: int = 0, end_mask: int = 0, shrink_axis_mask: int = 0) -> dict[str, Any]:
    """The options of a STRIDED_SLICE. In each mask, bit ``i`` stands for axis ``i``.

    Args:
        begin_mask: Axes that begin at their first element.
        end_mask: Axes that end at their last element.
        shrink_axis_mask: Axes that are left out of the result.
    """
    return {
        "beginMask": begin_mask,
        "endMask": end_mask,
        "ellipsisMask": 0,
        "newAxisMask": 0,
        "shrinkAxisMask": shrink_axis_mask,
        "offset": False,
    }


def shape_of(value: onnx_ir.Value) -> Shape:
    """The shape that ONNX gives a value whose rank is known; free dimensions have names."""
    assert value.shape is not None
    return tuple(
        dim if isinstance(dim, int) else (dim.value or f"{value.name}?{axis}")
        for axis, dim in enumerate(value.shape)
    )
