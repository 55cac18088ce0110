"""How large a batch a server may build: asked of the user, and proven on the file itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from converter.errors import ModelError, UsageError
from converter.ir.model import Model, TensorSpec
from converter.runtime.session import Session
from converter.samples import Samples
from emitters.serving.request import ServingRequest

DEFAULT_MAX_BATCH = 8

TOLERANCE = 0.05
"""How far an element's float outputs may move, as a share of their largest magnitude, with the
other elements of its batch. Dynamic quantization moves them a little (its scales are taken over
the batch); an operator that mixes the elements moves them a lot."""

_SEARCHED = 16  # samples looked at to find a second one of the first one's shapes

Feeds = dict[str, np.ndarray[Any, Any]]


def choose_max_batch(
    model: Model,
    session: Session,
    samples: Samples,
    request: ServingRequest,
    largest: int | None = None,
) -> tuple[int, str]:
    """The ``max_batch_size``, and why.

    A batch is the first dimension of every input and output, so a model without it can't be batched
    (0). With it, the file is run at batch 1, 2 and the largest, and batching is only turned on
    where every output follows.

    Args:
        model: The model that the file was made of.
        session: Runs the file.
        samples: What it is run on.
        request: Its ``max_batch``; its ``preferred_batch`` sizes are taken, too.
        largest: The largest batch that an engine's profiles take; None without profiles.

    Raises:
        UsageError: ``--max-batch`` asks for what the model can't do.
    """
    asked = request.max_batch
    if asked is not None and asked < 0:
        raise UsageError(f"--max-batch {asked}: it can't be negative", code="option-value")
    if asked == 0:
        return 0, "max_batch_size 0: asked for by --max-batch 0"
    if asked and largest is not None and asked > largest:
        raise UsageError(
            f"--max-batch {asked}: the engine's profiles end at a batch of {largest}",
            code="shape-range",
            hint="Give --shapes with a larger batch.",
        )
    size = asked or largest or max(DEFAULT_MAX_BATCH, *request.preferred_batch, 1)
    problem = _without_batch(model, session) or _batch_problem(session, samples, request, size)
    if not problem:
        why = "asked for" if asked else "as the profiles" if largest else "the default"
        runs = ", ".join(map(str, sorted({1, 2, size})))
        return size, f"max_batch_size {size} ({why}): the file was run at batch {runs}"
    if asked:
        raise UsageError(
            f"--max-batch {asked}, but servers can't batch this model: {problem}",
            code="server-config",
            hint=f"Serve it with --max-batch 0{_FREED if _could_be_free(model, request) else '.'}",
        )
    return 0, f"max_batch_size 0: {problem}"


_FREED = "; or convert it with --batch dynamic, if its elements don't depend on each other."


def _could_be_free(model: Model, request: ServingRequest) -> bool:
    """Whether ``--batch dynamic`` would change an input: the first size of one is a number."""
    firsts = [spec.shape[0] for spec in model.inputs if spec.shape]
    return request.batch != "dynamic" and any(isinstance(size, int) for size in firsts)


def _without_batch(model: Model, session: Session) -> str:
    """Which tensors don't start with the batch, or ``""``."""
    declared = [spec for spec in (*model.inputs, *model.outputs) if not spec.has_batch]
    # ONNX Runtime may know more of an output than the file says, and its backend asks it.
    fixed = [spec for spec in session.outputs if not spec.shape or isinstance(spec.shape[0], int)]
    missing = {spec.name: f"{spec.name} ({spec.describe()})" for spec in (*declared, *fixed)}
    if not missing:
        return ""
    verb = "does" if len(missing) == 1 else "do"
    return f"{', '.join(missing.values())} {verb} not start with the batch dimension"


def _batch_problem(session: Session, samples: Samples, request: ServingRequest, size: int) -> str:
    pair = example_pair(session.inputs, samples, request.dims)
    if pair is None:
        return "there is neither a sample nor a size for every free dimension to try batches with"
    try:
        alone = session.run(pair[0])
    except ModelError as error:
        return f"the file does not run at batch 1 ({error.message})"
    for count in sorted({2, size} - {1}):
        try:
            together = session.run(stack(pair, count))
        except ModelError as error:
            return f"the file does not run at batch {count} ({error.message})"
        problem = _compare(session.outputs, alone, together, count)
        if problem:
            return problem
    return ""


