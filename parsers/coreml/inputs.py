"""A program's inputs, and names for their sizes that are free."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir

from parsers.coreml.description import shapes
from parsers.coreml.operation import Named

BATCH = "batch"


def named_inputs(inputs: Sequence[Named], told: Any) -> list[onnx_ir.Value]:
    """A graph's inputs. A free size is called after its input and axis.

    A first one is the batch where only one input has that, or all that have it may be of the same
    sizes. MIL doesn't say whether sizes of two inputs are equal when the program runs.

    Args:
        inputs: The function's.
        told: Its ``ModelDescription``, for the sizes that are allowed.
    """
    free = [item.name for item in inputs if item.type.shape and item.type.shape[0] is None]
    allowed = shapes(told)
    firsts = [_firsts(allowed.get(name, {})) for name in free]
    same = len(free) <= 1 or (bool(firsts[0]) and all(first == firsts[0] for first in firsts))
    return [_input(item, BATCH if same else f"{item.name}_0") for item in inputs]


def _firsts(flexible: dict[str, list[list[int]]]) -> dict[str, list[int]]:
    """What is allowed for the first axis, as ``shapes`` tells it; nothing where that isn't told."""
    return {kind: [sizes[0] for sizes in found] for kind, found in flexible.items() if all(found)}


def _input(named: Named, first: str) -> onnx_ir.Value:
    sizes = named.type.shape
    dims = None
    if sizes is not None:
        names = [first, *(f"{named.name}_{axis}" for axis in range(1, len(sizes)))]
        dims = [names[axis] if dim is None else dim for axis, dim in enumerate(sizes)]
    assert named.type.dtype is not None
    return onnx_ir.Value(
        name=named.name,
        shape=None if dims is None else onnx_ir.Shape(dims),
        type=onnx_ir.TensorType(named.type.dtype),
    )
