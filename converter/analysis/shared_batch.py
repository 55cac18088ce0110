"""Which inputs share a batch, where nobody said which of their dimensions it is.

A first dimension that is free is taken for the batch, and in all inputs for the same one. A list of
ids beside the ends of its rows, say, are no samples:

    Given:   ids: [batch], ends: [batch]     y: the mean of each row
    Result:  ids: [ids_dim0], ends: [ends_dim0]

1. Sizes that operators ask to be one are one: those inputs go together.
2. Where several are left, or all have one axis, the model is run: a batch of two has to give what
   two samples give alone. If it doesn't, and the model runs at sizes that differ, they share none;
   those are the batch that hold by themselves.
3. What doesn't run on made-up values tells nothing. Then those of one axis that no operator asks
   to be of another input's size have their own; all else stays as it was taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from converter.analysis.batch import Array, compare
from converter.errors import ModelError, ModelyardError
from converter.ir.equal_sizes import EqualSizes
from converter.ir.inference import infer
from converter.ir.model import BATCH, Model, TensorSpec, dtype_from_name
from converter.ir.symbols import free_inputs, set_dimension, symbols_of
from converter.runtime.ort import OrtSession

_FREE = 8
"""The size of another dimension that is free, where the user gave none."""

Feeds = dict[str, Array]
Group = tuple[str, ...]
"""Inputs whose first dimensions are one size, by name."""


def own_sizes(
    model: Model, taken: Mapping[str, str | None], sizes: Mapping[str, int]
) -> dict[str, str]:
    """What first dimensions are called that are no batch, by the input's name; empty where the
    batch holds, or nothing tells.

    Args:
        model: Its inputs begin with :data:`BATCH` where that was declared or taken.
        taken: By the names of the inputs of which it was taken, what the dimension was called
            before: those of one name are one.
        sizes: Of other free dimensions, as the user gave them.
    """
    batched = [spec for spec in model.inputs if spec.has_batch]
    if not any(spec.name in taken for spec in batched):
        return {}
    wide = {spec.name for spec in batched if spec.rank != 1 or spec.name not in taken}
    groups: Sequence[Group] = [(batched[0].name,)]
    if len(batched) > 1:
        groups = _groups(model, [spec.name for spec in batched], taken)
    if len(groups) == 1 and wide:
        return {}
    try:
        kept = _Trial(model, sizes).batch(groups)
    except ModelyardError:
        sure = [group for group in groups if len(groups) == 1 or wide & {*group}]
        kept = tuple(name for group in sure for name in group)
    return {
        name: f"{group[0]}_dim0"
        for group in groups
        for name in group
        if name not in kept and name in taken
    }


def told(names: Mapping[str, str]) -> str:
    """What the user should know of them."""
    listed = ", ".join(f"{name} [{size}, ...]" for name, size in names.items())
    return (
        f"Modelyard doesn't take the first dimensions of {listed} as a batch; --input "
        "NAME:batchx... declares one"
    )


def set_apart(model: Model, names: Mapping[str, str]) -> None:
    """Calls first dimensions of inputs so, in place; what follows from them is left open."""
    if not names:
        return
    for value in free_inputs(model.graph):
        if (name := value.name or "") in names:
            set_dimension(value, 0, names[name])
    _leave_open(model)


def _leave_open(model: Model) -> None:
    """Leaves open what isn't known without the batch: it may stand in outputs and inner values."""
    for value in model.graph.graph.outputs:
        for axis, name in symbols_of(value):
            if name == BATCH:
                set_dimension(value, axis, None)
    for graph in model.graph.graphs():
        for node in graph:
            for value in node.outputs:
                if not value.is_graph_output():
                    value.shape = None


def _groups(model: Model, names: Sequence[str], taken: Mapping[str, str | None]) -> list[Group]:
    """The inputs, those together whose first dimensions operators ask to be one size; so are all
    of which a batch was declared."""
    known = {name: taken[name] or name for name in names if name in taken}
    of = {name: f"first of {known.get(name, '')}" for name in names}
    trial = model.copy()
    while tied := _tied(trial, of):
        for one, other in tied:
            of = {name: one if symbol == other else symbol for name, symbol in of.items()}
    return [tuple(n for n in names if of[n] == symbol) for symbol in dict.fromkeys(of.values())]


def _tied(trial: Model, of: Mapping[str, str]) -> list[tuple[str, str]]:
    """Pairs of these symbols, the first dimensions' by input, that operators ask to be one."""
    for value in free_inputs(trial.graph):
        if (name := value.name or "") in of:
            set_dimension(value, 0, of[name])
    for value, known in infer(trial.graph, made_up=True).items():
        value.shape = known.shape
    pairs = EqualSizes(trial.graph).tied(trial.graph)
    return [pair for pair in dict.fromkeys(pairs) if {*pair} <= {*of.values()}]


class _Trial:
    """The model in ONNX Runtime, its outputs' dimensions open.

    Args:
        model: Stays as it is.
        sizes: Of free dimensions that aren't the batch.

    Raises:
        ModelError: It can't be loaded.
    """

    def __init__(self, model: Model, sizes: Mapping[str, int]) -> None:
        self._model = model.copy()
        _leave_open(self._model)
        self._sizes = sizes
        self._session = OrtSession(self._model.graph, plain=True)

    def batch(self, groups: Sequence[Group]) -> Group:
        """The inputs whose batch holds: all, those of one group, or none.

        Raises:
            ModelError: It doesn't run, or not where the groups' sizes differ.
        """
        everyone = tuple(name for group in groups for name in group)
        if self._holds(everyone):
            return everyone
        self._session.run(self._feeds({n: 2 + i for i, g in enumerate(groups) for n in g}))
        alone = groups if len(groups) > 1 else ()
        return next((group for group in alone if self._holds(group)), ())

    def _holds(self, members: Group) -> bool:
        """Whether two samples give together what they give alone, in an output at least."""
        one = {spec.name: 1 if spec.name in members else 2 for spec in self._model.inputs}
        first, second = self._feeds(one), self._feeds(one, 1)
        both = {
            name: np.concatenate([array, second[name]]) if name in members else array
            for name, array in first.items()
        }
        second = {name: second[name] if name in members else first[name] for name in second}
        alone = [self._session.run(feeds) for feeds in (first, second)]
        try:
            found = compare(self._model, alone, self._session.run(both))
        except ModelError:
            return False
        return found.works_at_2 and len(found.skipped) < len(self._model.outputs)

    def _feeds(self, firsts: Mapping[str, int], number: int = 0) -> Feeds:
        """A sample by its number: noise, and integers that are it; ``firsts`` are the sizes of
        first dimensions."""
        rng = np.random.default_rng(number)
        return {spec.name: self._array(spec, firsts.get(spec.name, 1), number, rng)
                for spec in self._model.inputs}  # fmt: skip

    def _array(self, spec: TensorSpec, first: int, number: int, rng: np.random.Generator) -> Array:
        shape = [self._sizes.get(d, _FREE) if isinstance(d, str) else d for d in spec.shape or ()]
        shape[:1] = [first] if spec.has_batch else shape[:1]
        if spec.dtype == "string":
            return np.full(shape, str(number), object)
        noise = rng.standard_normal(shape) if spec.is_float else np.full(shape, number)
        return np.asarray(noise).astype(dtype_from_name(spec.dtype).numpy())