def _compare(
    outputs: Sequence[TensorSpec],
    alone: Mapping[str, np.ndarray[Any, Any]],
    together: Mapping[str, np.ndarray[Any, Any]],
    count: int,
) -> str:
    """What is wrong with the outputs of a batch whose first element was also run alone."""
    for spec in outputs:
        one, many = alone[spec.name], together[spec.name]
        if one.shape[:1] != (1,) or many.shape[:1] != (count,):
            return (
                f"at batch {count}, output {spec.name} has shape {list(many.shape)}, "
                f"and {list(one.shape)} at batch 1"
            )
        if spec.is_float and one.shape[1:] == many.shape[1:] and moved(one, many[:1]):
            return f"at batch {count}, output {spec.name} depends on the rest of the batch"
    return ""


def moved(one: np.ndarray[Any, Any], first: np.ndarray[Any, Any]) -> bool:
    """Whether an element's values differ by more than :data:`TOLERANCE`; NaN is no value."""
    before, after = np.asarray(one, np.float64), np.asarray(first, np.float64)
    both = np.isfinite(before) & np.isfinite(after)
    change, size = np.abs(before[both] - after[both]), np.abs(before[both])
    return bool(change.max(initial=0) > TOLERANCE * size.max(initial=0) + 1e-6)


def example_pair(
    inputs: Sequence[TensorSpec], samples: Samples, sizes: Mapping[str, int]
) -> list[Feeds] | None:
    """Two different feeds of batch 1 and one shape, from the samples.

    With one sample, or none of its shape, the second is the first with each array's last
    dimension turned by one: other data, the same values. Without samples: ones, where every
    free dimension has a size; else None.

    Args:
        inputs: As the file has them.
        samples: The samples.
        sizes: Of free dimensions, by name; used without samples.
    """
    found = [dict(sample.feeds) for sample in islice(samples, _SEARCHED)]
    if not found:
        made = _ones(inputs, sizes)
        return None if made is None else [made, _turned(made)]
    first = found[0]
    shapes = {name: array.shape for name, array in first.items()}
    alike = [
        feeds
        for feeds in found[1:]
        if {name: array.shape for name, array in feeds.items()} == shapes
        and any(not np.array_equal(feeds[name], first[name]) for name in first)
    ]
    return [first, alike[0] if alike else _turned(first)]


def _ones(inputs: Sequence[TensorSpec], sizes: Mapping[str, int]) -> Feeds | None:
    made: Feeds = {}
    for spec in inputs:
        fixed = replace(spec, shape=(1, *(spec.shape or ())[1:]) if spec.shape else ())
        try:
            shape = fixed.sized(sizes)
        except KeyError:
            return None
        dtype = object if spec.dtype == "string" else np.dtype(spec.dtype)
        made[spec.name] = np.full(shape, "1" if spec.dtype == "string" else 1, dtype)
    return made


def _turned(feeds: Feeds) -> Feeds:
    return {
        name: np.roll(array, 1, axis=-1) if array.ndim > 1 else array
        for name, array in feeds.items()
    }


def stack(pair: Sequence[Feeds], count: int) -> Feeds:
    """A batch of ``count`` that takes its elements from ``pair`` in turn."""
    return {
        name: np.concatenate([pair[index % len(pair)][name] for index in range(count)])
        for name in pair[0]
    }


def fixed_batch(specs: Sequence[TensorSpec], request: ServingRequest) -> int:
    """The batch that a file of fixed sizes has; 0 where it is 1, or where the first sizes of
    ``specs``, inputs and outputs, aren't the one that ``--batch`` asked for."""
    firsts, asked = {spec.shape[0] if spec.shape else None for spec in specs}, request.batch or ""
    return int(asked) if asked.isdecimal() and int(asked) > 1 and firsts == {int(asked)} else 0
