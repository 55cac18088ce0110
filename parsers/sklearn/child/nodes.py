"""Nodes of a converter that skl2onnx calls, written in a line each."""

from __future__ import annotations

from typing import Any, Callable, Dict, List

import numpy as np
import onnx
from skl2onnx.common import data_types

from ...worker.errors import WorkerError
from . import steps

ML = "ai.onnx.ml"


def untranslated(part: Any, reason: str) -> WorkerError:
    """The error of an estimator that ONNX hasn't, and what of it that is."""
    name = steps.name_of(part)
    return WorkerError("unsupported", f"{name} can't be translated", [f"{name}: {reason}"])


class Changed:
    """A container of skl2onnx's whose nodes' attributes are changed before they go in.

    Args:
        container: The one that takes them.
        change: Gives the attributes to use instead.
    """

    def __init__(self, container: Any, change: Callable[[Dict[str, Any]], Dict[str, Any]]) -> None:
        self._container, self._change = container, change

    def __getattr__(self, name: str) -> Any:
        return getattr(self._container, name)

    def add_node(self, kind: str, *args: Any, **attributes: Any) -> None:
        """A node, with other attributes."""
        self._container.add_node(kind, *args, **self._change(attributes))


class Nodes:
    """Writes into the graph that skl2onnx is making; tensors are known by their names.

    Args:
        scope: As skl2onnx hands it to a converter; gives names.
        operator: Likewise; has inputs and outputs.
        container: Likewise; takes the nodes.
    """

    def __init__(self, scope: Any, operator: Any, container: Any) -> None:
        self._scope, self._container = scope, container
        self.inputs = operator.inputs
        self._output = operator.outputs[0]

    def constant(self, values: Any) -> str:
        """A constant; its type is the array's."""
        array = np.asarray(values)
        name = str(self._scope.get_unique_variable_name("constant"))
        kind = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
        self._container.add_initializer(name, kind, list(array.shape), array.ravel().tolist())
        return name

    def node(self, kind: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """A node with one output."""
        return self.outputs(kind, 1, *inputs, domain=domain, **attributes)[0]

    def outputs(
        self, kind: str, count: int, *inputs: str, domain: str = "", **attributes: Any
    ) -> List[str]:
        """The outputs of a node that has several.

        Args:
            kind: The operator.
            count: How many outputs.
            *inputs: Names, in the operator's order.
            domain: The operator's; empty: ai.onnx.
            **attributes: The operator's.
        """
        out = [str(self._scope.get_unique_variable_name(kind.lower())) for _ in range(count)]
        self._add(kind, list(inputs), out, domain, attributes)
        return out

    def _add(self, kind: str, inputs: List[str], out: Any, domain: str, attributes: Any) -> None:
        version = self._container.target_opset_any_domain(domain)
        name = self._scope.get_unique_operator_name(kind)
        self._container.add_node(
            kind, inputs, out, op_domain=domain, op_version=version or 1, name=name, **attributes
        )

    def cast(self, value: str, dtype: int) -> str:
        """The tensor in another type of ONNX's."""
        return self.node("Cast", value, to=dtype)

    def finish(self, value: str) -> None:
        """Make a tensor the operator's output, in the output's type."""
        kinds = {
            data_types.Int64TensorType: onnx.TensorProto.INT64,
            data_types.StringTensorType: onnx.TensorProto.STRING,
        }
        name = self._output.full_name
        if isinstance(self._output.type, data_types.StringTensorType):
            self._add("Identity", [value], name, "", {})
            return
        to = kinds.get(type(self._output.type), onnx.TensorProto.FLOAT)
        self._add("Cast", [value], name, "", {"to": to})

    def columns(self) -> List[Any]:
        """The inputs' columns, each [rows, 1]: (tensor, its skl2onnx type)."""
        found = []
        for value in self.inputs:
            width = value.type.shape[1]
            for place in range(width):
                name = value.full_name
                if width > 1:
                    name = self.node("Gather", name, self.constant(np.array([place])), axis=1)
                found.append((name, value.type))
        return found

    def joined(self) -> Any:
        """The inputs as one tensor [rows, columns]."""
        names = [value.full_name for value in self.inputs]
        return names[0] if len(names) == 1 else self.node("Concat", *names, axis=1)
