"""Refuses interfaces that no array can have: a file may declare any shape."""

from __future__ import annotations

import math

from converter.errors import ModelError
from converter.ir.model import Model

MOST_AXES = 64
"""Dimensions of an array at most: numpy's ``NPY_MAXDIMS``."""

MOST_NUMBERS = 1 << 48
"""Numbers in one at most: processors address as many bytes."""


LONGEST_NAME = 10_000
"""Characters of a name at most: a zip archive's member has no more than 65,535 bytes."""


def require_possible(model: Model) -> None:
    """Refuses a model with inputs or outputs that can't be held in memory, of whatever machine.

    Raises:
        ModelError: with all of them.
    """
    found = []
    for kind, specs in (("input", model.inputs), ("output", model.outputs)):
        for spec in specs:
            if (length := len(spec.name)) > LONGEST_NAME:
                why = f"a name of {length:,} characters, of at most {LONGEST_NAME:,}"
                found.append(f"{kind} {spec.name}: {why}")
            if why := impossible(spec.shape or ()):
                found.append(f"{kind} {spec.name}: {why}")
    if found:
        raise ModelError(
            "the model has inputs or outputs that can't exist", code="model-invalid", details=found
        )


def impossible(shape: tuple[int | str, ...]) -> str:
    """Why no array has such a shape; empty where one may. What is free counts as 1."""
    if len(shape) > MOST_AXES:
        return f"{len(shape)} dimensions, of at most {MOST_AXES}"
    sizes = [dim for dim in shape if isinstance(dim, int)]
    if math.prod(sizes) > MOST_NUMBERS:
        return f"its shape is {list(shape)}, more numbers than memory has addresses"
    return ""
