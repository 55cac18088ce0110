"""coremltools without work whose result is known: programs stay the same.

- Its pipelines validate the whole program after each of 88 passes (coremltools 9.0), and write it
  out as text for a log that nobody reads. Here a program is validated after each pipeline.
- A reshape of a free size has sympy solve ``volume = product of the new sizes`` for the one that is
  left open. Where the volume is a product, that size is the quotient.

Both are replaced while :data:`emitters.coreml.lowering.BUILDING` is held, and put back.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from modelyard.containers.coreml import coremltools


@contextmanager
def one_validation() -> Iterator[None]:
    """Has pipelines of passes validate a program at their end alone."""
    coremltools()
    from coremltools.converters.mil.mil.passes.pass_pipeline import PassPipelineManager
    from coremltools.converters.mil.mil.passes.pass_registry import PASS_REGISTRY

    def apply(program: Any, pipeline: Any) -> None:
        pipeline.validate()
        for name in pipeline.passes:
            PASS_REGISTRY[name].set_options(pipeline.get_options(name))
            PASS_REGISTRY[name](program)
        program.validate()

    with _replaced(PassPipelineManager, "apply_pipeline", apply):
        yield


@contextmanager
def quotients() -> Iterator[None]:
    """Has reshapes compute the size that is left open, where that is a quotient."""
    coremltools()
    from coremltools.converters.mil.mil.ops.defs.iOS15.tensor_transformation import reshape

    theirs = reshape.enforce_volumetric_constraint

    def constrained(volume: Any, shape: Sequence[Any]) -> Any:
        return _divided(volume, shape) or theirs(volume, shape)

    with _replaced(reshape, "enforce_volumetric_constraint", constrained):
        yield


def _divided(volume: Any, shape: Sequence[Any]) -> list[Any] | None:
    """The shape with its one symbol resolved; None where another rule is needed."""
    import sympy

    places = [place for place, dim in enumerate(shape) if isinstance(dim, sympy.Basic)]
    known = [int(dim) for place, dim in enumerate(shape) if place not in places]
    if len(places) != 1 or min(known, default=1) < 1:
        return None
    factors = sympy.Mul.make_args(sympy.sympify(volume))
    unknown = shape[places[0]]
    if not unknown.is_Symbol or unknown in factors:
        return None
    if not all(factor.is_Symbol or factor.is_Integer for factor in factors):
        return None
    size = sympy.Mul(*factors, sympy.Rational(1, math.prod(known)))
    return [*shape[: places[0]], int(size) if size.is_Integer else size, *shape[places[0] + 1 :]]


@contextmanager
def _replaced(owner: Any, name: str, function: Callable[..., Any]) -> Iterator[None]:
    """Another static method of a class, for the block."""
    theirs = owner.__dict__[name]
    setattr(owner, name, staticmethod(function))
    try:
        yield
    finally:
        setattr(owner, name, theirs)
