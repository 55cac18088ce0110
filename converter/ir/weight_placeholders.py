"""A model without its large weights, for tools that would copy them.

    Given:   y = MatMul(x, W)          W an initializer of 40 MB, mapped from a file
    Result:  y = MatMul(x, W)          W an input, nothing to copy
    and a function that makes W the same mapped initializer again in what the tool gives back.

A tool can't fold or change what it doesn't see, so everything that is restored is exact.
"""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir

from converter.errors import ModelError
from converter.ir.edit import same_tensor

LARGE_MODEL = 256 << 20
"""Bytes of weights above which a model is large: its weights go to no library."""

LARGE_WEIGHT = 1 << 20
"""Bytes above which a weight of a large model is withheld."""

Restore = Callable[[onnx_ir.Model], onnx_ir.Model]


def without_weights(
    model: onnx_ir.Model,
    min_bytes: int = LARGE_WEIGHT,
    *,
    keep: Callable[[onnx_ir.Value], bool] | None = None,
) -> tuple[onnx_ir.Model, Restore]:
    """A copy of ``model`` in which weights of ``min_bytes`` and more are inputs.

    Weights of subgraphs, and large Constant nodes, become inputs of the main graph. External
    weights below the limit are read into memory, so that the copy needs no other file.

    ``keep`` decides only about initializers; Constant nodes go by size alone.

    Args:
        model: Left as it is; the copy shares its tensors.
        min_bytes: Smallest weight to withhold.
        keep: Says of an initializer whether it stays all the same.

    Returns:
        The light copy, to be changed at will, and ``restore``, which puts the weights back into
        it, or into any model made from it, in place. A weight that is no longer there was
        dropped by the tool, and is not put back.

    Raises:
        ModelError: from ``restore``: an input that stands for a weight has another type now.
    """
    light = model.clone()
    names = _names(light)
    withheld: dict[str, onnx_ir.TensorProtocol] = {}
    for graph in light.graphs():
        for value in list(graph.initializers.values()):
            if _is_heavy(value, min_bytes) and not (keep and keep(value)):
                _withhold_initializer(light.graph, graph, value, names, withheld)
    _withhold_constants(light, min_bytes, names, withheld)
    mapped = _read_small(light)

    def restore(result: onnx_ir.Model) -> onnx_ir.Model:
        _put_back(result.graph, withheld)
        for name, (old, read) in mapped.items():
            value = result.graph.initializers.get(name)
            if value is not None and value.const_value and same_tensor(value.const_value, read):
                value.const_value = old
        return result

    return light, restore


def is_large(model: onnx_ir.Model) -> bool:
    """Whether the model's weights are too many to be copied through a library."""
    total = 0
    for graph in model.graphs():
        for value in graph.initializers.values():
            total += value.const_value.nbytes if value.const_value is not None else 0
    return total > LARGE_MODEL


def _names(model: onnx_ir.Model) -> set[str]:
    names: set[str] = set()
    for graph in model.graphs():
        names.update(value.name or "" for value in graph.inputs)
        names.update(graph.initializers)
        names.update(out.name or "" for node in graph for out in node.outputs)
    return names


def _is_heavy(value: onnx_ir.Value, min_bytes: int) -> bool:
    tensor = value.const_value
    return tensor is not None and tensor.nbytes >= min_bytes and not value.is_graph_input()


def _withhold_initializer(
    main: onnx_ir.Graph,
    graph: onnx_ir.Graph,
    value: onnx_ir.Value,
    names: set[str],
    withheld: dict[str, onnx_ir.TensorProtocol],
) -> None:
    name, tensor = value.name or "", value.const_value
    assert tensor is not None
    del graph.initializers[name]
    if graph is not main and name in withheld:
        value.name = _fresh(name, names)
    _make_input(main, value, tensor, withheld)


def _withhold_constants(
    light: onnx_ir.Model,
    min_bytes: int,
    names: set[str],
    withheld: dict[str, onnx_ir.TensorProtocol],
) -> None:
    for node in list(onnx_ir.traversal.RecursiveGraphIterator(light.graph)):
        if node.op_type != "Constant" or node.domain not in ("", "ai.onnx") or node.graph is None:
            continue
        attribute = node.attributes.get("value")
        if attribute is None or attribute.is_ref():
            continue
        tensor = attribute.as_tensor()
        if tensor.nbytes < min_bytes or node.outputs[0].is_graph_output():
            continue
        value = onnx_ir.Value(name=_fresh(node.outputs[0].name or "constant", names))
        node.outputs[0].replace_all_uses_with(value)
        node.graph.remove(node, safe=True)
        _make_input(light.graph, value, tensor, withheld)


def _make_input(
    main: onnx_ir.Graph,
    value: onnx_ir.Value,
    tensor: onnx_ir.TensorProtocol,
    withheld: dict[str, onnx_ir.TensorProtocol],
) -> None:
    value.const_value = None
    value.dtype = tensor.dtype
    value.shape = _shape(tensor)
    main.inputs.append(value)
    assert value.name is not None
    withheld[value.name] = tensor


def _read_small(
    light: onnx_ir.Model,
) -> dict[str, tuple[onnx_ir.TensorProtocol, onnx_ir.TensorProtocol]]:
    read: dict[str, tuple[onnx_ir.TensorProtocol, onnx_ir.TensorProtocol]] = {}
    for graph in light.graphs():
        for name, value in graph.initializers.items():
            old = value.const_value
            if isinstance(old, onnx_ir.ExternalTensor):
                new = onnx_ir.Tensor(
                    old.numpy().copy(), dtype=old.dtype, shape=old.shape, name=name
                )
                value.const_value = new
                if graph is light.graph:
                    read[name] = (old, new)
    return read


def _put_back(main: onnx_ir.Graph, withheld: dict[str, onnx_ir.TensorProtocol]) -> None:
    stand_ins = [value for value in main.inputs if value.name in withheld]
    for value in stand_ins:
        tensor = withheld[value.name or ""]
        if value.dtype != tensor.dtype:
            raise ModelError(
                f"the weight {value.name} was {tensor.dtype} and came back as {value.dtype}",
                code="model-invalid",
            )
        main.inputs.remove(value)
        value.shape = _shape(tensor)
        value.const_value = tensor
        main.register_initializer(value)


def _shape(tensor: onnx_ir.TensorProtocol) -> onnx_ir.Shape:
    return onnx_ir.Shape([dim for dim in tensor.shape if isinstance(dim, int)])


def _fresh(name: str, names: set[str]) -> str:
    number, candidate = 0, f"{name}_weight"
    while candidate in names:
        number += 1
        candidate = f"{name}_weight_{number}"
    names.add(candidate)
    return candidate
