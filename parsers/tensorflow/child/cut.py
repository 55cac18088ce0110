"""What a graph's inputs and outputs enclose: judged, given its variables' values, opened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...worker.errors import WorkerError, from_user_code
from . import contents as tf_contents
from . import restore as tf_restore
from .graph import (
    PLACEHOLDERS,
    VARIABLES,
    Graph,
    Used,
    attribute,
    function_of,
    inline,
    node_name,
    tensor_name,
)
from .model import Opened, TensorInfo

Named = Sequence[tuple[TensorInfo, str]]
# Operators with a `data_format` that images go through.
_SPATIAL = (
    "Conv2D",
    "DepthwiseConv2dNative",
    "MaxPool",
    "AvgPool",
    "FusedBatchNormV3",
    "FusedBatchNorm",
)


class Cut:
    """The part of a graph between inputs and outputs.

    Args:
        graph: The whole.
        inputs: What they are called, and the graph's tensor.
        outputs: What they are called, and the graph's tensor.
        constants: Values for further tensors.
        what: The file, for messages.
    """

    def __init__(
        self, graph: Graph, inputs: Named, outputs: Named, constants: Mapping[str, Any], what: str
    ) -> None:
        self._graph, self._what, self._trust = graph, what, False
        self._inputs = [(info, tensor_name(name)) for info, name in inputs]
        self._outputs = [(info, tensor_name(name)) for info, name in outputs]
        self._constants = {tensor_name(name): value for name, value in constants.items()}
        ends = [name for _, name in self._inputs] + list(self._constants)
        self._nodes = graph.reachable([name for _, name in self._outputs], ends)
        self._used = graph.used(self._nodes)

    def require_harmless(self, trust: bool) -> None:
        """Raise untrusted and unsupported as tf_contents does; usage for inputs that it lacks."""
        text = [self._text(name, info) for info, name in self._inputs if info.dtype == "string"]
        functions = self._graph.called(self._nodes)
        tf_contents.refuse([*text, *self._used], functions, trust, self._what)
        self._trust = trust
        lacking = [n.name for n in self._nodes if n.op in PLACEHOLDERS]
        if lacking:
            raise WorkerError(
                "usage",
                f"{self._what} needs values that the inputs don't provide",
                lacking,
                code="interface-mismatch",
            )

    def variables(self) -> list[str]:
        """The names of the variables that the outputs depend on."""
        return [node.name for node in self._nodes if node.op in VARIABLES]

    def _text(self, tensor: str, info: TensorInfo) -> Used:
        return Used("", self._graph.node(tensor, info.name))

    def opened(
        self, kind: str, stored: Mapping[str, tf_restore.CheckpointTensor], reader: Any
    ) -> Opened:
        """The function, with the variables' values.

        Args:
            kind: What the file is.
            stored: What variables have in the checkpoint, by node.
            reader: Of the checkpoint; None where there is none.

        Raises:
            WorkerError: ``usage`` where some have none.
        """
        outputs = [name for _, name in self._outputs]
        graph = self._flat(outputs)
        ends = [name for _, name in self._inputs] + list(self._constants)
        nodes = graph.reachable(outputs, ends)
        # What is run is judged as it is run: with the bodies of functions in their places.
        tf_contents.refuse(graph.used(nodes), graph.called(nodes), self._trust, self._what)
        variables = [node for node in nodes if node.op in VARIABLES]
        found = tf_restore.values(variables, stored, reader, self._what)
        values = {tensor_name(name): value for name, value in found.items()}
        values.update(self._constants)
        needed = {node.name for node in nodes}
        without = {node.name for node in variables} | {node_name(e) for e in ends} - needed
        part = graph.part(nodes, without)
        inputs = [name for _, name in self._inputs]
        return Opened(
            kind=kind,
            function=function_of(part, inputs, outputs, values),
            inputs=[info for info, _ in self._inputs],
            outputs=[info for info, _ in self._outputs],
            parameters=_parameters(found, part),
            layout=_layout(graph.used(nodes)),
            warnings=self._warnings(),
            keep=found,
        )

    def _warnings(self) -> list[str]:
        idle = tf_contents.elsewhere(self._graph, self._used)
        if not idle:
            return []
        return [
            (
                f"{self._what} is only a part of its file. The part that its outputs don't need "
                f"was not run, though it could act on this machine: {'; '.join(idle)}"
            )
        ]

    def _flat(self, outputs: Sequence[str]) -> Graph:
        """The graph with the functions that it calls in it; nothing is cut yet."""
        if not self._graph.called(self._nodes):
            return self._graph
        whole = self._graph.reachable(outputs)
        try:
            return Graph(inline(self._graph.part(whole, set()), outputs))
        # Whatever TensorFlow has against the graph: an operator or attribute of another version...
        except Exception as error:
            raise from_user_code(error, f"reading {self._what}") from error


def _parameters(variables: Mapping[str, Any], part: Any) -> int:
    """How many numbers the variables and the weights that are constants hold."""
    import tensorflow as tf

    count = sum(int(tf.size(tf.convert_to_tensor(v))) for v in variables.values())
    for node in part.node:
        if node.op == "Const" and tf.as_dtype(attribute(node, "dtype").type).is_floating:
            dims = [d.size for d in attribute(node, "value").tensor.tensor_shape.dim]
            size = 1
            for dim in dims:
                size *= dim
            count += size if size > 1 else 0
    return count


def _layout(used: Sequence[Used]) -> str:
    """What the operators on images say of their layout, if they all say the same."""
    formats = {
        attribute(item.node, "data_format").s.decode("ascii", "replace") or "NHWC"
        for item in used
        if item.node.op in _SPATIAL
    }
    return {"NHWC": "channels_last", "NCHW": "channels_first"}.get(
        formats.pop() if len(formats) == 1 else "", ""
    )
