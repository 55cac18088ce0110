"""float16 and bfloat16 as types of the graph.

What can't be lowered is settled first: by ONNX's schemas (:mod:`converter.precision.fp16.types`),
by what was measured and by what is computed (:mod:`converter.precision.fp16.choice`). Then the
cheapest border between the types is found (:mod:`converter.precision.fp16.border`), and the types
are written into a copy of the graph (:mod:`converter.precision.fp16.casts`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Literal

import onnx_ir
import onnx_ir.passes.common as common

from converter.analysis.macs import macs_by_node
from converter.ir.edit import all_nodes, bypass, is_op, replace
from converter.ir.inference import infer
from converter.ir.model import Model
from converter.ir.weight_placeholders import without_weights
from converter.passes.cleanup.naming import name_nodes, name_values
from converter.precision.budget.effort import Effort
from converter.precision.fp16.border import stay_wide
from converter.precision.fp16.casts import Rewriter
from converter.precision.fp16.choice import Choice
from converter.precision.fp16.graph import Network, Place
from converter.precision.fp16.measured import Measured, Measurements
from converter.precision.fp16.refine import refine
from converter.precision.fp16.types import bodies
from converter.precision.fp16.weights import Format
from converter.precision.quantized import Kept, Quantized
from converter.samples import Samples

_LIGHT = 1 << 16
PRECISIONS = {"float16": "fp16", "bfloat16": "bf16"}


WANTED = {"float16": 0.9999, "bfloat16": 0.999}
"""The smallest cosine that an output should have to float32's."""


def to_half(
    model: Model,
    ranges: Measured | None,
    *,
    dtype: Literal["float16", "bfloat16"] = "float16",
    io_dtype: Literal["float32", "float16"] = "float32",
    keep: Collection[str] = (),
    samples: Samples | None = None,
    wanted: float | None = None,
    effort: Effort | None = None,
    sizes: Mapping[str, int] | None = None,
) -> Quantized:
    """The model with its float32 tensors in half a precision, where they bear it.

    Args:
        model: At the pipeline's opset, every node named; not changed.
        ranges: What its tensors hold on the samples. Without it, operators whose results may
            be large stay in float32 altogether.
        dtype: The type.
        io_dtype: ``float32``: inputs and outputs keep their type, with one Cast each;
            ``float16``: those that are float32 become ``dtype``, bfloat16 too.
        keep: Names of nodes to leave in float32.
        samples: To compare the outputs on. Where they miss ``wanted``, the nodes whose rounding
            shows most stay in float32 as well. None: nothing is run.
        wanted: The smallest cosine of any output on any sample; None for :data:`WANTED`.
        effort: What may be spent on looking for such nodes; None for as much as it takes.
        sizes: Of free dimensions, for counting multiply-adds; 1 for those it lacks.

    Returns:
        The model, with a :class:`Kept` for every node with float32 tensors that isn't lowered.
    """
    if samples is None:
        return _lowered(model, ranges, dtype, io_dtype, keep, sizes)

    def lower(more: Collection[str]) -> Quantized:
        return _lowered(model, ranges, dtype, "float32", {*keep, *more}, sizes)

    limit = WANTED[dtype] if wanted is None else wanted
    found = refine(lower, model, samples, limit, effort or Effort(math.inf))
    if io_dtype == "float32":
        return found
    costs = {kept.node: kept for kept in found.kept if kept.cost is not None}
    made = _lowered(model, ranges, dtype, io_dtype, {*keep, *costs}, sizes)
    made.kept = [costs.get(kept.node, kept) for kept in made.kept]
    made.decisions = found.decisions
    return made


def _lowered(
    model: Model,
    ranges: Measured | None,
    dtype: str,
    io_dtype: str,
    keep: Collection[str],
    sizes: Mapping[str, int] | None,
) -> Quantized:
    into = Format(dtype)
    made = model.copy()
    _prepare(made.graph)
    network = Network.of(made.graph, into.type, io_dtype != "float32")
    choice = Choice(network, Measurements(ranges), into)
    for node in network.of_node:
        if node.name in keep:
            choice.stay(node, "it was asked to", first=True)
    macs = _macs(made, dict.fromkeys(made.symbols, 1) | dict(sizes or {}))
    wide = stay_wide(network, choice.forced, macs)
    Rewriter(made.graph, network, wide, into).run()
    _drop_idle_casts(made.graph)
    return _told(made, network, wide, choice.reasons, macs, PRECISIONS[dtype])


def _prepare(graph: onnx_ir.Model) -> None:
    """Functions inlined, constants as initializers, types of all values known, no CastLike."""
    if graph.functions:
        common.InlinePass()(graph)
        name_values(graph)
        name_nodes(graph)
    if any(is_op(node, "Constant") for node in all_nodes(graph)):
        common.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(graph)
    values = [value for node in all_nodes(graph) for value in node.outputs if value.name]
    if any(value.type is None for value in values):
        for value, found in infer(graph).items():
            value.type = value.type or found.type
            value.shape = value.shape or found.shape
    for node in all_nodes(graph):
        if is_op(node, "Loop", "Scan"):
            _type_body(node)
        if is_op(node, "CastLike") and node.outputs[0].dtype is not None:
            to = {"to": int(node.outputs[0].dtype)}
            replace(node, onnx_ir.node("Cast", node.inputs[:1], to))


def _type_body(node: onnx_ir.Node) -> None:
    """Types of a body's inputs, which needn't be declared."""
    (body,) = bodies(node)
    for value, given in zip(body.inputs, node.inputs, strict=True):
        if value.type is None and given is not None:
            value.type = given.type


def _macs(model: Model, sizes: dict[str, int]) -> dict[str, int]:
    light, _ = without_weights(model.graph, _LIGHT)
    return macs_by_node(Model(light), sizes)


def _drop_idle_casts(graph: onnx_ir.Model) -> None:
    """Removes what was a Cast to float32 and goes from a type to itself now."""
    for node in all_nodes(graph):
        source = node.inputs[0] if is_op(node, "Cast") else None
        if source is not None and source.dtype == node.outputs[0].dtype is not None:
            bypass(node, source)


def _told(
    model: Model,
    network: Network,
    wide: set[Place],
    reasons: dict[onnx_ir.Node, str],
    macs: dict[str, int],
    precision: str,
) -> Quantized:
    kept, lowered = [], []
    for node in network.nodes():
        name, place = node.name or "", network.of_node.get(node)
        if place is not None and place not in wide:
            lowered.append(name)
            continue
        between = "it is between nodes in float32, so casts would cost more than it saves"
        reason = network.slots[node].why_not or reasons.get(node, between)
        kept.append(Kept(name, node.op_type, reason, macs.get(name, 0)))
    return Quantized(
        model,
        precision,
        kept=kept,
        lowered=lowered,
        macs=sum(macs.values()),
        macs_lowered=sum(macs.get(name, 0) for name in lowered),
    )
