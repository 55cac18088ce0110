"""A part of a TensorFlow graph as a function of tensors; nothing else of the graph is run.

Whatever a graph's file was, its inputs and variables are cut out and what leads from them to the
outputs is imported anew for each trace, so that other shapes than the file's can be tried.
"""

# zip() knows no strict= before Python 3.10.
# ruff: noqa: B905

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ...worker.errors import WorkerError

PLACEHOLDERS = ("Placeholder", "PlaceholderV2")
VARIABLES = ("VarHandleOp", "Variable", "VariableV2")
_SCOPE = "model"
_SERIAL = itertools.count()
_CONTROL = ("If", "StatelessIf", "While", "StatelessWhile", "Case", "StatelessCase")
_LOWER = "_lower_using_switch_merge"


class Used(NamedTuple):
    """A node that outputs depend on: where it stands (empty for the graph itself), and it."""

    where: str
    node: Any

    @property
    def label(self) -> str:
        """The node's name, with the function it stands in."""
        return f"{self.where}/{self.node.name}" if self.where else str(self.node.name)


def tensor_name(text: str) -> str:
    """`softmax` and `softmax:0` as TensorFlow's `softmax:0`."""
    return text if re.search(r":\d+$", text) else f"{text}:0"


def node_name(text: str) -> str:
    """The node of a tensor (`split:1`) or of a control input (`^init`)."""
    return text.lstrip("^").partition(":")[0]


def attribute(node: Any, name: str) -> Any:
    """An attribute's value, empty where the node hasn't got it. Only to ask for one adds it."""
    return node.attr[name] if name in node.attr else type(node).AttrEntry().value


class Graph:
    """A GraphDef by node and by function."""

    def __init__(self, definition: Any) -> None:
        self.definition = definition
        self.nodes: dict[str, Any] = {node.name: node for node in definition.node}
        library = definition.library.function
        self.functions: dict[str, Any] = {f.signature.name: f for f in library}

    def node(self, tensor: str, what: str) -> Any:
        """The node of a tensor. Raises usage where there is none."""
        name = node_name(tensor)
        if name not in self.nodes:
            raise WorkerError(
                "usage",
                f"{what}: the graph has no {name}",
                self.alike(name),
                code="interface-mismatch",
            )
        return self.nodes[name]

    def alike(self, name: str) -> list[str]:
        """Names of nodes that a user may have meant."""
        last = name.rpartition("/")[2].lower()
        return [n for n in self.nodes if last in n.lower()][:10]

    def reachable(self, outputs: Iterable[str], cut: Iterable[str] = ()) -> list[Any]:
        """The nodes that outputs depend on, in the file's order; tensors in `cut` end the way."""
        ends = set(cut)
        given = {node_name(tensor) for tensor in ends}
        seen: set[str] = set()
        waiting = [name for name in outputs if tensor_name(name) not in ends]
        while waiting:
            name = node_name(waiting.pop())
            if name in seen or name not in self.nodes:
                continue
            seen.add(name)
            for item in self.nodes[name].input:
                # To wait for what is given means nothing.
                ended = node_name(item) in given if item[:1] == "^" else tensor_name(item) in ends
                if not ended:
                    waiting.append(item)
        return [node for node in self.definition.node if node.name in seen]

    def called(self, nodes: Iterable[Any]) -> dict[str, Any]:
        """The functions that nodes call, and those that these call."""
        found: dict[str, Any] = {}
        waiting = [name for node in nodes for name in callees(node)]
        while waiting:
            name = waiting.pop()
            if name in found or name not in self.functions:
                continue
            found[name] = self.functions[name]
            waiting += [n for node in found[name].node_def for n in callees(node)]
        return found

    def used(self, nodes: Sequence[Any]) -> list[Used]:
        """The nodes, and those of every function that they lead to."""
        functions = self.called(nodes)
        inner = [Used(name, n) for name, f in functions.items() for n in f.node_def]
        return [Used("", node) for node in nodes] + inner

    def part(self, nodes: Sequence[Any], without: set[str]) -> Any:
        """A GraphDef of these nodes and what they call, less those named in `without`."""
        made = type(self.definition)()
        made.versions.CopyFrom(self.definition.versions)
        for node in nodes:
            if node.name not in without:
                _plain(made.node.add(), node, without)
        for function in self.called(nodes).values():
            copy = made.library.function.add()
            copy.CopyFrom(function)
            copy.ClearField("arg_attr")
            for node in copy.node_def:
                _strip(node)
        return made


def callees(node: Any) -> list[str]:
    """Names of functions that a node may call: by its operator, or by an attribute."""
    names = [node.op]
    for value in node.attr.values():
        if value.HasField("func"):
            names.append(value.func.name)
        names += [f.name for f in value.list.func]
    return names


