"""Which of an engine's optimization profiles takes inputs of given shapes best."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from converter.errors import UsageError

Shape = tuple[int, ...]
Range = tuple[Shape, Shape, Shape]
"""Smallest, best and largest shape."""


def choose_profile(
    shapes: Mapping[str, Shape], profiles: Sequence[Mapping[str, Range]], doing: str
) -> int:
    """The index of the profile that takes ``shapes`` and whose best shapes are nearest to them.

    Near is measured on a logarithmic scale, summed over all dimensions: a batch of 8 is as far
    from 4 as from 16. Of equals, the first.

    Args:
        shapes: Of every input whose range is known, by name.
        profiles: In the engine's order.
        doing: What is being done, for the message.

    Raises:
        UsageError: No profile takes them; each is listed with what it doesn't take.
    """
    misfits = [_misfit(shapes, profile) for profile in profiles]
    fitting = [index for index, misfit in enumerate(misfits) if not misfit]
    if not fitting:
        raise UsageError(
            f"{doing}: the inputs fit none of the engine's optimization profiles",
            code="shape-range",
            details=[f"profile {index}: {misfit}" for index, misfit in enumerate(misfits)],
            hint="Build the engine for these shapes too: --shapes NAME:MIN,NAME:OPT,NAME:MAX.",
        )
    return min(fitting, key=lambda index: _distance(shapes, profiles[index]))


def _misfit(shapes: Mapping[str, Shape], profile: Mapping[str, Range]) -> str:
    """What of the inputs the profile doesn't take, in words; empty where it takes all."""
    wrong = []
    for name, (low, _, high) in profile.items():
        shape = shapes[name]
        within = len(shape) == len(low) and all(
            least <= size <= most for least, size, most in zip(low, shape, high, strict=True)
        )
        if not within:
            wrong.append(f"{name} is {_text(shape)}, it takes {_text(low)} to {_text(high)}")
    return "; ".join(wrong)


def _distance(shapes: Mapping[str, Shape], profile: Mapping[str, Range]) -> float:
    return sum(
        abs(math.log(max(size, 1) / max(best, 1)))
        for name, (_, opt, _) in profile.items()
        for size, best in zip(shapes[name], opt, strict=True)
    )


def _text(shape: Shape) -> str:
    return "x".join(map(str, shape)) or "scalar"
