"""Estimates what each layer's lower precision costs, from each layer's own error.

A layer's own error is what its lowered form makes of the inputs that the float model has there:
the layer is cut out of the lowered model and run on those. That takes one run of the float model
and one of each layer, whatever the others do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir

from converter.analysis.intermediate_outputs import chunked, fed_tensors, open_tapped, reads
from converter.check.sums import is_float
from converter.ir.model import IR_VERSION, Model
from converter.runtime.ort import OrtSession
from converter.samples import Sample

Array = np.ndarray[Any, Any]
Values = list[dict[str, Array]]
"""Tensors by name, for each sample."""

BROKEN = 2.0
"""The most that an error is counted for, relative to the signal; NaN and Inf count for that."""

_MASK = 1e30
"""Magnitudes from here on are a mask's sentinels, no signal."""


def own_noise(
    original: Model, lowered: Model, names: Collection[str], samples: Sequence[Sample]
) -> dict[str, float]:
    """The power of each layer's own error, relative to its output's.

    Args:
        original: The float model.
        lowered: Where its tensors keep their names, at least around a layer.
        names: The layers' node names.
        samples: What they are run on.

    Returns:
        Between 0 and 2, by node; nodes that couldn't be cut out of ``lowered`` are missing.
    """
    nodes = [node for node in original.graph.graph if node.name in names]
    fed = {value.name or "" for value in fed_tensors(original.graph)}
    fed |= {spec.name for spec in original.inputs}
    found = {}
    for group in _groups(original, nodes, fed):
        values = _float_values(original, group, fed, samples)
        for node in group:
            noise = _noise(node, lowered, fed, values)
            if noise is not None:
                found[node.name or ""] = noise
    return found


def _groups(
    original: Model, nodes: Sequence[onnx_ir.Node], fed: Collection[str]
) -> Iterator[list[onnx_ir.Node]]:
    """Nodes in pieces whose tensors fit into memory together."""
    by_output = {node.outputs[0].name or "": node for node in nodes}
    for piece in chunked(original.graph, list(by_output)):
        yield [by_output[name] for name in piece]


def _ends(node: onnx_ir.Node, fed: Collection[str]) -> tuple[list[str], list[str]]:
    """The names of the tensors that a node reads, weights left out, and of those it computes."""
    inputs = dict.fromkeys(value.name or "" for value in reads(node) if value.name in fed)
    return list(inputs), [value.name or "" for value in node.outputs if value.name in fed]


def _float_values(
    original: Model,
    nodes: Sequence[onnx_ir.Node],
    fed: Collection[str],
    samples: Sequence[Sample],
) -> Values:
    """What the float model holds in all tensors around ``nodes``."""
    given = {spec.name for spec in original.inputs}
    names = dict.fromkeys(name for node in nodes for ends in _ends(node, fed) for name in ends)
    session = open_tapped(original.graph, [name for name in names if name not in given])
    values = [{**sample.feeds, **session.run(sample.feeds)} for sample in samples]
    session.close()
    return values


def _noise(
    node: onnx_ir.Node, lowered: Model, fed: Collection[str], values: Values
) -> float | None:
    inputs, outputs = _ends(node, fed)
    graph = lowered.graph.graph
    try:
        cut = onnx_ir.convenience.extract(graph, inputs, outputs)
    except ValueError:  # a tensor has another name there
        return None
    dtypes = _typed(cut, values[0])
    model = onnx_ir.Model(cut, ir_version=IR_VERSION, functions=[*lowered.graph.functions.values()])
    session = OrtSession(model, plain=True)
    signal = noise = 0.0
    for tensors in values:
        made = session.run({name: tensors[name].astype(dtypes[name]) for name in inputs})
        for name in outputs:
            more = _powers(tensors[name], made[name])
            signal, noise = signal + more[0], noise + more[1]
    session.close()
    return min(noise / signal, BROKEN) if signal else 0.0


def _typed(cut: onnx_ir.Graph, tensors: Mapping[str, Array]) -> dict[str, np.dtype[Any]]:
    """Gives the inputs of ``cut`` types where they have none, and takes their shapes away, which
    inner tensors may have wrong. Returns their types."""
    found = {}
    for value in cut.inputs:
        name = value.name or ""
        if value.dtype is None:
            value.type = onnx_ir.TensorType(onnx_ir.DataType.from_numpy(tensors[name].dtype))
        value.shape = None
        assert value.dtype is not None
        found[name] = np.dtype(value.dtype.numpy())
    return found


def _powers(before: Array, after: Array) -> tuple[float, float]:
    """The power of a signal, and of the error in it."""
    if before.shape != after.shape or not (is_float(before.dtype) and is_float(after.dtype)):
        return 0.0, 0.0
    old, new = before.astype(np.float64), after.astype(np.float64)
    usable = np.isfinite(old) & (np.abs(old) < _MASK)
    signal = float(np.sum(old[usable] ** 2))
    if not np.isfinite(new[usable]).all():
        return signal, BROKEN * signal
    return signal, float(np.sum((new[usable] - old[usable]) ** 2))