def _plain(made: Any, node: Any, without: set[str]) -> None:
    """A copy of a node that depends on nothing in `without` but by its tensors."""
    made.CopyFrom(node)
    kept = [i for i in node.input if not (i.startswith("^") and node_name(i) in without)]
    del made.input[:]
    made.input.extend(kept)
    _strip(made)
    if node.op == "PlaceholderWithDefault":
        made.op = "Identity"
        made.attr["T"].type = node.attr["dtype"].type
        for name in ("dtype", "shape"):
            del made.attr[name]


def _strip(node: Any) -> None:
    """Take out where and how a node ran, what it stood beside, and the shapes it had there."""
    node.device = ""
    for name in ("_class", "_output_shapes", "config_proto", "executor_type"):
        if name in node.attr:
            del node.attr[name]


def inline(definition: Any, outputs: Sequence[str]) -> Any:
    """The GraphDef with the bodies of called functions in it, so that shapes can be followed."""
    import tensorflow as tf
    from tensorflow.core.protobuf import config_pb2, meta_graph_pb2, rewriter_config_pb2
    from tensorflow.python.grappler import tf_optimizer

    if not definition.library.function:
        return definition
    config = config_pb2.ConfigProto()
    rewrite = config.graph_options.rewrite_options
    rewrite.min_graph_nodes = -1
    rewrite.meta_optimizer_iterations = rewriter_config_pb2.RewriterConfig.ONE
    rewrite.function_optimization = rewriter_config_pb2.RewriterConfig.AGGRESSIVE
    rewrite.optimizers.append("function")
    # Loops and branches stay what they are: lowered ones can't be told from TensorFlow 1's.
    lowered = _unlower(definition)
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(definition, name="")
        meta = tf.compat.v1.train.export_meta_graph(graph_def=graph.as_graph_def(), graph=graph)
    ends = meta_graph_pb2.CollectionDef()
    ends.node_list.value.extend(outputs)
    meta.collection_def["train_op"].CopyFrom(ends)
    flat = tf_optimizer.OptimizeGraph(config, meta)
    if lowered:
        for node in _all_nodes(flat):
            if node.op in _CONTROL:
                node.attr[_LOWER].b = True
    return flat


def _unlower(definition: Any) -> bool:
    """Take out the wish to have loops and branches lowered; says whether there was any."""
    marked = [node for node in _all_nodes(definition) if _LOWER in node.attr]
    for node in marked:
        del node.attr[_LOWER]
    return bool(marked)


def _all_nodes(definition: Any) -> list[Any]:
    inner = [node for f in definition.library.function for node in f.node_def]
    return [*definition.node, *inner]


def _register(part: Any) -> Any:
    """The part with functions of names that this process hasn't seen, made known to it.

    Imported into a graph that becomes a function, a library stays unknown to the runtime.
    """
    from tensorflow.python.eager import context

    made = type(part)()
    made.CopyFrom(part)
    names = {
        f.signature.name: f"{f.signature.name}__{next(_SERIAL)}" for f in made.library.function
    }
    for node in _all_nodes(made):
        node.op = names.get(node.op, node.op)
        for value in node.attr.values():
            for function in (*([value.func] if value.HasField("func") else ()), *value.list.func):
                function.name = names.get(function.name, function.name)
    for function in made.library.function:
        function.signature.name = names[function.signature.name]
    for function in made.library.function:
        context.context().add_function_def(function)
    return made


def function_of(
    part: Any,
    inputs: Sequence[str],
    outputs: Sequence[str],
    values: Mapping[str, Any],
) -> Callable[..., Sequence[Any]]:
    """A function from tensors of a graph to others.

    Args:
        part: The GraphDef.
        inputs: The tensors that it takes.
        outputs: The tensors that it gives.
        values: Variables and constants by the tensor they stand for.

    Raises:
        WorkerError: ``source`` where TensorFlow can't build the graph.
    """
    import tensorflow as tf

    part = _register(part)
    wanted = {tensor_name(i) for node in part.node for i in node.input if i[:1] != "^"}

    def body(*tensors: Any) -> list[Any]:
        given = dict(zip(inputs, tensors))
        given.update((name, _inside(value)) for name, value in values.items())
        mapped = {name: t for name, t in given.items() if name in wanted}
        rest = [name for name in outputs if name not in given]
        made = dict(
            zip(rest, tf.graph_util.import_graph_def(part, mapped, rest, name=_SCOPE) or [])
        )
        return [given[name] if name in given else made[name] for name in outputs]

    traced: Callable[..., Sequence[Any]] = tf.function(body, autograph=False)

    def call(*tensors: Any) -> Sequence[Any]:
        return traced(*tensors) if tf.executing_eagerly() else body(*tensors)

    return call


def _inside(value: Any) -> Any:
    """A variable or constant as a tensor of the graph that is being built."""
    import tensorflow as tf

    if not isinstance(value, tf.Variable):
        return tf.constant(value)
    graph = tf.compat.v1.get_default_graph()
    graph.watch_variable(value)
    return graph.capture(value.handle)
