"""Runs a model on samples and hands over what its inner tensors hold, a few at a time.

The tensors become outputs of a copy of the model, which ONNX Runtime runs. Where all of them
together are larger than a budget, the samples are run several times, each time for a part of
the tensors, so that memory depends on neither the number of samples nor the model's depth.

Tensors in bodies (If, Loop) can't be made outputs: each body is run as a model of its own, on what
it reads while the samples run. Those in a Scan aren't observed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import numpy as np
import onnx_ir

from converter.analysis.intermediate_outputs import fed_tensors, open_tapped
from converter.errors import ModelError, UsageError
from converter.ir.model import Model, spec_of
from converter.precision.body_samples import opened
from converter.precision.subgraphs import bodies, copy_of
from converter.runtime.ort import OrtSession
from converter.runtime.session import Progress
from converter.samples import Sample, Samples

Array = np.ndarray[Any, Any]
Observer = Callable[[Sample, str, Array], None]

BUDGET = 512_000_000
"""Bytes of tensors that are asked for in one run."""

_UNKNOWN = 4_000_000  # bytes assumed for a tensor whose size isn't known before it was seen


def observable(model: Model) -> list[str]:
    """Float tensors that depend on the model's inputs: those of the main graph in its order, then
    those of bodies that can be taken out."""
    graph = model.graph.graph
    given = [value for value in graph.inputs if value.name not in graph.initializers]
    specs = [spec_of(value) for value in [*given, *fed_tensors(model.graph)]]
    names = dict.fromkeys(spec.name for spec in specs if spec.is_float)
    for node, branch in bodies(graph):
        names |= dict.fromkeys(observable(copy_of(node, branch).model))
    return list(names)


def observe(
    model: Model,
    samples: Samples,
    names: Collection[str],
    observer: Observer,
    *,
    budget: int = BUDGET,
    progress: Progress | None = None,
    finite: bool = True,
) -> None:
    """Calls ``observer(sample, name, array)`` for every sample and every named tensor.

    Args:
        model: Left as it is.
        samples: Run one by one. Read again for each part of the tensors.
        names: Tensors of the main graph and of bodies; the latter are handed over each time that
            the body runs, and not at all where it doesn't.
        observer: The array is its own until it returns.
        budget: Bytes of tensors asked for in one run, at the first sample's size; a larger
            tensor runs alone.
        progress: Told which sample runs.
        finite: Whether the samples have to be.

    Raises:
        UsageError: A sample's float input holds NaN or Inf, and mustn't.
        ModelError: There is no such tensor, or ONNX Runtime fails.
    """
    first = next(iter(samples), None)
    if first is None or not names:
        return
    within = _observe_bodies(model, samples, set(names), observer, budget, progress)
    parts = _parts(_sizes(model, set(names) - within, first), budget)
    given = {spec.name for spec in model.inputs}
    for number, part in enumerate(parts):
        computed = [name for name in part if name not in given]
        session = open_tapped(model.graph, computed, plain=False) if computed else None
        try:
            for done, sample in enumerate(samples, 1):
                if progress:
                    progress(_told(done, len(samples), number, len(parts)))
                if finite:
                    require_finite(sample)
                values = dict(sample.feeds) | (_run(session, sample) if session else {})
                for name in part:
                    observer(sample, name, values.pop(name))
        finally:
            if session:
                session.close()


def _observe_bodies(
    model: Model,
    samples: Samples,
    names: Collection[str],
    observer: Observer,
    budget: int,
    progress: Progress | None,
) -> set[str]:
    """Observes the tensors in bodies; gives their names."""
    found = set()
    main = set(_values(model))
    for body, runs in opened(model, samples):
        inside = {name for name in _all_values(body.model) if name in names and name not in main}
        found |= inside
        observe(body.model, runs, inside, observer, budget=budget, progress=progress, finite=False)
    return found


def _values(model: Model) -> Iterator[str]:
    graph = model.graph.graph
    values = [*graph.inputs, *(value for node in graph for value in node.outputs)]
    yield from (value.name for value in values if value.name)


def _all_values(model: Model) -> Iterator[str]:
    """The tensors of the main graph and of the bodies that :func:`observe` looks into."""
    yield from _values(model)
    for node, branch in bodies(model.graph.graph):
        yield from _all_values(copy_of(node, branch).model)


def _run(session: OrtSession, sample: Sample) -> dict[str, Array]:
    try:
        return session.run_lent(sample.feeds)
    except ModelError as error:
        raise ModelError(
            f"running sample {sample.name}: {error.message}", code="runtime-failed"
        ) from error


def require_finite(sample: Sample) -> None:
    """Raises UsageError where a float input of the sample holds NaN or Inf."""
    for name, array in sample.feeds.items():
        if array.dtype.kind not in "biuOSU":
            bad = array.size - int(np.count_nonzero(np.isfinite(array)))
            if bad:
                raise UsageError(
                    f"sample {sample.name}: input {name} holds {bad} values that are NaN or Inf",
                    code="not-finite",
                    hint="The sample can't be used to measure ranges. Repair it or leave it out.",
                )


def _told(done: int, count: int, part: int, parts: int) -> str:
    text = f"sample {done} of {count}"
    return text if parts == 1 else f"{text}, tensors {part + 1} of {parts}"


def _sizes(model: Model, names: Collection[str], sample: Sample) -> dict[str, int]:
    """Bytes of each tensor on the sample, as far as declared shapes tell; in the graph's order."""
    symbols: dict[str, int] = {}
    for spec in model.inputs:
        for dim, size in zip(spec.shape or (), sample.feeds[spec.name].shape, strict=False):
            if isinstance(dim, str):
                symbols[dim] = size
    graph, wanted = model.graph.graph, set(names)
    values = [*graph.inputs, *(value for node in graph for value in node.outputs)]
    sizes = {value.name: _bytes(value, symbols) for value in values if value.name in wanted}
    missing = sorted(wanted - sizes.keys())
    if missing:
        raise ModelError(
            "measuring ranges: the main graph has no such tensors",
            code="runtime-failed",
            details=missing,
        )
    return sizes


def _bytes(value: onnx_ir.Value, symbols: Mapping[str, int]) -> int:
    spec = spec_of(value)
    width = value.dtype.itemsize if value.dtype else 4
    dims = [symbols.get(dim) if isinstance(dim, str) else dim for dim in spec.shape or ()]
    known = int(width * math.prod(dim for dim in dims if dim is not None))
    return known if spec.shape is not None and None not in dims else max(_UNKNOWN, known)


def _parts(sizes: Mapping[str, int], budget: int) -> list[list[str]]:
    parts: list[list[str]] = [[]]
    held = 0
    for name, size in sizes.items():
        if parts[-1] and held + size > budget:
            parts.append([])
            held = 0
        parts[-1].append(name)
        held += size
    return parts
