"""What a target's table is given for a node: its operands as places, and what makes statements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir

from converter.ir.edit import constant, constant_tensor
from converter.ir.model import dtype_name
from converter.ir.refused import Refused
from emitters.code.dialect import Dialect
from emitters.code.literals import number
from emitters.code.paths import path_of
from emitters.code.sizes import Dim, Element, Sizes
from emitters.code.steps import ATOM, LOWEST, UNIT, Array, Path, Step, Unit, Value, Weight, place

KINDS = {"f": "float", "i": "int", "u": "int", "b": "bool", "c": "float"}


class Context:
    """The statements of a graph, as they are made.

    Args:
        graph: Legalized.
        dialect: The framework's.

    Attributes:
        node: The one that is being lowered.
        steps: What was made.
        done: Nodes that were lowered with another.
        helpers: Functions that the code calls.
    """

    def __init__(self, graph: onnx_ir.Graph, dialect: Dialect) -> None:
        self.graph = graph
        self._dialect = dialect
        self.node: onnx_ir.Node
        self.steps: list[Step] = []
        self.done: set[onnx_ir.Node] = set()
        self.helpers: set[str] = set()
        self.values: list[Value] = []
        self._index: dict[Value, int] = {}
        self._units: dict[object, list[Unit]] = {}
        self._tensors: dict[Value, Step] = {}
        self._sizes = Sizes(graph)

    # -- values --------------------------------------------------------------------------

    def index(self, value: Value) -> int:
        """A value's number."""
        if value not in self._index:
            self._index[value] = len(self.values)
            self.values.append(value)
        return self._index[value]

    def kind(self, index: int) -> str:
        """``float``, ``int`` or ``bool``: what a value holds."""
        dtype = self.values[index].dtype
        if dtype is None or dtype == onnx_ir.DataType.STRING:
            return "float"
        return KINDS.get(np.dtype(dtype.numpy()).kind, "float")

    def has(self, at: int) -> bool:
        """Whether the node has an operand."""
        return at < len(self.node.inputs) and self.node.inputs[at] is not None

    def value(self, at: int) -> Value:
        """An operand."""
        found = self.node.inputs[at]
        assert found is not None
        return found

    def arg(self, at: int, strength: int = LOWEST) -> str:
        """A place for an operand, or a number; as it stands between commas."""
        return self.use(self.value(at), strength)

    def operand(self, at: int, strength: int = ATOM) -> str:
        """The same where it has to hold together: before a dot, beside an operator."""
        return self.arg(at, strength)

    def use(self, value: Value, strength: int = LOWEST) -> str:
        """A place for any value."""
        if constant_tensor(value) is not None:
            return self.tensor(value, strength)
        return place(self.index(value), strength)

    def number(self, at: int) -> float | int | bool | None:
        """An operand that is a constant of one element."""
        found = self.array(at)
        if found is None or found.size != 1:
            return None
        item: float | int | bool = found.reshape(-1)[0].item()
        return item

    def scalar(self, at: int, strength: int = LOWEST) -> str:
        """An operand; a constant of one element, of no more axes than the other operands have, as
        a number."""
        value, array = self.value(at), self.array(at)
        others = [i for i, v in enumerate(self.node.inputs) if v is not None and i != at]
        ranks = [self.rank(i) for i in others if self.array(i) is None or self.array(i).size != 1]  # type: ignore[union-attr]
        fits = array is not None and array.size == 1 and any(
            rank is not None and rank >= array.ndim for rank in ranks
        )  # fmt: skip
        if fits and array is not None and array.dtype.kind in "fiub":
            text = number(array.reshape(-1)[0])
            return f"({text})" if text.startswith("-") and strength >= ATOM else text
        return self.use(value, strength)

    def array(self, at: int) -> Array | None:
        """A small constant operand."""
        return constant(self.node.inputs[at]) if self.has(at) else None

    def ints_in(self, at: int) -> list[int] | None:
        """A small constant operand of integers."""
        found = self.array(at)
        return None if found is None else [int(item) for item in found.reshape(-1)]

    def need_ints(self, at: int, what: str) -> list[int]:
        """The same; raises Refused where it isn't constant."""
        found = self.ints_in(at)
        if found is None:
            raise Refused(f"its {what} are computed", "make them constant")
        return found

    def shape(self, at: int) -> list[int | str | None] | None:
        """An operand's."""
        return shape_of(self.node.inputs[at]) if self.has(at) else None

    def rank(self, at: int) -> int | None:
        """How many axes an operand has."""
        shape = self.shape(at)
        return None if shape is None else len(shape)

    def need_rank(self, at: int) -> int:
        """The same; raises Refused where it isn't known."""
        found = self.rank(at)
        if found is None:
            raise Refused("how many axes it has isn't known", "give the input's shape (--input)")
        return found

    def dtype(self, at: int) -> str:
        """An operand's type, by numpy's name."""
        return dtype_name(self.node.inputs[at].dtype)  # type: ignore[union-attr]

    def out_dtype(self, at: int = 0) -> str:
        """A result's."""
        return dtype_name(self.node.outputs[at].dtype)

    # -- attributes ------------------------------------------------------------------------

    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute's value."""
        found = self.node.attributes.get(name)
        if found is None:
            return default
        value = found.value
        return list(value) if isinstance(value, tuple) else value

    # -- sizes -----------------------------------------------------------------------------

    def sizes(self, at: int) -> list[Element] | None:
        """The elements of an operand that is a shape, where they can be told."""
        return self._sizes.of(self.value(at))

    def element(self, element: Element) -> str:
        """One as an expression."""
        if isinstance(element, int):
            return str(element)
        if isinstance(element, Dim):
            value, axis = self._near(element)
            return self._dialect.size(place(self.index(value), ATOM), axis)
        left, sign, right = element
        return f"({self.element(left)} {sign} {self.element(right)})"

    def _near(self, dim: Dim) -> tuple[Value, int]:
        """The same size of an operand of the node, where one has it."""
        symbol = dim.symbol
        for value in self.node.inputs:
            if value is dim.value:
                return dim.value, dim.axis
        for value in self.node.inputs if symbol else ():
            for axis, size in enumerate(shape_of(value) or ()):
                if size == symbol and constant_tensor(value) is None:
                    assert value is not None
                    return value, axis
        return dim.value, dim.axis

    # -- statements ------------------------------------------------------------------------

    def emit(self, text: str, strength: int = ATOM, *, unit: Unit | None = None,
             output: Value | None = None, hint: str = "") -> None:  # fmt: skip
        """A statement that gives one value.

        Args:
            text: The expression, with places for values.
            strength: How tightly the expression holds together.
            unit: The module that the statement calls; None: no module.
            output: The value; None: the node's first output.
            hint: What to call the value's variable; empty: after the operator.
        """
        self._add(text, [output or self.node.outputs[0]], strength, "", unit, hint)

    def emit_many(self, text: str, targets: str | None = None, unit: Unit | None = None) -> None:
        """A statement that gives all outputs that the node has.

        Args:
            text: The expression, with places for values.
            targets: The left side, with ``{0}``, ``{1}`` for the outputs; None: all outputs, in
                their order.
            unit: The module that the statement calls; None: no module.
        """
        used = [value for value in self.node.outputs if value.name]
        marks = [place(self.index(value), 0) if value.name else "_" for value in self.node.outputs]
        left = targets.format(*marks, *["_"] * 8) if targets else ", ".join(marks)
        if not targets and len(marks) == 1:
            left += ","
        self._add(text, used, ATOM, left, unit, "")

    def _add(self, text: str, outputs: Sequence[Value], strength: int, targets: str,
             unit: Unit | None, hint: str) -> None:  # fmt: skip
        path, name = self.path()
        if unit is not None and unit.name == "" and name:
            unit.name = name
        hint = hint or self.node.op_type.lower()
        indices = [self.index(value) for value in outputs]
        self.steps.append(Step(text, indices, strength, path, targets, unit, hint))

    def path(self) -> tuple[Path, str]:
        """The modules that the node lies in, and its own name."""
        return path_of(self.node.name or "")

    def call(self, kind: str, arguments: Sequence[object], given: Sequence[str] = (),
             weights: Mapping[str, Weight] | None = None, hint: str = "", *,
             output: Value | None = None, **named: object) -> None:  # fmt: skip
        """A statement that calls a module.

        Args:
            kind: Its class.
            arguments: Of its constructor, by position.
            given: What it is called with.
            weights: Its tensors.
            hint: What to call it.
            output: What it gives; else the node's first output.
            **named: Of its constructor, by name; None leaves one out.
        """
        unit = self.unit(kind, arguments, weights or {}, hint, named)
        self.emit(f"{UNIT}({', '.join(given)})", unit=unit, output=output)

    def unit(self, kind: str, arguments: Sequence[object], weights: Mapping[str, Weight],
             hint: str, named: Mapping[str, object]) -> Unit:  # fmt: skip
        """A module.

        Args:
            kind: Its class.
            arguments: What its constructor takes by position.
            weights: Its tensors, by the names that its framework has for them.
            hint: What to call it where the source has no name for it.
            named: What its constructor takes by name; None leaves an argument out.
        """
        told = [("", str(item)) for item in arguments]
        told += [(name, str(item)) for name, item in named.items() if item is not None]
        return Unit(kind, tuple(told), dict(weights), hint)

    # -- tensors ---------------------------------------------------------------------------

    def weight(self, value: Value, change: Callable[[Array], Array] | None = None,
               how: str = "", *, trains: bool = True) -> Weight:  # fmt: skip
        """A constant as a module's tensor.

        Args:
            value: The constant.
            change: What is done to its elements before they are stored.
            how: That in a word, which tells it from other ways.
            trains: Whether a gradient is to reach it.
        """
        tensor = constant_tensor(value)
        assert tensor is not None
        shape = tuple(int(size) for size in tensor.shape.numpy())
        dtype = np.dtype(tensor.dtype.numpy())

        def make() -> Array:
            array = tensor.numpy()
            return change(array) if change is not None else array

        if change is not None:
            shape = change(np.broadcast_to(np.zeros((), dtype), shape)).shape
        return Weight((value.name, how), shape, dtype, make, trains and dtype.kind in "fV")

    def own(self, array: Array, key: str, *, trains: bool = True) -> Weight:
        """Elements that were made here as a module's tensor.

        Args:
            array: The elements.
            key: What tells the tensor from others of the same node.
            trains: Whether a gradient is to reach it.
        """
        name = (key, self.node.name or "")
        return Weight(name, array.shape, array.dtype, lambda: array, trains)

    def tensor(self, value: Value, strength: int = LOWEST, *, trains: bool = True) -> str:
        """A place for a constant: a tensor of the module that all who use it lie in.

        Args:
            value: The constant.
            strength: How tightly what stands there has to hold together.
            trains: Whether a gradient is to reach it.
        """
        path = self.path()[0]
        step = self._tensors.get(value)
        if step is None:
            weight = self.weight(value, trains=trains)
            name = path_of((value.name or "").replace("/", "."))[1]
            hint = name if name.isidentifier() and not name.startswith("val_") else "constant"
            unit = Unit("", (), {"": weight}, hint)
            step = Step("", [self.index(value)], ATOM, path, "", unit, hint)
            self._tensors[value] = step
            self.steps.append(step)
        common = 0
        while common < min(len(path), len(step.path)) and path[common] == step.path[common]:
            common += 1
        step.path = step.path[:common]
        return place(self.index(value), strength)

    def helper(self, name: str) -> str:
        """A function that is written beside the classes."""
        self.helpers.add(name)
        return name


def shape_of(value: Value | None) -> list[int | str | None] | None:
    """A number, a symbol or None for each axis."""
    if value is None or value.shape is None:
        return None
    return [dim if isinstance(dim, int) else dim.value for dim in value.shape]
