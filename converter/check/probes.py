"""Inputs beside the samples on which an artifact is held to its source.

A check is only as wide as its samples. So every artifact also runs on a batch whose rows differ,
on rows in another order, on other sizes of its free dimensions, and a second time on the same
input; in float32 on edges, too (:mod:`converter.check.edges`). The source is asked first: what it
refuses doesn't count.

Rows are mixes of samples, so that they are of the samples' kind: a share of one and a share of
another that is mirrored and shifted along its longest axis; of what isn't float, each element of
one of the two. They also tell how much an output varies (:mod:`converter.check.variation`), and in
a lower precision nothing else: a mix may be harder than any sample.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Final, Literal

import numpy as np

from converter.analysis.macs import macs_by_node
from converter.check.answers import Answers, Outputs
from converter.check.edges import edges, spoiling, wide
from converter.check.sums import Array, as_float, is_float
from converter.ir.indexed import entries_of
from converter.ir.missing import HANDLE_NAN
from converter.ir.model import BATCH, Model, TensorSpec
from converter.samples import Samples
from converter.verify.probes import UNNAMED, Feeds, sizes_of, windows_fit

BUDGET = 100_000_000_000
"""Multiply-adds that the source's runs and an artifact's may take together on all probes: about two
seconds of two cores in a framework."""

LEAST = 5 * BUDGET
"""The same for a batch of two, which is tried before all else."""

EACH = 1_000_000
"""What handing over an array comes to in multiply-adds: about 20 microseconds. A model of thousands
of inputs has thousands of edges."""

BYTES = 2**28
"""Of inputs and outputs of all probes together, which are held until they were compared; a batch of
two, which comes first, may have more."""

ROWS = 8
"""Rows that tell how much an output varies."""

EDGES_AT_ONCE = 8
"""Edges in one batch."""

AGAIN: Final = "again"
"""The kind of a second call, which the source is asked for by itself."""

Kind = Literal["mixes", "mix", "rows", "sizes", "edge", "wide", "again"]


@dataclass(frozen=True)
class Probe:
    """Inputs beside the samples.

    Attributes:
        name: For messages: ``mask all False``, ``a batch of 3``.
        kind: ``mixes`` of samples are a batch, a ``mix`` is alone, ``rows`` are samples as a batch,
            ``sizes`` are other sizes, an ``edge`` may be one or a batch of several, ``wide`` are
            integers of more than 32 bits, ``again`` is a second call.
        feeds: Arrays by input name.
        rows: The names of a batch's rows.
        alone: The rows, each a batch of 1, which the source is asked where it refuses the batch.
        instead: What is tried where the source refuses it.
        alike: Of NaN, pairs of feeds for which the source has to give the same, or it doesn't
            handle NaN on purpose: how an operator takes NaN is nobody's promise.
        macs: Multiply-adds of a run, about.
    """

    name: str
    kind: Kind
    feeds: Feeds
    rows: tuple[str, ...] = ()
    alone: tuple[Feeds, ...] = ()
    instead: tuple[Probe, ...] = ()
    alike: tuple[tuple[Feeds, Feeds], ...] = ()
    macs: int = 0


@dataclass(frozen=True)
class Probes:
    """The probes of a model.

    Attributes:
        items: Those that are tried.
        macs: Multiply-adds of a run on the first sample.
        left_out: The names of those that the budget has no room for.
    """

    items: tuple[Probe, ...] = ()
    macs: int = 0
    left_out: tuple[str, ...] = ()

    def answered(
        self, answers: Answers, outputs: Sequence[TensorSpec]
    ) -> Iterator[tuple[Probe, Outputs]]:
        """The probes that the source takes, each with what it gives; ``outputs`` are the model's.

        Rows that the source doesn't take as a batch, a batch of an artifact has to answer as the
        source does alone.
        """
        for probe in self.items:
            yield from _answered(probe, answers, outputs)


def _answered(
    probe: Probe, answers: Answers, outputs: Sequence[TensorSpec]
) -> Iterator[tuple[Probe, Outputs]]:
    given = answers.given(probe.feeds, AGAIN if probe.kind == AGAIN else "")
    if given is None and probe.alone:
        rows = [found for row in probe.alone if (found := answers.given(row)) is not None]
        given = _joined(rows, outputs) if len(rows) == len(probe.alone) else None
    if given is not None:
        if all(_same(answers.given(one), answers.given(other)) for one, other in probe.alike):
            yield probe, given
        return
    for other in probe.instead:
        yield from _answered(other, answers, outputs)


def _same(one: Outputs | None, other: Outputs | None) -> bool:
    """Whether outputs are the same to rounding, and finite."""
    return (one is not None and other is not None) and all(
        np.shape(array) == np.shape(other[name])
        and np.allclose(as_float(array), as_float(np.asarray(other[name])), rtol=1e-4)
        if is_float(array.dtype)
        else np.array_equal(array, other[name])
        for name, array in one.items()
    )


def _joined(rows: Sequence[Outputs], specs: Sequence[TensorSpec]) -> Outputs | None:
    """Rows' outputs as a batch's; None where one has no batch, or their shapes differ."""
    axes = _batch_axes(specs)
    names = list(rows[0])
    alike = len({tuple(row[name].shape for name in names) for row in rows}) == 1
    if not alike or not all(name in axes for name in names):
        return None
    return {name: np.concatenate([row[name] for row in rows], axes[name]) for name in names}


def _batch_axes(specs: Sequence[TensorSpec]) -> dict[str, int]:
    return {s.name: s.shape.index(BATCH) for s in specs if s.shape and BATCH in s.shape}


@dataclass
class Builder:
    """Makes the probes of a model.

    Args:
        specs: Its inputs.
        samples: At least one.
        exact: Whether edges are probes: a lower precision answers for what its samples hold.
        seed: Of mixes.
        macs: Multiply-adds of one run on the first sample.
        size: Bytes of its inputs and outputs.
        entries: How many entries inputs that are indices choose from.
        defined: Whether the model is defined at the sizes of some feeds.
        handles_nan: Whether the graph has operators that are there for NaN or infinity.
    """

    specs: Sequence[TensorSpec]
    samples: Samples
    exact: bool = True
    seed: int = 0
    macs: int = 0
    size: int = 0
    entries: Mapping[str, int] = field(default_factory=dict)
    defined: Callable[[Feeds], bool] = lambda feeds: True
    handles_nan: bool = False

    def __post_init__(self) -> None:
        self._first = [sample.feeds for sample in islice(self.samples, ROWS)]
        self.specs = [spec for spec in self.specs if spec.name in self._first[0]]
        self._axes = _batch_axes(self.specs)

    @classmethod
    def of(
        cls, model: Model, samples: Samples, *, exact: bool, seed: int, size: int = 0
    ) -> Builder:
        """For a model as it was read: its graph says what is an index, and what a run costs.

        Args:
            model: The graph.
            samples: At least one.
            exact: Whether edges are probes: a lower precision answers for what its samples hold.
            seed: Of mixes.
            size: Bytes of one run's inputs and outputs.
        """
        seen = next(iter(samples)).feeds
        macs = sum(macs_by_node(model, sizes_of(model.inputs, seen)).values())
        handles = any(node.op_type in HANDLE_NAN for node in model.nodes())
        entries = entries_of(model.graph.graph)
        defined = partial(windows_fit, model)
        return cls(model.inputs, samples, exact, seed, macs, size, entries, defined, handles)

    def build(self, budget: int = BUDGET) -> Probes:
        """The most telling first, as many as the budget has room for."""
        numbers, left, room = _numbers(self._first[0]), budget, BYTES
        taken: list[Probe] = []
        left_out: list[str] = []
        for number, probe in enumerate(self._all(budget)):
            times = _numbers(probe.feeds) / numbers
            macs, size = int(self.macs * times), int(self.size * times)
            cost = 2 * (macs + EACH * len(probe.feeds)) if number else 2 * macs
            if cost <= (left if number else LEAST) and (size <= room or not number):
                taken.append(replace(probe, macs=macs))
                left, room = left - cost, room - size
            else:
                left_out.append(probe.name)
        return Probes(tuple(taken), self.macs, tuple(left_out))

    def _all(self, budget: int) -> Iterator[Probe]:
        seen = self._first[0]
        wanted = ROWS - len(self._first)
        if self._axes:
            wanted = max(wanted, 3)
            for cost, most in ((4 * self.macs, budget), (2 * self.size, BYTES)):
                wanted = max(2, min(wanted, most // cost)) if cost else wanted
            rows = list(islice(self._mixes(), wanted))
            yield self._batch("mixes", rows, f"a batch of {wanted}")
        else:
            for number, feeds in enumerate(islice(self._mixes(), wanted)):
                yield Probe(f"a mix of samples, {number + 1}", "mix", feeds)
        yield from self._sizes()
        if self.exact:
            yield from self._edges()
        if self._axes and len(self._alike()) > 1:
            turned = self._alike()[:5][::-1]
            yield self._batch("rows", turned, f"{len(turned)} samples in another order")
        yield Probe("a second call", AGAIN, seen)

    # -- rows ------------------------------------------------------------------------

    def _alike(self) -> list[Feeds]:
        """The samples that are of the first one's sizes, and the same where there is no batch."""
        seen = self._first[0]
        return [
            feeds
            for feeds in self._first
            if all(
                feeds[name].shape == array.shape
                and (name in self._axes or not self._axes or np.array_equal(feeds[name], array))
                for name, array in seen.items()
            )
        ]

    def _batch(self, kind: Kind, rows: Sequence[Feeds], name: str) -> Probe:
        names = tuple(f"row {number + 1}" for number in range(len(rows)))
        return Probe(name, kind, self._stacked(rows), names, tuple(rows))

    def _stacked(self, rows: Sequence[Feeds]) -> Feeds:
        return {
            name: np.concatenate([row[name] for row in rows], self._axes[name])
            if name in self._axes
            else array
            for name, array in rows[0].items()
        }

    def _mixes(self) -> Iterator[Feeds]:
        """Rows between samples, seeded."""
        alike = self._alike()
        generator = np.random.default_rng([self.seed, 2_000_000])
        number = 0
        while True:
            one, other = alike[number % len(alike)], alike[(number + 1) % len(alike)]
            number += 1
            yield {
                name: _mixed(array, other[name], number, generator)
                if name in self._axes or not self._axes
                else array
                for name, array in one.items()
            }

    # -- sizes -----------------------------------------------------------------------

    def _sizes(self) -> Iterator[Probe]:
        """Free dimensions odd, each another way; halved; and doubled."""
        free = {dim for spec in self.specs for dim in spec.shape or () if isinstance(dim, str)}
        free -= {BATCH, UNNAMED}
        if not free:
            return
        seen = self._first[0]
        order = {name: at for at, name in enumerate(sorted(free))}
        sizes: tuple[tuple[str, Callable[[str, int], int]], ...] = (
            ("odd", lambda name, size: size + 1 + size % 2 + 2 * order[name]),
            ("smaller", lambda _, size: max(1, size // 2)),
            ("larger", lambda _, size: 2 * size),
        )
        for name, size_of in sizes:
            feeds = self._resized(seen, size_of)
            if self.defined(feeds):
                yield Probe(f"other sizes, {name}", "sizes", feeds)

    def _resized(self, seen: Feeds, size_of: Callable[[str, int], int]) -> Feeds:
        """The feeds with free dimensions cut off, or begun anew where they end."""
        feeds = dict(seen)
        for spec in self.specs:
            for axis, dim in enumerate(spec.shape or ()):
                if isinstance(dim, str) and dim not in (BATCH, UNNAMED):
                    array = feeds[spec.name]
                    size = array.shape[axis]
                    if size:
                        count = size_of(dim, size)
                        feeds[spec.name] = np.take(array, np.arange(count) % size, axis=axis)
        return feeds

    # -- edges -----------------------------------------------------------------------

    def _edges(self) -> Iterator[Probe]:
        """Edges as rows of batches where the model takes them, else one by one."""
        seen, made_up = self._first[0], self.samples.random
        together: list[Probe] = []
        for name, feeds in edges(self.specs, seen, self.entries, made_up=made_up):
            probe = Probe(name, "edge", feeds)
            changed = [key for key, array in feeds.items() if array is not seen[key]]
            if self._axes and all(key in self._axes for key in changed):
                together.append(probe)
            else:
                yield probe
        for at in range(0, len(together), EDGES_AT_ONCE):
            part = together[at : at + EDGES_AT_ONCE]
            rows = tuple(probe.name for probe in part)
            feeds = self._stacked([probe.feeds for probe in part])
            yield Probe(f"edges ({', '.join(rows)})", "edge", feeds, rows, instead=tuple(part))
        for name, feeds, alike in spoiling(self.specs, seen):
            if self.handles_nan or alike:
                yield Probe(name, "edge", feeds, alike=() if self.handles_nan else alike)
        for name, feeds in wide(self.specs, seen):
            yield Probe(name, "wide", feeds)


def _mixed(one: Array, other: Array, number: int, generator: np.random.Generator) -> Array:
    if other.ndim:
        axis = int(np.argmax(other.shape))
        other = np.roll(np.flip(other, axis), number * max(1, other.shape[axis] // 8), axis)
    if is_float(one.dtype) and one.dtype.kind == "f":
        share = generator.uniform(0.2, 0.8)
        return (share * one + (1 - share) * other).astype(one.dtype)
    return np.where(generator.random(one.shape) < 0.5, one, other).astype(one.dtype)


def _numbers(feeds: Mapping[str, Array]) -> int:
    return sum(array.size for array in feeds.values()) or 1


def rows_of(
    outputs: Mapping[str, Array], specs: Sequence[TensorSpec], count: int
) -> list[dict[str, Array]]:
    """A batch's outputs row by row, each a batch of 1.

    Args:
        outputs: Arrays by name, of a batch of ``count``.
        specs: The outputs' specs, which say where the batch axis is.
        count: The rows.

    Returns:
        ``count`` mappings, without the outputs that have no batch.
    """
    whole = {
        name: axis
        for name, axis in _batch_axes(specs).items()
        if name in outputs and outputs[name].ndim > axis and outputs[name].shape[axis] == count
    }
    return [
        {name: np.take(outputs[name], [row], axis) for name, axis in whole.items()}
        for row in range(count)
    ]


def takes(specs: Sequence[TensorSpec], feeds: Mapping[str, Array]) -> bool:
    """Whether an interface allows feeds of these sizes."""
    return all(
        spec.shape is None
        or spec.name not in feeds
        or all(
            not isinstance(dim, int) or dim == size
            for dim, size in zip(spec.shape, feeds[spec.name].shape, strict=False)
        )
        for spec in specs
    )
