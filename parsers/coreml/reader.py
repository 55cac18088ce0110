"""What a reading works with: the ONNX values of a program's, and nodes to make of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir

from converter.ir.edit import constant_value
from parsers.coreml.operation import Constant, Named, Operation, Type
from parsers.coreml.refusal import Refusal

Array = np.ndarray[Any, Any]
DataType = onnx_ir.DataType
Attribute = (
    int | float | str | Sequence[int] | Sequence[float] | onnx_ir.Graph | onnx_ir.TensorProtocol
)

ReadBlock = Callable[["Reader", Any], None]
_OLDEST = 15


def _no_blocks(reader: Reader, block: Any) -> None:
    raise Refusal("it has blocks, which it shouldn't have")


class SharedNames:
    """SharedNames of values and nodes, which a whole model shares."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def free(self, like: str) -> str:
        """``like``, or that with a number."""
        name, number = like or "value", 0
        while name in self._taken:
            number += 1
            name = f"{like or 'value'}_{number}"
        self._taken.add(name)
        return name


class Reader:
    """One block of a program becoming a graph.

    Args:
        names: What the whole model shares.
        outer: The enclosing block's reader, for blocks within operations.

    Attributes:
        nodes, initializers: What was made so far.
        read_block: Reads a block's operations into a reader.
        target: The version of iOS that the program's operations are of: 15 and on.
        written: What states were given last.
        lists_grow: Whether the program has lists without a fixed length (of the outermost reader).
    """

    def __init__(self, names: SharedNames | None = None, outer: Reader | None = None) -> None:
        self.names: SharedNames = names or (SharedNames() if outer is None else outer.names)
        self.nodes: list[onnx_ir.Node] = []
        self.initializers: list[onnx_ir.Value] = []
        self.outer = outer
        self.read_block: ReadBlock = _no_blocks if outer is None else outer.read_block
        self.target: int = _OLDEST if outer is None else outer.target
        self.written: dict[str, onnx_ir.Value] = {}
        self.lists_grow = False
        self._bound: dict[str, onnx_ir.Value | Constant] = {}
        self._made: dict[str, onnx_ir.Value] = {}
        self.op = ""
        self.classes: dict[str, list[str]] = {}
        """Labels, by the output that holds their probabilities."""
        self.dropped: set[str] = set()
        """Outputs of the program that are no tensors, and follow from others."""

    # -- what operations are given ---------------------------------------------------

    def bind(self, name: str, value: onnx_ir.Value | Constant) -> None:
        """Says what a name of the program stands for."""
        self._bound[name] = value

    def find(self, name: str) -> onnx_ir.Value | Constant:
        """What a name stands for, here or in an enclosing block.

        Raises:
            Refusal: Nothing has it.
        """
        if name in self._bound:
            return self._bound[name]
        if self.outer is None:
            raise Refusal(f"nothing gives {name}")
        return self.outer.find(name)

    def constant(self, op: Operation, parameter: str, index: int = 0) -> Constant | None:
        """A constant that an operation is given; None where it is left out or computed.

        Args:
            op: The operation.
            parameter: Its name.
            index: Which of several values, from 0.
        """
        if len(op.inputs.get(parameter, ())) <= index:
            return None
        binding = op.inputs[parameter][index]
        found = self.find(binding) if isinstance(binding, str) else binding
        return found if isinstance(found, Constant) else None

    def has(self, op: Operation, parameter: str) -> bool:
        """Whether an operation is given something for a parameter."""
        return bool(op.inputs.get(parameter))

    def array(self, op: Operation, parameter: str, index: int = 0) -> Array | None:
        """A constant tensor's values; None where it is left out or computed.

        Args:
            op: The operation.
            parameter: Its name.
            index: Which of several values, from 0.
        """
        found = self.constant(op, parameter, index)
        return None if found is None or found.tensor is None else np.asarray(found.tensor.numpy())

    def setting(self, op: Operation, parameter: str, default: Any = None) -> Any:
        """A constant as a number, text, or list.

        Args:
            op: The operation.
            parameter: Its name.
            default: What is given where the parameter is left out.

        Raises:
            Refusal: It is computed.
        """
        if not self.has(op, parameter):
            return default
        found = self.constant(op, parameter)
        if found is None:
            raise Refusal(f"its {parameter} is computed when the program runs")
        return found.python()

    def value(self, op: Operation, parameter: str, index: int = 0) -> onnx_ir.Value:
        """The tensor that an operation is given.

        Args:
            op: The operation.
            parameter: Its name.
            index: Which of several values, from 0.

        Raises:
            Refusal: It is left out, or is no tensor.
        """
        if len(op.inputs.get(parameter, ())) <= index:
            raise Refusal(f"it has no {parameter}")
        binding = op.inputs[parameter][index]
        if isinstance(binding, str):
            return self.named(binding)
        return self.held(binding, f"{op.name}_{parameter}")

    def optional(self, op: Operation, parameter: str) -> onnx_ir.Value | None:
        """The tensor for a parameter that may be left out."""
        return self.value(op, parameter) if self.has(op, parameter) else None

    def all(self, op: Operation, parameter: str) -> list[onnx_ir.Value]:
        """The tensors for a parameter that takes several."""
        return [self.value(op, parameter, i) for i in range(len(op.inputs.get(parameter, ())))]

    def named(self, name: str) -> onnx_ir.Value:
        """The tensor of a name of the program.

        Raises:
            Refusal: Nothing has it, or it is no tensor.
        """
        found = self.find(name)
        if isinstance(found, onnx_ir.Value):
            return found
        if name not in self._made:
            self._made[name] = self.held(found, name)
        return self._made[name]

    def held(self, constant: Constant, name: str) -> onnx_ir.Value:
        """An initializer of a constant, whose values stay where they lie.

        Raises:
            Refusal: It is no tensor.
        """
        if constant.tensor is None:
            raise Refusal(f"{name} isn't a tensor")
        return self._initializer(constant.tensor, name)

    # -- nodes -----------------------------------------------------------------------

    def const(self, array: Any, dtype: Any = None, name: str = "") -> onnx_ir.Value:
        """A new constant.

        Args:
            array: Its elements.
            dtype: numpy's type; None: the array's.
            name: Roughly what it is called; else after the operation.
        """
        made = np.asarray(array, dtype)
        return self._initializer(onnx_ir.Tensor(made), name or f"{self.op}_const")

    def number(self, x: float, like: onnx_ir.Value) -> onnx_ir.Value:
        """An initializer without axes, of a value's type."""
        return self.const(x, (like.dtype or DataType.FLOAT).numpy())

    def ints(self, numbers: Sequence[int]) -> onnx_ir.Value:
        """A vector of int64."""
        return self.const(numbers, np.int64)

    def _initializer(self, tensor: onnx_ir.TensorProtocol, like: str) -> onnx_ir.Value:
        value = constant_value(self.names.free(like), tensor)
        self.initializers.append(value)
        return value

    def node(
        self,
        kind: str,
        inputs: Sequence[onnx_ir.Value | None],
        attributes: Mapping[str, Attribute] | None = None,
        dtype: DataType | None = None,
        domain: str = "",
    ) -> onnx_ir.Value:
        """The one output of a new node.

        Args:
            kind: ONNX's operator.
            inputs: None for those that are left out.
            attributes: By ONNX's names.
            dtype: The output's type; the first input's, unless said.
            domain: The operator's; ONNX's own, unless said.
        """
        return self.nodes_of(kind, inputs, 1, attributes, dtype, domain)[0]

    def nodes_of(
        self,
        kind: str,
        inputs: Sequence[onnx_ir.Value | None],
        outputs: int,
        attributes: Mapping[str, Attribute] | None = None,
        dtype: DataType | None = None,
        domain: str = "",
    ) -> Sequence[onnx_ir.Value]:
        """The outputs of a new node.

        Args:
            kind: The operator.
            inputs: In the operator's order; None leaves one out.
            outputs: How many.
            attributes: The operator's.
            dtype: The outputs' type; None: the first input's.
            domain: The operator's; empty: ai.onnx.
        """
        name, plain = self.names.free(self.op or kind), attributes or {}
        new = onnx_ir.node(kind, inputs, plain, domain=domain, num_outputs=outputs, name=name)
        first = next((value.dtype for value in inputs if value is not None), None)
        for index, output in enumerate(new.outputs):
            output.name = name if outputs == 1 else self.names.free(f"{name}_{index}")
            known = dtype or first
            output.type = onnx_ir.TensorType(known) if known is not None else None
        self.nodes.append(new)
        return new.outputs

    def cast(self, x: onnx_ir.Value, dtype: DataType) -> onnx_ir.Value:
        """The value in another type; itself where it has it."""
        if x.dtype == dtype:
            return x
        return self.node("Cast", [x], {"to": int(dtype)}, dtype)

    def int64(self, x: onnx_ir.Value) -> onnx_ir.Value:
        """Integers as ONNX wants shapes and axes."""
        return self.cast(x, DataType.INT64)

    # -- what operations give --------------------------------------------------------

    def give(self, op: Operation, *values: onnx_ir.Value) -> None:
        """Says what an operation's outputs are, in order; they get the types that it declares.

        Raises:
            Refusal: A value is of another type.
        """
        for output, value in zip(op.outputs, values, strict=True):
            self._bound[output.name] = self._typed(output, value)

    def _typed(self, output: Named, value: onnx_ir.Value) -> onnx_ir.Value:
        declared = output.type.dtype
        if declared is not None and value.dtype is not None and value.dtype != declared:
            raise Refusal(f"{output.name} is declared as {declared}, but became {value.dtype}")
        if value.producer() is None:
            return value
        shape(value, output.type)
        return value


def shape(value: onnx_ir.Value, declared: Type) -> None:
    """Gives a value the type and sizes that the program declares."""
    if declared.dtype is not None:
        value.type = onnx_ir.TensorType(declared.dtype)
    if declared.shape is not None and value.shape is None:
        value.shape = onnx_ir.Shape(list(declared.shape))
