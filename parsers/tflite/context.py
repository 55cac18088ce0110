"""What a lowering sees: one operator, its tensors as ONNX values, and a graph to add nodes to.

Lowerings are written once, in real numbers. A quantized tensor is held as its integers;
:meth:`Context.value` gives DequantizeLinear of them and :meth:`Context.set` stores
QuantizeLinear with the tensor's own scale and zero point, so that a full-integer file becomes
Q/DQ with the same scales. What only moves elements works on :meth:`Context.moved`: the
integers, where no scale changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import onnx_ir

from parsers.tflite import stored
from parsers.tflite.builder import DTYPES, Builder
from parsers.tflite.model import Array, Operator, Subgraph, Tensor
from parsers.tflite.registry import Refusal
from parsers.tflite.stored import StoredConstant

if TYPE_CHECKING:
    from parsers.tflite.lowering import Lowerer


@dataclass
class Scope:
    """A subgraph while it is being lowered.

    Attributes:
        subgraph: Which.
        builder: Where its nodes go.
        lowerer: Lowers the subgraphs that its operators run.
        values: What is computed, as stored, by tensor number.
        constants: What is known, by tensor number.
        raws: The initializers of what is known, by tensor number.
        reals: Dequantized values, by tensor number: one DequantizeLinear a tensor.
        permuted: Constants in real numbers, by tensor number and order of dimensions.
    """

    subgraph: Subgraph
    builder: Builder
    lowerer: Lowerer
    values: dict[int, onnx_ir.Value] = field(default_factory=dict)
    constants: dict[int, StoredConstant] = field(default_factory=dict)
    raws: dict[int, onnx_ir.Value] = field(default_factory=dict)
    reals: dict[int, onnx_ir.Value] = field(default_factory=dict)
    permuted: dict[tuple[int, tuple[int, ...]], onnx_ir.Value] = field(default_factory=dict)


class Context:
    """One operator to lower. Inputs and outputs are counted as in the operator.

    Attributes:
        scope: The subgraph that it is in.
        operator: The operator.
        moves_stored: Whether :meth:`moved` gave stored integers.
    """

    def __init__(self, scope: Scope, operator: Operator) -> None:
        self.scope = scope
        self.operator = operator
        self.moves_stored = False

    # -- the operator --------------------------------------------------------------

    @property
    def name(self) -> str:
        """The operator's name in the schema."""
        return self.operator.name

    def option(self, name: str, default: Any = 0) -> Any:
        """A field of the options; ``default`` (the schema's) where the file has none."""
        found = getattr(self.operator.options, name, None)
        return default if found is None else found

    def refuse(self, reason: str, remedy: str = "") -> NoReturn:
        """Gives up on the operator."""
        raise Refusal(reason, remedy)

    @property
    def n_inputs(self) -> int:
        """How many inputs the operator lists, left-out ones included."""
        return len(self.operator.inputs)

    @property
    def n_outputs(self) -> int:
        """How many outputs the operator has."""
        return len(self.operator.outputs)

    # -- tensors -------------------------------------------------------------------

    def has(self, i: int) -> bool:
        """Whether input ``i`` is there."""
        return i < len(self.operator.inputs) and self.operator.inputs[i] >= 0

    def input(self, i: int) -> Tensor:
        """The tensor of input ``i``."""
        if not self.has(i):
            self.refuse(f"input {i} is missing")
        return self.scope.subgraph.tensors[self.operator.inputs[i]]

    def output(self, i: int = 0) -> Tensor:
        """The tensor of output ``i``."""
        return self.scope.subgraph.tensors[self.operator.outputs[i]]

    def shape(self, i: int) -> tuple[int, ...]:
        """Sizes of input ``i``; -1 for free ones."""
        return self.input(i).shape

    def rank(self, i: int) -> int:
        """Dimensions of input ``i``."""
        return len(self.input(i).shape)

    def dtype(self, i: int) -> onnx_ir.DataType:
        """The type of input ``i`` in real numbers: float32 where it is quantized."""
        return self._real_dtype(self.input(i))

    def output_dtype(self, i: int = 0) -> onnx_ir.DataType:
        """The type of output ``i`` in real numbers: float32 where it is quantized."""
        return self._real_dtype(self.output(i))

    def _real_dtype(self, tensor: Tensor) -> onnx_ir.DataType:
        if stored.is_quantized(tensor):
            return onnx_ir.DataType.FLOAT
        if tensor.dtype not in DTYPES:
            self.refuse(f"a tensor of type {tensor.dtype}, which ONNX tensors here can't hold")
        return DTYPES[tensor.dtype]

    # -- inputs --------------------------------------------------------------------

    def known(self, i: int) -> StoredConstant | None:
        """What input ``i`` holds, where that is constant."""
        tensor = self.input(i)
        if tensor.index in self.scope.constants:
            return self.scope.constants[tensor.index]
        if tensor.index in self.scope.values:
            return None
        if tensor.data is None and 0 in tensor.shape:  # no elements, so no buffer in the file
            return StoredConstant.of(replace(tensor, data=np.zeros(tensor.shape, tensor.dtype)))
        return None if tensor.data is None else StoredConstant.of(tensor)

    def raw(self, i: int) -> onnx_ir.Value:
        """Input ``i`` as it is stored: integers where it is quantized."""
        tensor = self.input(i)
        if tensor.index not in self.scope.values:
            constant = self.known(i)
            if constant is None and tensor.is_variable:
                self.refuse(f"its state ({tensor.name}) was not made an input and an output")
            if constant is None:
                self.refuse(f"reads tensor {tensor.index} ({tensor.name}), which nothing computes")
            if constant.folded:  # DEQUANTIZE of a constant: only its real numbers are asked for
                return self.value(i)
            self._real_dtype(tensor)
            if tensor.index not in self.scope.raws:
                self.scope.raws[tensor.index] = constant.initializer(self.scope.builder)
            return self.scope.raws[tensor.index]
        return self.scope.values[tensor.index]

    def value(self, i: int) -> onnx_ir.Value:
        """Input ``i`` in real numbers."""
        tensor = self.input(i)
        if tensor.index not in self.scope.reals:
            self.scope.reals[tensor.index] = self._dequantized(i, tensor)
        return self.scope.reals[tensor.index]

    def _dequantized(self, i: int, tensor: Tensor) -> onnx_ir.Value:
        constant = self.known(i)
        if constant is not None:
            self._real_dtype(tensor)
            return constant.real(self.scope.builder)
        self._real_dtype(tensor)
        if tensor.quantization is None or not stored.is_quantized(tensor):
            return self.raw(i)
        return stored.dequantize(self.scope.builder, self.raw(i), tensor.dtype, tensor.quantization)

    def weights(self, i: int, permutation: Sequence[int]) -> onnx_ir.Value:
        """Input ``i`` in real numbers with its dimensions permuted: in the constant's own
        integers where it is one, else by a Transpose."""
        constant = self.known(i)
        if constant is None:
            return self.transpose(self.value(i), permutation)
        key = (self.input(i).index, tuple(permutation))
        if key not in self.scope.permuted:
            value = constant.permuted(permutation).real(self.scope.builder)
            self.scope.permuted[key] = value
        return self.scope.permuted[key]

    def constant(self, i: int) -> Array | None:
        """Input ``i`` in real numbers, where it is constant."""
        constant = self.known(i) if self.has(i) else None
        return None if constant is None else constant.numbers()

    def integers(self, i: int) -> list[int] | None:
        """The elements of input ``i`` (a shape, axes, indices), flat, where they are constant."""
        constant = self.known(i) if self.has(i) else None
        return None if constant is None else [int(item) for item in constant.data.ravel()]

    def int64(self, i: int) -> onnx_ir.Value:
        """Input ``i`` (a shape, axes, indices) as a flat vector of int64."""
        found = self.integers(i)
        if found is not None:
            return self.ints(found)
        flat = self.raw(i) if self.rank(i) == 1 else self.reshape(self.raw(i), [-1])
        return self.cast(flat, onnx_ir.DataType.INT64)

    def int64_like(self, i: int) -> onnx_ir.Value:
        """Input ``i`` (indices) as int64 in its own shape."""
        return self.cast(self.raw(i), onnx_ir.DataType.INT64)

    def moved(self, *inputs: int, ranked: bool = False) -> list[onnx_ir.Value]:
        """Inputs whose elements are only moved, for :meth:`set_moved`: as stored where they
        and all outputs hold the same scale, else in real numbers.

        Args:
            *inputs: Their numbers.
            ranked: They are compared as well, which ONNX has for fewer types.
        """
        tensors = [self.input(i) for i in inputs]
        tensors += [self.output(i) for i in range(self.n_outputs)]
        for tensor in tensors:
            self._real_dtype(tensor)
        same = all(stored.same_scale(tensors[0], other) for other in tensors[1:])
        self.moves_stored = same and not (ranked and tensors[0].dtype not in _RANKED)
        return [self.raw(i) if self.moves_stored else self.value(i) for i in inputs]

    # -- outputs -------------------------------------------------------------------

    def set(self, i: int, value: onnx_ir.Value) -> None:
        """Output ``i``, in real numbers."""
        tensor = self.output(i)
        self._real_dtype(tensor)
        if tensor.quantization is not None and stored.is_quantized(tensor):
            value = stored.quantize(self.scope.builder, value, tensor.dtype, tensor.quantization)
        self.set_raw(i, value)

    def set_raw(self, i: int, value: onnx_ir.Value) -> None:
        """Output ``i``, as stored."""
        self.scope.values[self.operator.outputs[i]] = value

    def set_moved(self, i: int, value: onnx_ir.Value) -> None:
        """Output ``i``, as :meth:`moved` gave the inputs."""
        (self.set_raw if self.moves_stored else self.set)(i, value)

    def update(self, i: int, value: onnx_ir.Value) -> None:
        """Input ``i``, a variable tensor, after the run, in real numbers."""
        tensor = self.input(i)
        if tensor.quantization is not None and stored.is_quantized(tensor):
            value = stored.quantize(self.scope.builder, value, tensor.dtype, tensor.quantization)
        self.scope.values[tensor.index] = value
        self.scope.reals.pop(tensor.index, None)

    def set_constant(self, i: int, constant: StoredConstant) -> None:
        """Output ``i``, where it is known: consumers see a constant."""
        self.scope.constants[self.operator.outputs[i]] = constant

    def activate(self, value: onnx_ir.Value) -> onnx_ir.Value:
        """``value`` after the operator's fused activation function."""
        kind = self.option("fusedActivationFunction")
        if kind not in _ACTIVATIONS:
            self.refuse(f"fused activation function {_ACTIVATION_NAMES.get(kind, kind)}")
        return activation(self, _ACTIVATIONS[kind], value)

    # -- nodes ---------------------------------------------------------------------

    def add(self, op_type: str, *inputs: onnx_ir.Value | None, **attributes: Any) -> onnx_ir.Value:
        """A node with one output."""
        return self.scope.builder.add(op_type, inputs, 1, **attributes).outputs[0]

    def add_many(
        self, op_type: str, n_outputs: int, *inputs: onnx_ir.Value | None, **attributes: Any
    ) -> Sequence[onnx_ir.Value]:
        """A node with ``n_outputs`` outputs."""
        return self.scope.builder.add(op_type, inputs, n_outputs, **attributes).outputs

    def const(self, array: Array) -> onnx_ir.Value:
        return self.scope.builder.const(array)

    def ints(self, items: Sequence[int]) -> onnx_ir.Value:
        """A constant vector of int64."""
        return self.const(np.array(items, np.int64).reshape(len(items)))

    def number(self, number: float, dtype: onnx_ir.DataType | None = None) -> onnx_ir.Value:
        """A constant scalar, float32 where no type is given."""
        return self.const(np.array(number, (dtype or onnx_ir.DataType.FLOAT).numpy()))

    def cast(self, value: onnx_ir.Value, dtype: onnx_ir.DataType) -> onnx_ir.Value:
        """``value`` as ``dtype``."""
        return self.add("Cast", value, to=int(dtype))

    def transpose(self, value: onnx_ir.Value, permutation: Sequence[int]) -> onnx_ir.Value:
        """``value`` with its dimensions permuted."""
        return self.add("Transpose", value, perm=list(permutation))

    def reshape(self, value: onnx_ir.Value, shape: Sequence[int]) -> onnx_ir.Value:
        """``value`` in a shape; -1 is what is left over, 0 keeps a size."""
        return self.add("Reshape", value, self.ints(shape))


_RANKED = {"float32", "int8", "uint8"}
_ACTIVATIONS = {0: "NONE", 1: "RELU", 2: "RELU_N1_TO_1", 3: "RELU6", 4: "TANH"}
_ACTIVATION_NAMES = {5: "SIGN_BIT"}


def activation(ctx: Context, name: str, value: onnx_ir.Value) -> onnx_ir.Value:
    """One of the simple activation functions.

    Args:
        ctx: Takes the nodes.
        name: The schema's: NONE, RELU, RELU6...
        value: What it is of.
    """
    if name == "NONE":
        return value
    if name in ("RELU", "TANH"):
        return ctx.add(name.capitalize(), value)
    low, high = {"RELU_N1_TO_1": (-1, 1), "RELU6": (0, 6), "RELU_0_TO_1": (0, 1)}[name]
    return ctx.add("Clip", value, ctx.number(low), ctx.number(high))
