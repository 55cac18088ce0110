"""Inputs that tell a right rewrite from a wrong one: a few real ones, and edges.

Random inputs hide what edges show: a pass that drops the ``+ 1e-10`` before a Log is only
found out by silence, one that drops a Clip by a large value, one that takes ``* 1.00001`` for
nothing by none of them but a tight tolerance.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

import numpy as np

from converter.errors import UsageError
from converter.ir import BATCH, Model, TensorSpec, dtype_from_name
from converter.samples import Sample, Samples

Array = np.ndarray[Any, Any]
Feeds = dict[str, Array]
Edge = Callable[[TensorSpec, Array], Array]

UNNAMED = "?"
"""What a free dimension without a name is called; no two need to be the same size."""

TINY = 1e-6
"""Below the tolerances with which rewriters compare, above what float16 flushes to zero."""

LARGE = 1e4
"""Beyond any Clip, and where exp overflows; float16 still holds it. Signs alternate."""


@dataclass(frozen=True)
class Probe:
    """One set of inputs to compare two models on.

    Attributes:
        name: For messages: ``sample cat.png``, ``zeros``, ``large values``.
        kind: A ``sample`` must run; an ``edge`` may be refused by the original model.
        feeds: Arrays by input name.
    """

    name: str
    kind: Literal["sample", "edge"]
    feeds: Feeds


def build_probes(
    model: Model, samples: Samples | None, sizes: Mapping[str, int], limit: int = 4
) -> list[Probe]:
    """Probes for ``model``, most telling first.

    1. The first sample alone; where the model takes batches, the next ones (up to ``limit`` in
       all) together as one batch, else each alone. A single sample makes a batch with zeros.
    2. Float inputs all zero, all tiny, all -1, large with alternating signs, all 1; the other
       inputs are the first sample's, since a model may refuse what isn't an index or a rate.
    3. Integer and bool inputs all 0 and strings empty, then all 1; floats are the sample's.
    4. Free dimensions at other sizes than the samples': half, or 2 for 1. A rewrite that took
       the samples' size for the only one shows here. First all but the batch, then the batch
       where it can't be made by putting samples together.
    5. Without samples, seeded normal noise (kind ``edge``).

    Args:
        model: Its inputs say names, types and shapes.
        samples: Where they have a shape, edges have it too.
        sizes: A number for each symbol, for when there are no samples; the batch is 1.
        limit: Most samples to use.

    Raises:
        UsageError: There are no samples and a symbol has no size, or a rank is unknown.
    """
    first = list(islice(samples, limit)) if samples is not None else []
    seen = first[0].feeds if first else _made_up(model.inputs, {BATCH: 1, **sizes})
    probes = list(_sample_probes(model, first))
    if not first:
        probes.append(Probe("noise", "edge", seen))
    edges = edge_feeds(model.inputs, seen) | _other_sizes(model, seen)
    known = {contents(seen)}
    for name, feeds in edges.items():
        held = contents(feeds)
        if held not in known:
            known.add(held)
            probes.append(Probe(name, "edge", feeds))
    return probes


def edge_feeds(inputs: Sequence[TensorSpec], seen: Mapping[str, Array]) -> dict[str, Feeds]:
    """Edges by name, of the sizes of ``seen``."""
    return {
        name: {spec.name: edge(spec, seen[spec.name]) for spec in inputs}
        for name, edge in _EDGES.items()
    }


def _other_sizes(model: Model, seen: Feeds) -> dict[str, Feeds]:
    symbols = {dim for spec in model.inputs for dim in spec.shape or () if isinstance(dim, str)}
    free = symbols - {BATCH, UNNAMED}
    made = {"other sizes": _resized(model.inputs, seen, free)}
    if BATCH in symbols and not model.has_batch:
        made["another batch size"] = _resized(model.inputs, seen, {BATCH})
    return made


def _resized(inputs: Sequence[TensorSpec], seen: Feeds, symbols: Collection[str]) -> Feeds:
    """The feeds with these dimensions halved by leaving out their end, or repeated if 1."""
    feeds: Feeds = {}
    for spec in inputs:
        array = seen[spec.name]
        for axis, dim in enumerate(spec.shape or ()):
            if dim in symbols:
                size = array.shape[axis]
                kept = range(size // 2) if size > 1 else (0, 0)
                array = np.take(array, list(kept), axis=axis)
        feeds[spec.name] = array
    return feeds


def contents(feeds: Mapping[str, Array]) -> tuple[tuple[object, ...], ...]:
    """What feeds hold, to be compared."""
    return tuple(
        (name, a.shape, tuple(a.ravel()) if a.dtype.kind in "OUS" else a.tobytes())
        for name, a in feeds.items()
    )


def shaken(feeds: Mapping[str, Array]) -> Feeds:
    """The same inputs with every float off by up to 2**-22 of itself, seeded."""
    rng = np.random.default_rng(0)
    moved: Feeds = {}
    for name, array in feeds.items():
        if array.dtype.kind != "f":
            moved[name] = array
            continue
        noise = rng.uniform(-1, 1, array.shape) * 2.0**-22
        moved[name] = np.asarray(array * (1 + noise)).astype(array.dtype)
    return moved


def _sample_probes(model: Model, samples: Sequence[Sample]) -> Iterator[Probe]:
    if not samples:
        return
    head, *rest = samples
    yield Probe(f"sample {head.name}", "sample", head.feeds)
    blank = Sample("zeros", {name: np.zeros_like(array) for name, array in head.feeds.items()})
    together = [head, *(rest or [blank])] if len(rest) < 2 else rest
    stacked = _stack(together, model) if model.has_batch else None
    if stacked is not None:
        names = " and ".join(sample.name for sample in together)
        yield Probe(f"batch of {names}", "sample" if rest else "edge", stacked)
        return
    for sample in rest:
        yield Probe(f"sample {sample.name}", "sample", sample.feeds)


def _stack(samples: Sequence[Sample], model: Model) -> Feeds | None:
    """The samples as one batch; None where their shapes differ."""
    names = [spec.name for spec in model.inputs]
    shapes = {tuple(sample.feeds[name].shape for name in names) for sample in samples}
    if len(shapes) > 1:
        return None
    return {name: np.concatenate([s.feeds[name] for s in samples], axis=0) for name in names}


def _floats(value: float, *, alternate: bool = False) -> Edge:
    def edge(spec: TensorSpec, seen: Array) -> Array:
        if not spec.is_float:
            return seen
        filled = np.full(seen.shape, value, dtype=seen.dtype)
        if alternate:
            filled.reshape(-1)[1::2] *= -1
        return filled

    return edge


def _others(value: int) -> Edge:
    def edge(spec: TensorSpec, seen: Array) -> Array:
        if spec.is_float or (spec.dtype == "string" and value):
            return seen
        return np.full_like(seen, "" if spec.dtype == "string" else value)

    return edge


_EDGES: dict[str, Edge] = {
    "zeros": _floats(0.0),
    "tiny values": _floats(TINY),
    "minus ones": _floats(-1.0),
    "large values": _floats(LARGE, alternate=True),
    "ones": _floats(1.0),
    "integers of 0": _others(0),
    "integers of 1": _others(1),
}


def _made_up(inputs: Sequence[TensorSpec], sizes: Mapping[str, int]) -> Feeds:
    """Seeded noise: normal floats, zeros for everything else."""
    rng = np.random.default_rng(0)
    feeds: Feeds = {}
    for spec in inputs:
        if spec.shape is None:
            raise UsageError(f"input {spec.name} has no known rank, and there are no samples")
        try:
            shape = spec.sized(sizes)
        except KeyError as error:
            raise UsageError(
                f"input {spec.name} ({spec.describe()}): the size of {error.args[0]} isn't known",
                hint=f"Give samples, or --dim {error.args[0]}=SIZE.",
            ) from error
        if spec.dtype == "string":
            feeds[spec.name] = np.full(shape, "", dtype=object)
            continue
        dtype = dtype_from_name(spec.dtype).numpy()
        noise = rng.standard_normal(shape) if spec.is_float else np.zeros(shape)
        feeds[spec.name] = np.asarray(noise).astype(dtype)
    return feeds
