"""A concrete TensorFlow function, frozen and translated by tf2onnx; whatever fails, all listed."""

# zip() knows no strict= before Python 3.10.

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from ...worker.errors import WorkerError, from_user_code
from .export_names import INPUT, OUTPUT
from .export_refusals import ASSIGNS, listening, not_onnx, refuse, refuse_at_once

_CALLS = ("PartitionedCall", "StatefulPartitionedCall")
_COMPILED = ("_XlaMustCompile", "_noinline", "_XlaScope", "_XlaInternalScope")


def trace(function: Callable[..., Sequence[Any]], signature: Sequence[Any]) -> Any:
    """The concrete function for these TensorSpecs, with names of ours at both ends.

    Raises source where the model doesn't take such inputs.
    """

    def named(*tensors: Any) -> list[Any]:
        results = function(*tensors)
        # An Identity each: an output may be an input, or the same tensor twice.
        return [tf.identity(r, name=OUTPUT.format(i)) for i, r in enumerate(results)]

    specs = [
        tf.TensorSpec(spec.shape, spec.dtype, name=INPUT.format(i))
        for i, spec in enumerate(signature)
    ]
    try:
        return tf.function(named, autograph=False, reduce_retracing=False).get_concrete_function(
            *specs
        )
    # Whatever the model's own code raises.
    except Exception as error:
        raise from_user_code(error, "tracing the model") from error


def output_shapes(concrete: Any) -> list[tuple[int | None, ...] | None]:
    """Static shapes of the outputs; None for a free dimension, or for an unknown rank."""
    return [None if t.shape.rank is None else tuple(t.shape.as_list()) for t in concrete.outputs]


def output_types(concrete: Any) -> list[str]:
    """Dtype names of the outputs."""
    return [t.dtype.name for t in concrete.outputs]


def weight_bytes(concrete: Any) -> int:
    """Bytes of the variables that a function reads."""
    return sum(v.dtype.size * v.shape.num_elements() for v in concrete.graph.variables)


def translate(concrete: Any, opset: int, large: bool) -> Any:
    """The ONNX ModelProto of a concrete function.

    Args:
        concrete: TensorFlow's concrete function.
        opset: The ONNX version.
        large: Whether weights are kept out of TensorFlow's own protobufs, which end at 2 GiB.

    Raises:
        WorkerError: ``unsupported`` with every operator that can't be translated.
    """
    from tf2onnx import optimizer, tf_utils
    from tf2onnx.tfonnx import process_tf_graph

    from . import export_handlers as tf_export_handlers  # noqa: F401 - registers them

    refuse_at_once(concrete)
    inputs, outputs = _ends(concrete)
    renames = {name: INPUT.format(i) for i, name in enumerate(inputs)}
    renames.update((name, OUTPUT.format(i)) for i, name in enumerate(outputs))
    frozen = _frozen(concrete, inputs, outputs, large)
    values = tf_utils.compress_graph_def(frozen) if large else None
    with listening() as failures, tf.Graph().as_default() as graph:
        tf.import_graph_def(frozen, name="")
        try:
            made = process_tf_graph(
                graph,
                continue_on_error=True,
                opset=opset,
                input_names=inputs,
                output_names=outputs,
                const_node_values=values,
                tensors_to_rename=renames,
            )
            refuse(failures.found)
            made = optimizer.optimize_graph(made, catch_errors=not large)
        except WorkerError:
            raise
        # Its own failure, or what an earlier one that it went on after led to.
        except Exception as error:
            reason = f"tf2onnx: {type(error).__name__}: {error}"
            refuse([*failures.found, reason])
        proto = made.make_model("model")
    refuse(not_onnx(proto, opset))
    return proto


def _ends(concrete: Any) -> tuple[list[str], list[str]]:
    """Names of the tensors that are inputs and outputs."""
    captured = {id(t) for t in concrete.graph.internal_captures}
    inputs = [t.name for t in concrete.inputs if id(t) not in captured]
    return inputs, [t.name for t in concrete.outputs]


def _frozen(concrete: Any, inputs: list[str], outputs: list[str], large: bool) -> Any:
    """The function as a GraphDef without variables."""
    from tf2onnx import tf_loader

    with listening() as failures:
        try:
            try:
                frozen = tf_loader.from_function(concrete, inputs, outputs, large_model=large)
            # A variable that is only written, say a random layer's seed: no output follows from
            # it, but TensorFlow makes a constant of it and then can't write to that.
            except ValueError:
                frozen = tf_loader.from_function(concrete, inputs, outputs, large_model=True)
                frozen = _without_assignments(frozen, inputs, outputs)
        # TensorFlow raises whatever its C++ side says.
        except Exception as error:
            raise WorkerError(
                "unsupported",
                "its variables can't be made constants",
                [*failures.found, f"{type(error).__name__}: {error}"],
            ) from error
    return _without_calls(frozen, inputs, outputs)


def _without_assignments(frozen: Any, inputs: list[str], outputs: list[str]) -> Any:
    """The graph less what only writes variables; that no output depends on it was seen before."""
    from tf2onnx import tf_loader

    dropped = {node.name for node in frozen.node if node.op in ASSIGNS}
    kept = [node for node in frozen.node if node.name not in dropped]
    del frozen.node[:]
    for node in kept:
        names = [name for name in node.input if name.lstrip("^") not in dropped]
        del node.input[:]
        node.input.extend(names)
        frozen.node.append(node)
    with tf.Graph().as_default():
        tf.import_graph_def(frozen, name="")
        return tf_loader.tf_optimize(inputs, outputs, frozen)


def _without_calls(frozen: Any, inputs: list[str], outputs: list[str]) -> Any:
    """The graph with functions inlined that TensorFlow keeps apart to compile them by XLA.

    Keras compiles grouped convolutions so; tf2onnx has no handler for the call.
    """
    from tf2onnx import tf_loader

    if not any(node.op in _CALLS for node in frozen.node):
        return frozen
    for node in [*frozen.node, *(n for f in frozen.library.function for n in f.node_def)]:
        for name in _COMPILED:
            node.attr.pop(name, None)
    for function in frozen.library.function:
        for name in _COMPILED:
            function.attr.pop(name, None)
    with tf.Graph().as_default():
        tf.import_graph_def(frozen, name="")
        return tf_loader.tf_optimize(inputs, outputs, frozen)
