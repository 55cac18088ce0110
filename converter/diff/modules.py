"""The module of a source's model in which the graph that was read of it parts from it.

It is looked for from the outside in: of all that a module calls, its own modules and functions, one
agrees where the graph has tensors that hold what it gave. What the exporter fused with others has
none, though it is right: so the earliest counts from which a difference is carried, call by call,
to what the module gives. Where that is a module, it is looked into in turn; else it is a line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from converter.analysis.intermediate_outputs import chunked
from converter.check.sums import is_float
from converter.diff.side import Side
from converter.diff.tensors import SENTINEL
from converter.ir.model import Model
from converter.runtime.session import Excerpt, Locating, Part
from converter.samples import Sample

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]

TOLERANCE = 1e-3
"""Of a tensor's largest value: what rounding adds up to in a deep model stays below."""

_VALUES = 4096


def parting_module(model: Model, source: Locating, sample: Sample) -> Part | None:
    """The module in which a graph parts from its source, with the line that it parts at, where that
    is known; None where nothing is known of modules, or they part by rounding alone.

    Args:
        model: As it was read of the source, its nodes called after modules.
        source: What it was read of.
        sample: One on which their outputs part.

    Raises:
        ModelyardError: One of them can't be run.
    """
    graph, module, looked = _tensors(model, sample), None, set[str]()
    while module is None or module.name not in looked:
        name = module.name if module else ""
        looked.add(name)
        seen = source.parts(sample.feeds, name)
        run = _parting_run(seen.ran, name, _Found(graph, seen.tensors, name))
        if not run:  # by rounding alone
            break
        module, first = module or run[-1], run[0]
        if first.call:
            return first if first.place else module
        module = first
    return module


@dataclass(frozen=True)
class _Tensor:
    """A tensor of the graph: the node that makes it, and chosen values of it."""

    node: str
    values: Array


def _tensors(model: Model, sample: Sample) -> dict[Shape, list[_Tensor]]:
    """What the graph makes of a sample, by shape."""
    side = Side("the graph", model)
    found: dict[Shape, list[_Tensor]] = {}
    for piece in chunked(model.graph, list(side.values)):
        for outputs in side.run(piece, [sample]):
            for name, array in outputs.items():
                if array.dtype.kind in "iub" or is_float(array.dtype):
                    made = _Tensor(side.producer(name).name or "", _chosen(array))
                    found.setdefault(array.shape, []).append(made)
    return found


def _chosen(array: Array) -> Array:
    """What :class:`converter.runtime.session.Excerpt` has of a tensor."""
    flat = array.reshape(-1)
    if flat.size > _VALUES:
        flat = flat[np.arange(_VALUES) * (flat.size - 1) // (_VALUES - 1)]
    return flat.astype(np.float64)


class _Found:
    """Tells which of a source's tensors are in a graph.

    Args:
        graph: The graph's tensors, by shape.
        tensors: The source's, by key.
        module: The module that is looked into.
    """

    def __init__(
        self,
        graph: Mapping[Shape, Sequence[_Tensor]],
        tensors: Mapping[str, Excerpt],
        module: str,
    ) -> None:
        self._graph, self._tensors, self._module = graph, tensors, module

    def agrees(self, part: Part) -> bool | None:
        """Whether the graph has what a part gave; None where nothing in it could stand for that."""
        path = self._module if part.call else part.name
        known = [self._has(key, path) for key in part.outputs]
        if False in known:
            return False
        return True if True in known else None

    def _has(self, key: str, module: str) -> bool | None:
        """Whether a tensor is there. One that holds a single value throughout may be anywhere by
        chance: only the module's own nodes count then."""
        excerpt = self._tensors[key]
        alike = self._graph.get(excerpt.shape, ())
        own = [tensor for tensor in alike if _within(tensor.node, module)]
        values = excerpt.values.astype(np.float64)
        finite = np.where(np.abs(values) < SENTINEL, values, 0.0)  # NaN isn't either
        limit = TOLERANCE * np.max(np.abs(finite), initial=0.0) * is_float(excerpt.values.dtype)
        telling = bool(values.size) and np.ptp(finite) > 0
        if any(_near(values, tensor.values, limit) for tensor in (alike if telling else own)):
            return True
        return False if own else None


def _near(one: Array, other: Array, limit: float) -> bool:
    """Whether two tensors hold the same, up to a limit; NaN is the same as NaN, and so are what
    masks hold."""
    with np.errstate(invalid="ignore"):
        near = np.abs(one - other) <= limit
        masked = np.minimum(np.abs(one), np.abs(other)) >= SENTINEL
        masked &= np.sign(one) == np.sign(other)
    return bool((near | masked | (np.isnan(one) & np.isnan(other))).all())


def _within(node: str, module: str) -> bool:
    """Whether a node is called after a module, or one in it."""
    return not module or node == module or node.startswith((f"{module}.", f"{module}/"))


def _parting_run(ran: Sequence[Part], module: str, found: _Found) -> list[Part]:
    """What parts, in order, of what a module calls in the first of its runs that does, itself the
    last."""
    start = 0
    for end, part in enumerate(ran):
        if part.name == module and not part.call:
            if found.agrees(part) is False:
                return [*_carrying(_fed(ran[start:end], part), part, found), part]
            start = end + 1
    return []


def _fed(calls: Sequence[Part], module: Part) -> list[Part]:
    """The calls that hang on a module's inputs, and its modules."""
    fed, kept = set(module.inputs), []
    for part in calls:
        if not part.call or fed.intersection(part.inputs):
            fed.update(part.outputs)
            kept.append(part)
    return kept


def _carrying(calls: Sequence[Part], module: Part, found: _Found) -> list[Part]:
    """The calls that part, and from which a difference is carried to what a module gives: through
    others that part, or of which nothing is known.

    What becomes of a module's outputs isn't seen where they go through other libraries."""
    carried, parted, read = set(module.outputs), list[Part](), set(module.outputs)
    for part in reversed(calls):
        given = set(part.outputs)
        reaches = given & carried or (not part.call and not given & read)
        agrees = found.agrees(part)
        if reaches and not agrees:
            carried.update(part.inputs)
            parted += [part] * (agrees is False)
        read.update(part.inputs)
    return parted[::-1]
