"""Inputs that tell a right rewrite from a wrong one: a few real ones, and edges.

Random inputs hide what edges show: a pass that drops the ``+ 1e-10`` before a Log is only
found out by silence, one that drops a Clip by a large value, one that takes ``* 1.00001`` for
nothing by none of them but a tight tolerance.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from operator import add, sub
from typing import Any, Literal

import numpy as np

from converter.analysis.macs import PLAIN_RATE, macs_by_node, shapes_at
from converter.errors import UsageError
from converter.ir.attributes import ints
from converter.ir.edit import is_op
from converter.ir.facts import POOLS
from converter.ir.model import BATCH, Model, TensorSpec, dtype_from_name
from converter.ir.refused import Refused
from converter.ir.windows import window_of
from converter.samples import Sample, Samples
from converter.text import words

Array = np.ndarray[Any, Any]
Feeds = dict[str, Array]
Edge = Callable[[TensorSpec, Array], Array]

UNNAMED = "?"
"""What a free dimension without a name is called; no two need to be the same size."""

TINY = 1e-6
"""Below the tolerances with which rewriters compare, above what float16 flushes to zero."""

LARGE = 1e4
"""Beyond any Clip, and where exp overflows; float16 still holds it. Signs alternate."""

LOUD = "large values"
"""How the names of probes of these begin."""

SIZES = ("other sizes", "another batch size")
"""Probes that are the first sample, at other sizes."""


@dataclass(frozen=True)
class Probe:
    """One set of inputs to compare two models on.

    Attributes:
        name: For messages: ``sample cat.png``, ``zeros``, ``large values``.
        kind: A ``sample`` must run; an ``edge`` may be refused by the original model.
        feeds: Arrays by input name.
        instead: What is tried where the original refuses it.
        macs: Multiply-adds of a run, as far as they can be counted.
    """

    name: str
    kind: Literal["sample", "edge"]
    feeds: Feeds
    instead: Probe | None = None
    macs: int = 0


BUDGET = 30_000_000_000
"""Multiply-adds that the runs of one model on all of its probes may take: two seconds of two cores.
A model that is over it gets the fewest probes that still tell (:func:`_fewest`)."""


def effort(probes: Sequence[Probe], models: int = 2) -> str:
    """How much it is to run so many models on probes, for people; how long, where it counts."""
    seconds = models * sum(probe.macs for probe in probes) / PLAIN_RATE
    about = f", about {words.seconds(seconds)}" if seconds >= 1 else ""
    return f"{models * len(probes)} runs{about}"


def build_probes(
    model: Model,
    samples: Samples | None,
    sizes: Mapping[str, int],
    limit: int = 4,
    budget: int = BUDGET,
) -> list[Probe]:
    """Probes for ``model``, most telling first.

    1. The first sample alone; where the model takes batches, the next ones (up to ``limit`` in
       all) together as one batch, else each alone. A single sample makes a batch with zeros.
    2. Float inputs all zero, all tiny, all -1, large with alternating signs, all 1; the other
       inputs are the first sample's, since a model may refuse what isn't an index or a rate.
    3. Integer and bool inputs all 0 and strings empty, then all 1; floats are the sample's.
    4. Free dimensions at other sizes than the samples': half, or one less or more. A rewrite that
       took the samples' size for the only one shows here. First all but the batch, then the batch
       where it can't be made by putting samples together.
    5. Without samples, seeded normal noise (kind ``edge``).

    Where that takes more than the budget, three of them hold what they can of the others.

    Args:
        model: Its inputs say names, types and shapes.
        samples: Where they have a shape, edges have it too.
        sizes: A number for each symbol, for when there are no samples; the batch is 1.
        limit: Most samples to use.
        budget: Most multiply-adds of all runs.

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
    counted = _counted(model, probes, seen)
    if sum(probe.macs for probe in counted) <= budget:
        return counted
    second = first[1].feeds if len(first) > 1 else seen
    return _counted(model, _fewest(model, counted[0], second), seen)


