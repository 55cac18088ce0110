"""int8 in the graph: Q and DQ where :mod:`.placement` says, and their numbers.

    Given:   y = Relu(Conv(x, w, b))
    Result:  x8 = QuantizeLinear(x)                 y' = Relu(Conv(DQ(x8), DQ(w8), DQ(b32)))
             w8 int8, b32 int32                     y = DQ(QuantizeLinear(y'))

A tensor keeps its name where its float value is; who reads integers reads ``NAME_dequantized``.
Inputs and outputs of the model stay as they are, names and types.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from converter.analysis.macs import macs_by_node
from converter.errors import ModelError
from converter.ir.model import Model
from converter.passes.cleanup.naming import name_nodes, name_values
from converter.precision.int8.activations import Affine, affine
from converter.precision.int8.guards import guard_kept
from converter.precision.int8.placement import Placement, place, require_nodes
from converter.precision.int8.qdq import Inserter
from converter.precision.int8.scheme import Scheme
from converter.precision.quantized import Kept, Quantized
from converter.precision.subgraphs import bodies, closed, take_out

Array = np.ndarray[Any, Any]


FEW_STEPS = 16
"""An output that uses fewer steps of a scale that the target demands stays in float32."""

SPARE = 4.0
"""How many times its largest value on the samples an output may reach whose range is known: a
Softmax over thousands of entries has none near 1."""


class Limits(Protocol):
    """Measured ranges of activations; see :class:`converter.precision.calibrate.ranges.Ranges`."""

    @property
    def names(self) -> tuple[str, ...]:
        """The tensors that were measured."""
        ...

    @property
    def nonfinite(self) -> Mapping[str, tuple[int, str]]:
        """Tensors that held NaN or Inf: how many, and the first sample with some."""
        ...

    def limits(
        self, name: str, method: str = "minmax", *, symmetric: bool = False
    ) -> tuple[float, float]:
        """The smallest and the largest value of a tensor that integers should reach.

        Args:
            name: The tensor's.
            method: Of :data:`converter.precision.calibrate.ranges.METHODS`.
            symmetric: Whether the limits have one magnitude.
        """
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
) -> Quantized:
    """The model in int8, as Q/DQ, on a copy; bodies of If and Loop as well, where they were run.

    Args:
        model: At the pipeline's opset, simplified, every node named, types inferred.
        ranges: Of at least ``place(model, scheme, keep).tensors``.
        scheme: The target's.
        method: How ranges become limits, of :data:`converter.precision.calibrate.ranges.METHODS`.
        keep: Names of nodes that stay in float32.
        rounded: Stored int8 weights by initializer, instead of the nearest ones; with the scales
            of :func:`converter.precision.int8.weights.weight_scales`.
        sizes: Of free dimensions, for counting multiply-adds; 1 for those it lacks.
        macs: The multiply-adds by node, for who counted them already.

    Raises:
        UsageError: ``keep`` names a node that isn't there.
        ModelError: Nothing in the model can be int8 (and not because of ``keep``), or a rounded
            weight has another shape.
    """
    require_nodes(model, keep)
    made = model.copy()
    done = list(_Quantizer(ranges, scheme, method, keep, rounded or {}).quantize(made))
    if macs is None:
        macs = macs_by_node(model, sizes or {})
    kept = [item for part in done for item in part.kept]
    lowered = [name for part in done for name in part.lowered]
    if not lowered and not keep:
        raise ModelError(
            f"no operator of the model can be int8 in the scheme {scheme.name}: {_reasons(kept)}",
            code="precision-unavailable",
            hint="Keep it in fp32, or try --precision fp16.",
        )
    if len(done) > 1:  # what is new in one body may have a name that is new in another
        name_values(made.graph)
        name_nodes(made.graph)
    if scheme.activations == "int16":  # QuantizeLinear has int16 from opset 21 on
        made.graph.opset_imports[""] = 21
        made.graph.ir_version = 10
    return Quantized(
        made,
        "int16x8" if scheme.activations == "int16" else "int8",
        scheme.name,
        [replace(item, macs=macs.get(item.node, 0)) for item in kept],
        lowered,
        sum(macs.values()),
        sum(macs.get(name, 0) for name in lowered),
        _decisions(scheme, done),
    )


@dataclass
class _Part:
    """What became of the main graph, or of one body.

    Attributes:
        kept, lowered: As in :class:`Quantized`.
        tensors: How many tensors are quantized.
        scales: How many quantizations they have.
        measured: How many ranges those come from.
        before: How many nodes held integers already.
        adjusted: How many channels have a larger weight scale.
    """

    kept: list[Kept]
    lowered: list[str] = field(default_factory=list)
    tensors: int = 0
    scales: int = 0
    measured: int = 0
    before: int = 0
    adjusted: int = 0


@dataclass(frozen=True)
class _Quantizer:
    """Quantizes a model's graphs in place; the arguments of :func:`quantize`."""

    ranges: Limits
    scheme: Scheme
    method: str
    keep: Collection[str]
    rounded: Mapping[str, Array]

    def quantize(self, model: Model, *, inside: bool = False) -> Iterator[_Part]:
        """Bodies first: they find what they read from outside under its own name."""
        shut = [node for node in closed(model) if node.op_type in self.scheme.matrix_ops]
        for node, branch in list(bodies(model.graph.graph)):
            body = take_out(node, branch)
            yield from self.quantize(body.model, inside=True)
            body.put_back()
        part = self._graph(model, inside)
        why = "it is inside a body, where Modelyard places no int8"
        part.kept += [Kept(node.name or "", node.op_type, why) for node in shut]
        yield part

    def _graph(self, model: Model, inside: bool) -> _Part:
        placement, unbounded = _place(model, self.ranges, self.scheme, self.keep)
        if inside and not set(placement.tensors) <= set(self.ranges.names):
            return _Part(_unseen(placement), list(placement.before), before=len(placement.before))
        affines = _affines(placement, self.ranges, self.method)
        names = [unit.node.name or "" for unit in placement.units]
        inserter = Inserter(model, placement, affines, self.rounded)
        inserter.insert()
        if self.scheme.quantizes_kept:
            guard_kept(model.graph.graph, placement.before)
        return _Part(
            [replace(k, reason=unbounded.get(k.node, k.reason)) for k in placement.kept],
            [*names, *placement.before],
            len(placement.quantized),
            len(placement.groups),
            len(placement.tensors),
            len(placement.before),
            inserter.adjusted,
        )


