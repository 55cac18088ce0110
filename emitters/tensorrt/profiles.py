"""Optimization profiles: the smallest, best and largest shape of every input.

An engine takes exactly the shapes of its profiles, and is fastest at the best one. They come from
``--shapes``; what that leaves open comes from the batch sizes asked for and from the samples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from converter.errors import UsageError
from converter.ir.model import BATCH, Model, TensorSpec
from converter.options.request import Request
from converter.options.shape_ranges import DEFAULT_MAX_BATCH, Bounds, read_ranges
from emitters.serving.request import serving

Profile = Mapping[str, Bounds]
"""For each input by name: its smallest, its best and its largest shape."""

Sizes = Mapping[str, tuple[int, int, int]]
"""For each free dimension: its smallest, its best and its largest size."""


def profiles_of(
    request: Request, model: Model, seen: Sizes | None = None, *, always: bool = False
) -> list[Profile]:
    """The optimization profiles of an engine; none where every input has a fixed shape.

    Args:
        request: ``shapes``, ``dims``, ``max_batch`` and the batch sizes to be measured.
        model: Whose inputs they are for.
        seen: Sizes of free dimensions in the samples.
        always: Give one even where every input has a fixed shape.

    Raises:
        UsageError: A shape doesn't fit its input, or a free dimension has no size.
    """
    inputs = {spec.name: spec for spec in model.inputs}
    rounds = read_ranges(request.shapes, inputs)
    if not (model.symbols or always):
        return []
    known = {**(seen or {}), BATCH: _batches(request, seen or {}), **_fixed(request.dims)}
    return [_profile(inputs, given, known) for given in rounds or [{}]]


def require_shapes(request: Request, model: Model) -> None:
    """Holds ``--shapes`` against the inputs.

    Raises:
        UsageError: One doesn't fit.
    """
    read_ranges(request.shapes, {spec.name: spec for spec in model.inputs})


def largest_batch(profiles: Sequence[Profile], model: Model) -> int:
    """The largest batch that some profile takes; 0 where the batch isn't free."""
    return max(
        (
            bounds[2][0]
            for profile in profiles
            for spec in model.inputs
            if spec.has_batch and (bounds := profile.get(spec.name))
        ),
        default=0,
    )


def said(profile: Profile) -> str:
    """``x 1x3x224x224, 8x3x224x224, 8x3x224x224; ...``: smallest, best and largest."""
    return "; ".join(
        f"{name} {', '.join('x'.join(map(str, shape)) for shape in bounds)}"
        for name, bounds in profile.items()
    )


def _batches(request: Request, seen: Sizes) -> tuple[int, int, int]:
    """From 1 to the largest that is asked for anywhere; best at what the server prefers."""
    asked = serving(request)
    most = DEFAULT_MAX_BATCH if asked.max_batch is None else asked.max_batch
    in_samples = seen.get(BATCH, (1, 1, 1))[2]
    largest = max(most, in_samples, *asked.preferred_batch, *request.bench_batches, 1)
    return 1, max(asked.preferred_batch, default=largest), largest


def _fixed(dims: Mapping[str, int]) -> Sizes:
    return {name: (size, size, size) for name, size in dims.items() if name != BATCH}


def _profile(
    inputs: Mapping[str, TensorSpec], given: Mapping[str, Bounds], known: Sizes
) -> Profile:
    """All inputs' shapes: those given, and for the others the sizes that go with them."""
    sizes: dict[str, tuple[int, int, int]] = dict(known)
    for name, bounds in given.items():
        for dim, *found in zip(inputs[name].shape or (), *bounds, strict=True):
            if isinstance(dim, str):
                low, best, high = found
                sizes[dim] = (low, best, high)
    missing = [
        dim
        for name, spec in inputs.items()
        if name not in given
        for dim in spec.shape or ()
        if isinstance(dim, str) and dim not in sizes
    ]
    if missing:
        raise UsageError(
            f"an engine needs the largest size of {', '.join(dict.fromkeys(missing))}",
            code="size-unknown",
            hint="Give samples, --dim NAME=SIZE, or --shapes NAME:MIN,OPT,MAX.",
        )
    return {name: given.get(name) or _sized(spec, sizes) for name, spec in inputs.items()}


def _sized(spec: TensorSpec, sizes: Sizes) -> Bounds:
    smallest, best, largest = (
        spec.sized({dim: bounds[index] for dim, bounds in sizes.items()}) for index in range(3)
    )
    return smallest, best, largest
