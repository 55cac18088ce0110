"""int8 in the graph: Q and DQ where :mod:`converter.quantize.placement` says, and their numbers.

    Given:   y = Relu(Conv(x, w, b))
    Result:  x8 = QuantizeLinear(x)                 y' = Relu(Conv(DQ(x8), DQ(w8), DQ(b32)))
             w8 int8, b32 int32                     y = DQ(QuantizeLinear(y'))

A tensor keeps its name where its float value is; who reads integers reads ``NAME_dequantized``.
Inputs and outputs of the model stay as they are, names and types.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol

import numpy as np

from converter.errors import ModelError
from converter.graph.macs import macs_by_node
from converter.ir import Model
from converter.quantize.activations_int8 import Affine, affine
from converter.quantize.guards import guard_kept
from converter.quantize.lowered import Kept, Lowered
from converter.quantize.placement import Placement, place
from converter.quantize.qdq import Inserter
from converter.quantize.scheme import Scheme

Array = np.ndarray[Any, Any]


class Limits(Protocol):
    """Measured ranges of activations; see :class:`converter.quantize.ranges.Ranges`."""

    @property
    def nonfinite(self) -> Mapping[str, tuple[int, str]]:
        """Tensors that held NaN or Inf: how many, and the first sample with some."""
        ...

    def limits(
        self, name: str, method: str = "minmax", *, symmetric: bool = False
    ) -> tuple[float, float]:
        """Smallest and largest value of a tensor that integers should reach."""
        ...


def quantize(
    model: Model,
    ranges: Limits,
    scheme: Scheme,
    *,
    method: str = "minmax",
    keep: Collection[str] = (),
    rounded: Mapping[str, Array] | None = None,
    sizes: Mapping[str, int] | None = None,
    macs: Mapping[str, int] | None = None,
) -> Lowered:
    """The model in int8, as Q/DQ, on a copy.

    Args:
        model: At the pipeline's opset, simplified, every node named, types inferred.
        ranges: Of at least ``place(model, scheme, keep).tensors``.
        scheme: The target's.
        method: How ranges become limits, of :data:`converter.quantize.ranges.METHODS`.
        keep: Names of nodes that stay in float32.
        rounded: Stored int8 weights by initializer, instead of the nearest ones; with the scales
            of :func:`converter.quantize.weights_int8.weight_scales`.
        sizes: Of free dimensions, for counting multiply-adds; 1 for those it lacks.
        macs: The multiply-adds by node, for who counted them already.

    Raises:
        UsageError: ``keep`` names a node that isn't there.
        ModelError: Nothing in the model can be int8 (and not because of ``keep``), or a rounded
            weight has another shape.
    """
    made = model.copy()
    placement, unbounded = _place(made, ranges, scheme, keep)
    if macs is None:
        macs = macs_by_node(model, sizes or {})
    if not placement.units and not placement.before and not keep:
        raise ModelError(
            f"nothing in the model can be int8 by {scheme.name}: {_reasons(placement.kept)}",
            hint="Leave it in fp32, or try --precision fp16.",
        )
    names = [unit.node.name or "" for unit in placement.units]
    inserter = Inserter(made, placement, _affines(placement, ranges, method), rounded or {})
    inserter.insert()
    if scheme.quantizes_kept:
        guard_kept(made.graph.graph, placement.before)
    lowered = [*names, *placement.before]
    return Lowered(
        made,
        "int8",
        scheme.name,
        [_kept(item, unbounded, macs) for item in placement.kept],
        lowered,
        sum(macs.values()),
        sum(macs.get(name, 0) for name in lowered),
        _decisions(placement, inserter),
    )


def _place(
    model: Model, ranges: Limits, scheme: Scheme, keep: Collection[str]
) -> tuple[Placement, dict[str, str]]:
    """A placement whose tensors all were finite, and why nodes were left out for that."""
    out: dict[str, str] = {}
    while True:
        placement = place(model, scheme, {*keep, *out})
        bad = {name for name in placement.tensors if name in ranges.nonfinite}
        if not bad:
            return placement, out
        around = _around(placement, bad) - out.keys()
        assert around, f"no node to leave out for {sorted(bad)}"
        out.update(dict.fromkeys(around, "its values hold NaN or infinity on the samples"))


def _around(placement: Placement, names: set[str]) -> set[str]:
    """Nodes to leave out so that these tensors need no scale."""
    heads = {head for head, members in placement.groups.items() if names & set(members)}
    members = {name for head in heads for name in placement.groups[head]}
    units = [
        unit.node.name or ""
        for unit in placement.units
        if unit.end.name in members
        or any((value := unit.node.inputs[i]) and value.name in members for i in unit.activations)
    ]
    carriers = [
        node.name or ""
        for node in placement.carriers
        if any(value.name in members for value in node.outputs)
    ]
    return {*units, *carriers}


def _affines(placement: Placement, ranges: Limits, method: str) -> dict[str, Affine]:
    """The quantization of every tensor that has one."""
    found: dict[str, Affine] = {}
    for head, members in placement.groups.items():
        fixed = placement.fixed.get(head)
        if fixed is not None:
            chosen = Affine(fixed[0], fixed[1], placement.scheme.activations)
        else:
            limits = [_limits(placement, name, ranges, method) for name in placement.sources[head]]
            limits += placement.constant_limits.get(head, [])
            chosen = affine(
                min(low for low, _ in limits), max(high for _, high in limits), placement.scheme
            )
        found.update(dict.fromkeys(members, chosen))
    return found


def _limits(placement: Placement, name: str, ranges: Limits, method: str) -> tuple[float, float]:
    known = placement.bounds.get(name)
    if known is not None:
        return known
    return ranges.limits(name, method, symmetric=placement.scheme.symmetric)


def _reasons(kept: Collection[Kept]) -> str:
    counts: dict[str, int] = {}
    for item in kept:
        counts[item.reason] = counts.get(item.reason, 0) + 1
    ranked = sorted(counts, key=lambda reason: -counts[reason])[:3]
    return "; ".join(f"{counts[reason]} nodes: {reason}" for reason in ranked) or "it has no nodes"


def _kept(item: Kept, unbounded: Mapping[str, str], macs: Mapping[str, int]) -> Kept:
    reason = unbounded.get(item.node, item.reason)
    return Kept(item.node, item.op, reason, macs.get(item.node, 0))


def _decisions(placement: Placement, inserter: Inserter) -> list[str]:
    scheme = placement.scheme
    kind = "symmetric" if scheme.symmetric else "asymmetric"
    lines = [
        f"{scheme.name}: activations {scheme.activations}, {kind}; weights int8, symmetric, "
        f"{'per output channel' if scheme.per_channel else 'per tensor'}; biases {scheme.bias}",
        f"{len(placement.quantized)} tensors quantized with {len(placement.groups)} scales, from "
        f"the ranges of {len(placement.tensors)}",
    ]
    if placement.before:
        lines.append(f"{len(placement.before)} nodes held integers already; left as they are")
    if inserter.adjusted:
        lines.append(
            f"{inserter.adjusted} channels have a larger weight scale, so that the bias fits int32"
        )
    return lines
