"""One of the two models: its tensors in order, what each is made from, and its runs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import onnx_ir

from converter.analysis.intermediate_outputs import fed_tensors, open_tapped, reads
from converter.check.feeding import typed
from converter.errors import ModelyardError
from converter.ir.model import Model
from converter.runtime.ort import OrtSession
from converter.samples import Sample

Array = np.ndarray[Any, Any]


class Side:
    """A model to compare.

    Args:
        name: What messages call it.
        model: Its main graph is looked at; what subgraphs hold inside is not.
        feeding: Its inputs' names by those that samples have; None for the same.

    Attributes:
        name, model: As given.
        feeding: As given, or each input's name by itself.
    """

    def __init__(self, name: str, model: Model, feeding: Mapping[str, str] | None = None) -> None:
        self.name = name
        self.model = model
        self.feeding = dict(feeding or {spec.name: spec.name for spec in model.inputs})
        self._specs = {spec.name: spec for spec in model.inputs}

    @cached_property
    def values(self) -> dict[str, onnx_ir.Value]:
        """The tensors computed from inputs, by name, in the order of their nodes."""
        return {value.name or "": value for value in fed_tensors(self.model.graph)}

    @cached_property
    def place(self) -> dict[str, int]:
        """The number of each tensor's node in the graph's order."""
        order = {node: number for number, node in enumerate(self.model.graph.graph)}
        return {name: order[self.producer(name)] for name in self.values}

    @cached_property
    def parents(self) -> dict[str, list[str]]:
        """For each tensor, those that its node reads."""
        known = self.values
        read = {name: [v.name or "" for v in reads(self.producer(name))] for name in known}
        return {
            name: list(dict.fromkeys(item for item in items if item in known))
            for name, items in read.items()
        }

    @cached_property
    def children(self) -> dict[str, list[str]]:
        """For each tensor, those whose nodes read it."""
        found: dict[str, list[str]] = {name: [] for name in self.values}
        for name, parents in self.parents.items():
            for parent in parents:
                found[parent].append(name)
        return found

    @cached_property
    def read_by(self) -> dict[str, list[str]]:
        """For each tensor, weight or input, the tensors whose nodes read it themselves."""
        found: dict[str, list[str]] = {}
        for name in self.values:
            for value in dict.fromkeys(self.producer(name).inputs):
                if value is not None:
                    found.setdefault(value.name or "", []).append(name)
        return found

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        """The names of the graph's outputs."""
        return tuple(value.name or "" for value in self.model.graph.graph.outputs)

    def producer(self, name: str) -> onnx_ir.Node:
        """The node that computes a tensor."""
        node = self.values[name].producer()
        assert node is not None
        return node

    def nearest(
        self, start: str, known: Collection[str], links: Mapping[str, list[str]]
    ) -> tuple[list[str], list[str]]:
        """The nearest known tensors from a tensor on.

        Args:
            start: The tensor.
            known: Tensors at which the way ends.
            links: For each tensor, the next ones: what it is made from, or what is made of it.

        Returns:
            Those tensors, and the tensors between, both in the graph's order.
        """
        found, between, todo = set[str](), set[str](), [start]
        while todo:
            for name in links[todo.pop()]:
                if name in known:
                    found.add(name)
                elif name not in between:
                    between.add(name)
                    todo.append(name)
        order = self.place
        return sorted(found, key=order.__getitem__), sorted(between, key=order.__getitem__)

    def frontiers(self, known: Collection[str], largest: int) -> dict[int, tuple[str, ...]]:
        """The places where the graph can be cut: between two nodes, all that flows across is in
        ``known``, at most ``largest`` tensors. By the number of the node before the cut."""
        last = dict.fromkeys(self.values, 0)
        for name, parents in self.parents.items():
            for parent in parents:
                last[parent] = max(last[parent], self.place[name])
        ends = len(self.model.graph.graph)
        last.update({name: ends for name in self.outputs if name in last})
        starting: dict[int, list[str]] = {}
        for name, place in self.place.items():
            starting.setdefault(place, []).append(name)
        found, flowing = {}, dict[str, None]()
        for place in sorted(starting):
            flowing = {n: None for n in (*flowing, *starting[place]) if last[n] > place}
            if 0 < len(flowing) <= largest and all(name in known for name in flowing):
                found[place] = tuple(flowing)
        return found

    def run(self, names: Sequence[str], samples: Sequence[Sample]) -> Iterator[dict[str, Array]]:
        """The tensors ``names`` on each sample."""
        session = self._open(names)
        try:
            for sample in samples:
                try:
                    yield session.run(self._feeds(sample))
                except ModelyardError as error:
                    error.message = f"{self.name} on the sample {sample.name}: {error.message}"
                    raise
        finally:
            session.close()

    def _open(self, names: Sequence[str]) -> OrtSession:
        try:
            return open_tapped(self.model.graph, names)
        except ModelyardError as error:
            error.message = f"{self.name}: {error.message}"
            raise

    def _feeds(self, sample: Sample) -> dict[str, Array]:
        feeds = {self.feeding[name]: array for name, array in sample.feeds.items()}
        return {name: typed(array, self._specs[name]) for name, array in feeds.items()}