def _unseen(placement: Placement) -> list[Kept]:
    """What stays in float32 where a body's tensors weren't measured."""
    why = "too few samples run the body that it is in"
    units = [Kept(unit.node.name or "", unit.node.op_type, why) for unit in placement.units]
    return [*units, *placement.kept]


def _place(
    model: Model, ranges: Limits, scheme: Scheme, keep: Collection[str]
) -> tuple[Placement, dict[str, str]]:
    """A placement whose tensors all were finite and have steps enough, and why nodes were left out
    for that."""
    out: dict[str, str] = {}
    here = {node.name or "" for node in model.graph.graph} & set(keep)
    while True:
        placement = place(model, scheme, {*here, *out})
        bad = {name for name in placement.tensors if name in ranges.nonfinite}
        if not bad:
            few = dict(_with_few_steps(placement, ranges))
            if not few:
                return placement, out
            out.update(few)
            continue
        around = _around(placement, bad) - out.keys()
        assert around, f"no node to leave out for {sorted(bad)}"
        out.update(dict.fromkeys(around, "its values hold NaN or infinity on the samples"))


def _with_few_steps(placement: Placement, ranges: Limits) -> Iterator[tuple[str, str]]:
    """Operators whose scale the target demands, and hardly uses: a Softmax over many entries."""
    for unit in placement.units:
        fixed = placement.scheme.fixed_outputs.get(unit.node.op_type)
        name = unit.end.name or ""
        if fixed is None or name not in placement.tensors or name not in ranges.names:
            continue
        largest = max(map(abs, ranges.limits(name)))
        if largest < FEW_STEPS * fixed[0]:
            yield (
                unit.node.name or "",
                f"its outputs reach {largest:.2g} on the samples, and the target's steps are "
                f"{fixed[0]:.2g}",
            )


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
    if known is None:
        return ranges.limits(name, method, symmetric=placement.scheme.symmetric)
    low, high = known
    if name in ranges.names:
        high = min(high, SPARE * ranges.limits(name)[1])
    return low, high


def _reasons(kept: Collection[Kept]) -> str:
    counts: dict[str, int] = {}
    for item in kept:
        counts[item.reason] = counts.get(item.reason, 0) + 1
    ranked = sorted(counts, key=lambda reason: -counts[reason])[:3]
    return "; ".join(f"{counts[reason]} nodes: {reason}" for reason in ranked) or "it has no nodes"


def _decisions(scheme: Scheme, parts: list[_Part]) -> list[str]:
    kind = "symmetric" if scheme.symmetric else "asymmetric"
    tensors, scales = sum(part.tensors for part in parts), sum(part.scales for part in parts)
    lines = [
        f"{scheme.name}: activations {scheme.activations}, {kind}; weights int8, symmetric, "
        f"{'per output channel' if scheme.per_channel else 'per tensor'}; biases {scheme.bias}",
        f"{tensors} tensors quantized with {scales} scales, from the ranges of "
        f"{sum(part.measured for part in parts)}",
    ]
    before = sum(part.before for part in parts)
    if before:
        lines.append(f"{before} nodes held integers already; left as they are")
    adjusted = sum(part.adjusted for part in parts)
    if adjusted:
        lines.append(f"{adjusted} channels have a larger weight scale, so that the bias fits int32")
    return lines
