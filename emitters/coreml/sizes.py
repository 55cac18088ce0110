"""Free dimensions as Core ML has them: a smallest, usual and largest size, or a list of shapes.

An ML Program takes no dimension without an upper bound. What ``--shapes`` and ``--coreml-shapes``
leave open comes from the batch sizes asked for and from the samples; what those leave open goes up
to :data:`LARGEST`. Bounds cost nothing but what a larger input would take when it comes, and an
input beyond them is refused by Core ML.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from converter.errors import UsageError
from converter.ir.model import BATCH, TensorSpec
from converter.options.request import Request
from converter.options.shape_ranges import (
    DEFAULT_MAX_BATCH,
    Shape,
    read_ranges,
    read_shapes,
    require_fit,
)
from emitters.coreml.interface import Port
from emitters.coreml.request import package
from emitters.serving.request import serving
from modelyard.containers.coreml import coremltools

Range = tuple[int, int, int]
"""The smallest, usual and largest size of a free dimension."""

LARGEST = 4096
"""Up to where a free dimension goes, unless a sample is larger or ``--shapes`` says otherwise."""

MOST_SHAPES = 128
"""How many shapes an input may list (coremltools' guide, "Flexible Input Shapes")."""

_LISTED = "--coreml-shapes NAME:SHAPE,SHAPE, as in x:1x3x224x224,1x3x384x384"


@dataclass
class Sizes:
    """What the free dimensions of a model's inputs may be.

    Attributes:
        ranges: By the dimension's name.
        listed: By the input's name, the only shapes it takes, the usual one first.
    """

    ranges: dict[str, Range] = field(default_factory=dict)
    listed: dict[str, list[Shape]] = field(default_factory=dict)

    def told(self, port: Port) -> str:
        """What an input may be, in words; empty where it isn't free."""
        name = port.spec.name
        if name in self.listed:
            shapes = ", ".join("x".join(map(str, shape)) for shape in self.listed[name])
            return f"{name} is one of {shapes}"
        ranges = self.free(port)
        return f"{name} takes {', '.join(ranges)}" if ranges else ""

    def above_one(self, names: Iterable[str]) -> None:
        """Lets these dimensions begin at 2."""
        for name in self.ranges.keys() & set(names):
            low, usual, high = self.ranges[name]
            self.ranges[name] = max(low, 2), usual, high

    def free(self, port: Port) -> list[str]:
        """The ranges of an input's free dimensions: ``batch 1 to 8``."""
        free = dict.fromkeys(dim for dim in port.shape if isinstance(dim, str))
        return [
            f"{dim} {low} to {high}"
            for dim in free
            if dim in self.ranges
            for low, _, high in [self.ranges[dim]]
        ]


def sizes_of(
    request: Request,
    inputs: Sequence[TensorSpec],
    target: int,
    seen: Mapping[str, Range] | None = None,
) -> Sizes:
    """The sizes of a package's inputs.

    Args:
        request: ``shapes``, ``coreml_shapes``, ``dims``, ``max_batch`` and what else names a batch.
        inputs: The model's.
        target: The oldest system that the package is for.
        seen: Sizes of free dimensions in the samples.

    Raises:
        UsageError: A shape doesn't fit its input, or the target takes no such lists.
    """
    by_name = {spec.name: spec for spec in inputs}
    known: dict[str, Range] = dict(seen or {})
    found = Sizes(listed=_listed(package(request).coreml_shapes, by_name, target))
    rounds = read_ranges(request.shapes, by_name)
    if len(rounds) > 1:
        raise UsageError(
            "--shapes names an input twice, but a Core ML package has one range for each input",
            code="option-conflict",
            hint="List the shapes: --coreml-shapes NAME:SHAPE,SHAPE.",
        )
    for dim in dict.fromkeys(dim for spec in inputs for dim in spec.shape or ()):
        if isinstance(dim, str):
            found.ranges[dim] = _range(dim, request, known)
    for name, bounds in (rounds[0] if rounds else {}).items():
        _take(by_name[name], bounds, found.ranges)
    for name, shapes in found.listed.items():
        lowest, highest = (tuple(map(pick, zip(*shapes, strict=True))) for pick in (min, max))
        _take(by_name[name], (lowest, shapes[0], highest), found.ranges)
    return found


def _range(dim: str, request: Request, seen: Mapping[str, Range]) -> Range:
    _, usual, largest = seen.get(dim, (1, 1, 1))
    if dim == BATCH:
        asked = serving(request)
        most = DEFAULT_MAX_BATCH if asked.max_batch is None else max(asked.max_batch, 1)
        return 1, 1, max(most, largest, *asked.preferred_batch, *request.bench_batches)
    usual = request.dims.get(dim, usual)
    return 1, usual, max(LARGEST, largest, usual)


def _take(spec: TensorSpec, bounds: tuple[Shape, Shape, Shape], ranges: dict[str, Range]) -> None:
    for dim, low, usual, high in zip(spec.shape or (), *bounds, strict=True):
        if isinstance(dim, str):
            ranges[dim] = low, usual, high


def _listed(
    texts: Sequence[str], inputs: Mapping[str, TensorSpec], target: int
) -> dict[str, list[Shape]]:
    found: dict[str, list[Shape]] = {}
    for text in texts:
        name, shapes = read_shapes(text, _LISTED)
        require_fit(f"--coreml-shapes {text}", name, inputs, shapes)
        if len(set(shapes)) < 2 or len(shapes) > MOST_SHAPES:
            raise UsageError(
                f"--coreml-shapes {text}: give 2 to {MOST_SHAPES} shapes for an input",
                code="option-value",
                hint="For one shape, fix the input's sizes (--input).",
            )
        found[name] = shapes
    if len(found) > 1 and target < 18:
        raise UsageError(
            "before iOS18, only one input can have a list of shapes",
            code="option-not-applicable",
            hint="Convert with --coreml-target iOS18, or give ranges to the others (--shapes).",
        )
    if len({len(shapes) for shapes in found.values()}) > 1:
        raise UsageError(
            "all inputs with a list of shapes need lists of the same length",
            code="option-not-applicable",
        )
    return found


def fixed_by(sizes: Sizes) -> dict[str, int]:
    """The free dimensions that have one size only."""
    return {dim: low for dim, (low, _, high) in sizes.ranges.items() if low == high}


def coreml_shape(port: Port, sizes: Sizes) -> Any:
    """coremltools' shape of an input: fixed, with ranges, or a list."""
    library = coremltools()
    listed = sizes.listed.get(port.spec.name)
    if listed is not None:
        named = [dict(zip(port.spec.shape or (), shape, strict=True)) for shape in listed]
        shapes = [[sizes.get(dim, dim) for dim in port.shape] for sizes in named]
        return library.EnumeratedShapes(shapes=shapes)
    shape: list[Any] = []
    for dim in port.shape:
        if isinstance(dim, str):
            low, usual, high = sizes.ranges[dim]
            dim = library.RangeDim(low, high, default=usual)
        shape.append(dim)
    return library.Shape(shape)