def _counted(model: Model, probes: Sequence[Probe], seen: Feeds) -> list[Probe]:
    """The probes with their multiply-adds: they grow with the inputs, about."""
    sizes = sizes_of(model.inputs, seen)
    macs, numbers = sum(macs_by_node(model, sizes).values()), _numbers(seen)
    return [replace(item, macs=macs * _numbers(item.feeds) // numbers) for item in probes]


def sizes_of(inputs: Sequence[TensorSpec], seen: Feeds) -> dict[str, int]:
    """The sizes of inputs' symbols in some feeds."""
    return {
        dim: size
        for spec in inputs
        for dim, size in zip(spec.shape or (), seen[spec.name].shape, strict=False)
        if isinstance(dim, str)
    }


def _numbers(feeds: Feeds) -> int:
    return sum(array.size for array in feeds.values()) or 1


def _fewest(model: Model, first: Probe, second: Feeds) -> list[Probe]:
    """Three probes: the first one; the second sample with stripes of constants, and silence, as a
    batch of two; large values, at other sizes. Beside silence integers are 0, beside large values
    1. Where the original refuses one, the same is tried with less of this.
    """
    specs, seen = model.inputs, first.feeds
    striped = {spec.name: _striped(spec, second[spec.name], model) for spec in specs}
    silent = _with(specs, second, "zeros")
    quiet: list[tuple[str, Feeds | None]] = [
        ("stripes of edges", _with(specs, striped, "integers of 0")),
        ("stripes of edges, integers as in the sample", striped),
    ]
    if model.has_batch:
        rows = [
            (striped, _with(specs, silent, "integers of 0")),
            (striped, silent),
            (second, second),
        ]
        names = (*(f"a batch of {name}, and zeros" for name, _ in quiet), "a batch of two")
        quiet = [(name, _stack(pair, model)) for name, pair in zip(names, rows, strict=True)]
    free = set(model.symbols) - {UNNAMED} - ({BATCH} if model.has_batch else set())
    least = _least_size(model)
    places = [(" at other sizes", _resized(specs, seen, free, least))] if free else []
    ways = [("", ["integers of 1"]), (", integers as in the sample", [])]
    loud = [
        (f"{LOUD}{where}{said}", _with(specs, feeds, LOUD, *integers))
        for where, feeds in (*places, ("", seen))
        for said, integers in ways
    ]
    return [first, *_first_of(quiet, seen), *_first_of(loud, seen)]


def _first_of(options: Sequence[tuple[str, Feeds | None]], seen: Feeds) -> list[Probe]:
    """One probe, the others to be tried instead, in order; none where nothing is new in them."""
    known = contents(seen)
    probe: Probe | None = None
    for name, feeds in reversed(options):
        if feeds is not None and contents(feeds) != known:
            if probe is not None and contents(feeds) == contents(probe.feeds):
                probe = probe.instead
            probe = Probe(name, "edge", feeds, probe)
    return [probe] if probe else []


def _striped(spec: TensorSpec, seen: Array, model: Model) -> Array:
    """Floats with constants in the first four fifths of their longest axis."""
    striped = seen.copy()
    sizes = [0 if at == 0 and model.has_batch else size for at, size in enumerate(seen.shape)]
    if spec.is_float and any(sizes):
        along = np.moveaxis(striped, int(np.argmax(sizes)), 0)
        for value, part in zip(_STRIPES, np.array_split(along, len(_STRIPES) + 1), strict=False):
            part[...] = value
    return striped


def _with(specs: Sequence[TensorSpec], feeds: Feeds, *edges: str) -> Feeds:
    """The feeds with edges put in."""
    for edge in edges:
        feeds = {spec.name: _EDGES[edge](spec, feeds[spec.name]) for spec in specs}
    return feeds


def edge_feeds(inputs: Sequence[TensorSpec], seen: Mapping[str, Array]) -> dict[str, Feeds]:
    """Edges by name, of the sizes of ``seen``."""
    return {
        name: {spec.name: edge(spec, seen[spec.name]) for spec in inputs}
        for name, edge in _EDGES.items()
    }


def _other_sizes(model: Model, seen: Feeds) -> dict[str, Feeds]:
    symbols = {dim for spec in model.inputs for dim in spec.shape or () if isinstance(dim, str)}
    free = symbols - {BATCH, UNNAMED}
    made = {SIZES[0]: _resized(model.inputs, seen, free, _least_size(model))}
    if BATCH in symbols and not model.has_batch:
        made[SIZES[1]] = _resized(model.inputs, seen, {BATCH})
    return made


def _least_size(model: Model) -> int:
    """The least size at which each pooling of an input has a window: ONNX Runtime refuses none, and
    gives what the operator doesn't say."""
    found = [1]
    for node in model.nodes():
        stated = not any(attribute.is_ref() for attribute in node.attributes.values())
        kernel = ints(node, "kernel_shape", ()) if is_op(node, *POOLS) and stated else []
        if not kernel:
            continue
        with suppress(Refused):  # negative padding
            window = window_of(node, [None] * len(kernel), kernel)
            found += map(sub, window.reach, map(add, window.before, window.after))
    return max(found)


def windows_fit(model: Model, feeds: Feeds) -> bool:
    """Whether every pooling of a model has a window of its input at these sizes, as far as that is
    known: elsewhere ONNX says nothing of what it gives, and runtimes give what they like."""
    pools = [node for node in model.nodes() if is_op(node, *POOLS)]
    pools = [node for node in pools if ints(node, "kernel_shape", ())]
    shapes = shapes_at(model, sizes_of(model.inputs, feeds)) if pools else {}
    for node in pools:
        shape = shapes.get((node.inputs[0] and node.inputs[0].name) or "")
        kernel = ints(node, "kernel_shape", ())
        if shape is None or len(shape) != len(kernel) + 2:
            continue
        with suppress(Refused):  # negative padding
            window = window_of(node, list(shape[2:]), kernel)
            sides = zip(shape[2:], window.before, window.after, window.reach, strict=True)
            if any(size + before + after < reach for size, before, after, reach in sides):
                return False
    return True


def _resized(
    inputs: Sequence[TensorSpec], seen: Feeds, symbols: Collection[str], least: int = 1
) -> Feeds:
    """The feeds with these dimensions halved by leaving out their end, or by 1 less or more where
    half is below the least."""
    feeds: Feeds = {}
    for spec in inputs:
        array = seen[spec.name]
        for axis, dim in enumerate(spec.shape or ()):
            if dim in symbols:
                size = array.shape[axis]
                count = next((n for n in (size // 2, size - 1) if n >= least), size + 1)
                array = np.take(array, np.arange(count) % size, axis=axis)
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
    stacked = _stack([sample.feeds for sample in together], model) if model.has_batch else None
    if stacked is not None:
        names = " and ".join(sample.name for sample in together)
        yield Probe(f"batch of {names}", "sample" if rest else "edge", stacked)
        return
    for sample in rest:
        yield Probe(f"sample {sample.name}", "sample", sample.feeds)


def _stack(rows: Sequence[Feeds], model: Model) -> Feeds | None:
    """Feeds as one batch; None where their shapes differ."""
    names = [spec.name for spec in model.inputs]
    if len({tuple(feeds[name].shape for name in names) for feeds in rows}) > 1:
        return None
    return {name: np.concatenate([feeds[name] for feeds in rows], axis=0) for name in names}


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
    LOUD: _floats(LARGE, alternate=True),
    "ones": _floats(1.0),
    "integers of 0": _others(0),
    "integers of 1": _others(1),
}


_STRIPES = (0.0, TINY, -1.0, 1.0)


def _made_up(inputs: Sequence[TensorSpec], sizes: Mapping[str, int]) -> Feeds:
    """Seeded noise: normal floats, zeros for everything else."""
    rng = np.random.default_rng(0)
    feeds: Feeds = {}
    for spec in inputs:
        if spec.shape is None:
            raise UsageError(
                f"input {spec.name} has no known rank, and there are no samples",
                code="size-unknown",
            )
        try:
            shape = spec.sized(sizes)
        except KeyError as error:
            raise UsageError(
                f"input {spec.name} ({spec.describe()}): the size of {error.args[0]} isn't known",
                code="size-unknown",
                hint=f"Give samples, or --dim {error.args[0]}=SIZE.",
            ) from error
        if spec.dtype == "string":
            feeds[spec.name] = np.full(shape, "", dtype=object)
            continue
        dtype = dtype_from_name(spec.dtype).numpy()
        noise = rng.standard_normal(shape) if spec.is_float else np.zeros(shape)
        feeds[spec.name] = np.asarray(noise).astype(dtype)
    return feeds
