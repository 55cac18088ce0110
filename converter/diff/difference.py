"""The earliest tensor at which two models part, and the error along the graph."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import onnx_ir

from converter.diff.interface import matched_inputs, matched_outputs
from converter.diff.search import SMALL, Search
from converter.diff.side import Side
from converter.diff.tensors import TensorError
from converter.errors import UsageError
from converter.ir.model import Model
from converter.runtime.session import Progress
from converter.samples import Sample
from converter.verify.differences import tolerance_of

SAMPLES = 8
"""Most samples to compare on: the first ones."""

ONE_ROUNDED = 0.1
"""The tolerance where only one of the models rounds to 8 bits: the roundings of its layers add
up to some hundredths of a tensor's largest value before anything is wrong."""

NODES = 12
"""Most nodes that a finding lists of each model."""


@dataclass(frozen=True)
class NodeFact:
    """A node, for messages: its name, operator, and the tensors it makes."""

    name: str
    op: str
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class Finding:
    """Where two models part.

    Attributes:
        tensor: The earliest tensor that differs.
        before: The nearest tensors before it that were compared.
        nodes_a, nodes_b: The nodes from those to the tensor, in A and in B, the first
            :data:`NODES` of them: what computes it.
        inside_a, inside_b: How many there are.
    """

    tensor: TensorError
    before: tuple[TensorError, ...]
    nodes_a: tuple[NodeFact, ...]
    nodes_b: tuple[NodeFact, ...]
    inside_a: int
    inside_b: int


@dataclass(frozen=True)
class Point:
    """A tensor that was compared: the number of its node in A's order, and its error."""

    place: int
    op: str
    error: TensorError


@dataclass(frozen=True)
class Difference:
    """How two models compare.

    Attributes:
        samples: How many they were compared on.
        tolerance: The largest error of tensors that agree.
        outputs: The outputs.
        first: Where they part; None where no output differs.
        along: All tensors that were compared, in A's order.
        nodes_a, nodes_b: Nodes of the main graphs.
        common: How many tensors have a counterpart, by name or by contents.
        misnamed: Tensors that have one name in both and differ, though what follows agrees.
        closed: Nodes of A whose subgraphs were not looked into.
    """

    samples: int
    tolerance: float
    outputs: tuple[TensorError, ...]
    first: Finding | None
    along: tuple[Point, ...]
    nodes_a: int
    nodes_b: int
    common: int
    misnamed: tuple[str, ...]
    closed: tuple[str, ...]

    @property
    def inner(self) -> list[TensorError]:
        """Inner tensors that differ though no output does."""
        if self.first is not None:
            return []
        return [p.error for p in self.along if p.error.parts(self.tolerance)]

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        return asdict(self)


def compare_models(
    a: Model,
    b: Model,
    samples: Iterable[Sample],
    *,
    tolerance: float | None = None,
    small: int = SMALL,
    most: int = SAMPLES,
    progress: Progress | None = None,
) -> Difference:
    """Runs two models side by side and finds where they part.

    Args:
        a: The first model, every node and tensor named; it isn't changed.
        b: The second model, likewise.
        samples: Made for the inputs of ``a``, or with floats of another size.
        tolerance: The largest error of tensors that agree (:mod:`converter.diff.tensors`); None for
            what rounding explains, by the types that they compute in.
        small: Up to how many tensors all of them are compared.
        most: How many samples are used at most, the first ones.
        progress: Told what is being done.

    Raises:
        UsageError: The models don't take the same inputs, or have no output in common.
        ModelError: ONNX Runtime doesn't take one of them, or fails on a sample.
    """
    one, other = Side("A", a), Side("B", b, matched_inputs(a, b))
    outputs = matched_outputs(a, b)
    computed = {k: v for k, v in outputs.items() if k in one.values and v in other.values}
    if not computed:
        raise UsageError(
            "no output of the models depends on their inputs, so there is nothing to compare",
            code="interface-mismatch",
        )
    few = list(itertools.islice(samples, most))
    limit = default_tolerance(a, b) if tolerance is None else tolerance
    tell = progress or (lambda text: None)
    search = Search(one, other, few, limit, computed, small=small, progress=tell)
    first = search.first()
    return Difference(
        len(few),
        limit,
        tuple(search.errors[name] for name in computed),
        _finding(search, first) if first is not None else None,
        _along(search),
        len(a.graph.graph),
        len(b.graph.graph),
        len(search.pairs),
        tuple(search.misnamed),
        tuple(node.name or node.op_type for node in a.graph.graph if _has_subgraph(node)),
    )


def default_tolerance(a: Model, b: Model) -> float:
    """What rounding explains: that of the coarser type, as passes are held to; see
    :data:`ONE_ROUNDED` for where just one of the models is quantized."""
    if _rounds(a) != _rounds(b):
        return ONE_ROUNDED
    return max(tolerance_of(a).relative, tolerance_of(b).relative)


def _rounds(model: Model) -> bool:
    return any(
        node.op_type in ("QuantizeLinear", "DynamicQuantizeLinear") for node in model.nodes()
    )


def _has_subgraph(node: onnx_ir.Node) -> bool:
    kinds = (onnx_ir.AttributeType.GRAPH, onnx_ir.AttributeType.GRAPHS)
    return any(not a.is_ref() and a.type in kinds for a in node.attributes.values())


def _finding(search: Search, name: str) -> Finding:
    before, inside_a = search.a.nearest(name, search.pairs, search.a.parents)
    known = set(search.pairs.values())
    _, inside_b = search.b.nearest(search.pairs[name], known, search.b.parents)
    search.measure(before)
    nodes_a = _nodes(search.a, [*inside_a, name])
    nodes_b = _nodes(search.b, [*inside_b, search.pairs[name]])
    return Finding(
        search.errors[name],
        tuple(search.errors[item] for item in before),
        nodes_a[:NODES],
        nodes_b[:NODES],
        len(nodes_a),
        len(nodes_b),
    )


def _nodes(side: Side, names: Sequence[str]) -> tuple[NodeFact, ...]:
    nodes = dict.fromkeys(side.producer(name) for name in names)
    return tuple(
        NodeFact(node.name or "", node.op_type, tuple(v.name or "" for v in node.outputs))
        for node in nodes
    )


def _along(search: Search) -> tuple[Point, ...]:
    side = search.a
    points = [
        Point(side.place[name], side.producer(name).op_type, error)
        for name, error in search.errors.items()
    ]
    return tuple(sorted(points, key=lambda point: (point.place, point.error.name)))
