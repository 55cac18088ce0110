"""Where a model can be cut in two: few tensors lead from the one part to the other."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import onnx_ir

from converter.analysis.intermediate_outputs import reads
from converter.analysis.macs import node_macs, shapes_at
from converter.ir.edit import static_shape
from converter.ir.model import BATCH, Model

_UNABLE = (None, onnx_ir.DataType.STRING, onnx_ir.DataType.UNDEFINED)
"""Types of which nothing says how many bytes they take."""


@dataclass(frozen=True)
class Cut:
    """A way to cut a model in two.

    Attributes:
        tensors: What leads from the first part to the second; inputs that the second reads, too.
        shapes: Of each.
        bytes: Of these, of one sample.
        before: Share of the multiply-adds in the first part; of the nodes, where the model has
            none that are counted.
        node: The node that gives the last of them, by its name in the source, and its operator.
    """

    tensors: tuple[str, ...]
    shapes: tuple[tuple[int | str, ...], ...]
    bytes: int
    before: float
    node: str

    @property
    def after(self) -> float:
        """Share of the multiply-adds in the second part."""
        return 1 - self.before


class Cuts:
    """The cuts of a model.

    For each tensor that is computed from the inputs there is one: all that it needs is the first
    part. For each node there is another: that, and what stands before it. Between these and the
    rest lead the tensors that are made in the first part, or are inputs, and are read in the
    second, or are outputs.

    Args:
        model: Simplified.
        sizes: Of free dimensions; 1 for those it lacks.
        most: Tensors that may lead from one part to the other.
    """

    def __init__(self, model: Model, sizes: Mapping[str, int], most: int = 1) -> None:
        self._model, self._most = model, most
        self._shapes = _shapes(model, {BATCH: 1, **sizes})
        self._twice = _shapes(model, {**sizes, BATCH: 2}) if BATCH in model.symbols else {}
        graph = model.graph.graph
        self._fed: dict[onnx_ir.Value, int] = {  # where each is made; -1 for inputs
            value: -1 for value in graph.inputs if value.name not in graph.initializers
        }
        self._nodes: list[onnx_ir.Node] = []
        self._needs: list[int] = []
        self._read: dict[onnx_ir.Value, int] = dict.fromkeys(self._fed, 0)
        self._scan(graph)
        counts = node_macs(model, sizes)
        work = [counts.get(node) or 0 for node in self._nodes]
        self._work = work if any(work) else [1] * len(work)
        self._whole = sum(self._work)

    def _scan(self, graph: onnx_ir.Graph) -> None:
        """For each node that the inputs lead to, those that it needs, itself too; for each value
        the nodes that read it. Both are sets of bits."""
        for node in graph:
            known = [value for value in reads(node) if value in self._fed]
            if not known:
                continue
            number = len(self._nodes)
            needs = 1 << number
            for value in known:
                self._read[value] |= 1 << number
                if self._fed[value] >= 0:
                    needs |= self._needs[self._fed[value]]
            self._nodes.append(node)
            self._needs.append(needs)
            for value in node.outputs:
                self._fed[value], self._read[value] = number, 0
        for value in graph.outputs:
            if value in self._fed:
                self._read[value] |= 1 << len(self._nodes)

    def all(self) -> list[Cut]:
        """Those that leave work on each side, the first part growing; of one set of tensors one."""
        found: dict[tuple[str, ...], Cut] = {}
        for before in self._sets():
            cut = self._cut(before)
            if cut is not None and 0 < cut.before < 1:
                found.setdefault(cut.tensors, cut)
        return sorted(found.values(), key=lambda cut: (cut.before, cut.bytes))

    def at(self, tensor: str) -> tuple[Cut | None, list[str]]:
        """The cut at a tensor, by its name or its node's; None where no tensors' number is small
        enough, and all that would lead over."""
        for number, node in enumerate(self._nodes):
            if tensor == node.name or tensor in (value.name for value in node.outputs):
                leads = self._leading(self._needs[number], len(self._fed))
                return self._cut(self._needs[number]), [value.name or "" for value in leads]
        return None, []

    @property
    def names(self) -> list[str]:
        """Every tensor that there is."""
        return [value.name or "" for value in self._fed if self._fed[value] >= 0]

    def _sets(self) -> Iterator[int]:
        for number, needs in enumerate(self._needs):
            yield needs
            yield (1 << (number + 1)) - 1

    def _leading(self, before: int, most: int) -> list[onnx_ir.Value]:
        """The tensors that lead out of a set of nodes, at most one more than ``most``."""
        found = []
        for value, made in self._fed.items():
            inside = made < 0 or before >> made & 1
            if inside and self._read[value] & ~before:
                found.append(value)
                if len(found) > most:
                    break
        return found

    def _cut(self, before: int) -> Cut | None:
        leads = self._leading(before, self._most)
        if len(leads) > self._most or all(self._fed[value] < 0 for value in leads):
            return None
        shapes = [self._shape(value) for value in leads]
        if None in shapes or any(value.dtype in _UNABLE for value in leads):
            return None
        work = sum(count for number, count in enumerate(self._work) if before >> number & 1)
        last = self._nodes[max(self._fed[value] for value in leads)]
        return Cut(
            tuple(value.name or "" for value in leads),
            tuple(shape for shape in shapes if shape is not None),
            sum(map(self._bytes, leads)),
            work / self._whole,
            f"{last.name} ({last.op_type})",
        )

    def _bytes(self, value: onnx_ir.Value) -> int:
        """Of one sample."""
        assert value.dtype is not None
        return math.ceil(math.prod(self._shapes[value.name or ""]) * value.dtype.itemsize)

    def _shape(self, value: onnx_ir.Value) -> tuple[int | str, ...] | None:
        """A number or a symbol for each dimension; None where the rank isn't known.

        What inference gives no symbol is the batch where it is 1 with a batch of 1 and 2 with one
        of 2; it is fixed where nothing but the batch is free; else it is free itself.
        """
        once = self._shapes.get(value.name or "")
        if once is None:
            return None
        twice = self._twice.get(value.name or "", once)
        said = static_shape(value) or [None] * len(once)
        alone = {*self._model.symbols} <= {BATCH}
        found: list[int | str] = []
        for dim, one, two in zip(said, once, twice, strict=True):
            free = BATCH if (one, two) == (1, 2) else f"d{len(found)}_{value.name}"
            known = one if alone and one == two else re.sub(r"\W+", "_", free, flags=re.ASCII)
            named = isinstance(dim, int) or (dim and re.fullmatch(r"\w+", dim))
            found.append(dim if named and dim is not None else known)
        return tuple(found)


def _shapes(model: Model, sizes: Mapping[str, int]) -> Mapping[str, tuple[int, ...]]:
    """The shapes of tensors by name, also where the graph computes sizes."""
    found = shapes_at(model, sizes)
    if any(value.name not in found for node in model.graph.graph for value in node.outputs):
        found = {**found, **shapes_at(model, sizes, fold=True)}
    return found


def front(cuts: Sequence[Cut]) -> list[Cut]:
    """Those that no other beats: each is smaller than all that need less work before them."""
    found: list[Cut] = []
    for cut in cuts:
        if not found or cut.bytes < found[-1].bytes:
            found.append(cut)
    return found


def smallest(cuts: Collection[Cut], most: float) -> Cut | None:
    """The cut of the fewest bytes with at most that share of the work before it."""
    able = [cut for cut in cuts if cut.before <= most]
    return min(able, key=lambda cut: (cut.bytes, cut.before), default=None)
