"""Edits one node of an older or newer opset into nodes of the pipeline's."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir

from converter.ir import edit as graph_edit
from converter.ir.inference import Inferred


class NotAdaptable(Exception):
    """A node that can't be said in the pipeline's opset.

    Args:
        reason: Why.
        remedy: What the user can do.
    """

    def __init__(self, reason: str, remedy: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.remedy = remedy


class FreshNames:
    """FreshNames that no value of a model has yet."""

    def __init__(self, model: onnx_ir.Model) -> None:
        self._taken = {
            value.name
            for graph in model.graphs()
            for value in (*graph.inputs, *graph.initializers.values())
        }
        for graph in model.graphs():
            self._taken.update(output.name for node in graph for output in node.outputs)

    def fresh(self, base: str) -> str:
        """``base``, or ``base_1``... where that is taken."""
        number, name = 0, base
        while name in self._taken:
            number += 1
            name = f"{base}_{number}"
        self._taken.add(name)
        return name


class Edit:
    """One node, what is known of its values, and what is put in its place.

    Args:
        node: The node.
        version: The opset it is written in.
        inferred: What shape inference says of computed values.
        names: Where new values get their names.
    """

    def __init__(
        self,
        node: onnx_ir.Node,
        version: int,
        inferred: Mapping[onnx_ir.Value, Inferred],
        names: FreshNames,
    ) -> None:
        self.node = node
        self.version = version
        self._inferred = inferred
        self._names = names
        if node.graph is None:
            raise ValueError("the node is in no graph")
        self._graph = node.graph

    # -- what is known -------------------------------------------------------------

    def inputs(self, count: int) -> list[onnx_ir.Value]:
        """The first ``count`` inputs; NotAdaptable where one is missing."""
        values = [value for value in self.node.inputs[:count] if value is not None]
        if len(values) < count:
            raise NotAdaptable(f"it has {len(values)} of {count} inputs")
        return values

    def has(self, name: str) -> bool:
        """Whether the attribute is there."""
        return name in self.node.attributes

    def integer(self, name: str, default: int) -> int:
        return self.node.attributes[name].as_int() if self.has(name) else default

    def number(self, name: str, default: float) -> float:
        return self.node.attributes[name].as_float() if self.has(name) else default

    def text(self, name: str, default: str) -> str:
        return self.node.attributes[name].as_string() if self.has(name) else default

    def integers(self, name: str, default: Iterable[int] | None = None) -> list[int]:
        """A list of integers; NotAdaptable where it is missing and there is no default."""
        if self.has(name):
            return list(self.node.attributes[name].as_ints())
        if default is None:
            raise NotAdaptable(f"its attribute {name} is missing")
        return list(default)

    def numbers(self, name: str) -> np.ndarray[Any, Any]:
        """A list of floats, as a float32 vector; NotAdaptable where it is missing."""
        if not self.has(name):
            raise NotAdaptable(f"its attribute {name} is missing")
        return np.array(self.node.attributes[name].as_floats(), np.float32)

    def dtype(self, value: onnx_ir.Value) -> onnx_ir.DataType:
        """The type of a value; NotAdaptable where it is unknown."""
        found = self._dtype(value)
        if found is None:
            raise NotAdaptable(f"the type of {value.name} is unknown")
        return found

    def _dtype(self, value: onnx_ir.Value) -> onnx_ir.DataType | None:
        known = self._inferred.get(value)
        if known is None:
            return value.dtype
        return known.type.dtype if known.type is not None else None

    def dims(self, value: onnx_ir.Value) -> list[int | str | None] | None:
        """A number, a symbol or None for each dimension; None where the rank is unknown."""
        known = self._inferred.get(value)
        shape = value.shape if known is None else known.shape
        if shape is None:
            return None
        return [dim if isinstance(dim, int) else dim.value for dim in shape]

    def rank(self, value: onnx_ir.Value) -> int | None:
        """How many dimensions a value has; None where unknown."""
        dims = self.dims(value)
        return None if dims is None else len(dims)

    def value_of(self, value: onnx_ir.Value | None) -> np.ndarray[Any, Any] | None:
        """The elements of a small constant; None for anything else."""
        return graph_edit.constant(value)

    def used(self, index: int) -> bool:
        """Whether the node has the output and anything needs it."""
        if index >= len(self.node.outputs):
            return False
        output = self.node.outputs[index]
        return bool(output.uses()) or output.is_graph_output()

    def refuse_outputs_beyond(self, count: int, reason: str) -> None:
        """NotAdaptable where an output after the first ``count`` is needed."""
        if any(self.used(index) for index in range(count, len(self.node.outputs))):
            raise NotAdaptable(reason, "Export the model in evaluation mode.")

    # -- what is put in its place --------------------------------------------------

    def constant(self, array: np.ndarray[Any, Any]) -> onnx_ir.Value:
        return self.op("Constant", value=onnx_ir.tensor(array))

    def like(self, numbers: float | np.ndarray[Any, Any], value: onnx_ir.Value) -> onnx_ir.Value:
        """A float, or a vector of them, in the type of ``value``."""
        array = np.asarray(numbers, np.float32)
        dtype = self._dtype(value)
        if dtype is None:
            return self.op("CastLike", self.constant(array), value)
        return self.constant(array.astype(dtype.numpy()))

    def op(self, op_type: str, *inputs: onnx_ir.Value | None, **attributes: Any) -> onnx_ir.Value:
        """A new node before this one; gives its output."""
        node = self._make(op_type, inputs, attributes, 1)
        base = self.node.outputs[0].name or self.node.op_type
        node.outputs[0].name = self._names.fresh(f"{base}_{op_type}")
        return node.outputs[0]

    def become(self, op_type: str, *inputs: onnx_ir.Value | None, **attributes: Any) -> None:
        """Puts a new node in the place of this one, which has one output that is needed."""
        node = self._make(op_type, inputs, attributes, 1)
        node.name = self.node.name
        self._take_over(self.node.outputs[0], node.outputs[0])
        self._graph.remove(self.node, safe=True)

    def output_becomes(self, index: int, value: onnx_ir.Value) -> None:
        """Lets ``value``, which this edit has made, be output ``index`` of the node."""
        self._take_over(self.node.outputs[index], value)

    def update(
        self,
        *,
        inputs: Sequence[onnx_ir.Value | None] | None = None,
        outputs: int | None = None,
        attributes: Mapping[str, Any] | None = None,
        drop: Collection[str] = (),
    ) -> None:
        """Changes the node and keeps its operator.

        Args:
            inputs: The new ones, None for one that is left out; None to keep all.
            outputs: How many outputs stay, the first ones; None to keep all.
            attributes: Values by name that are set or replaced.
            drop: Names of attributes that go.
        """
        node = self.node
        if inputs is not None:
            kept = list(inputs)
            while kept and kept[-1] is None:
                kept.pop()
            node.resize_inputs(len(kept))
            for index, value in enumerate(kept):
                node.replace_input_with(index, value)
        if outputs is not None and len(node.outputs) > outputs:
            node.resize_outputs(outputs)
        for name in drop:
            node.attributes.pop(name, None)
        for name, value in (attributes or {}).items():
            node.attributes[name] = onnx_ir.convenience.convert_attribute(name, value)

    def _make(
        self,
        op_type: str,
        inputs: Sequence[onnx_ir.Value | None],
        attributes: Mapping[str, Any],
        outputs: int,
    ) -> onnx_ir.Node:
        kept = list(inputs)
        while kept and kept[-1] is None:
            kept.pop()
        node = onnx_ir.Node(
            "",
            op_type,
            kept,
            onnx_ir.convenience.convert_attributes(attributes),
            num_outputs=outputs,
        )
        self._graph.insert_before(self.node, node)
        return node

    def _take_over(self, old: onnx_ir.Value, new: onnx_ir.Value) -> None:
        name = old.name
        new.type, new.shape = old.type, old.shape
        old.replace_all_uses_with(new, replace_graph_outputs=True)
        old.name = None
        new.name = name
