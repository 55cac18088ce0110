"""Operators in terms of others, where torch's own way to ONNX has none, or gives something else.

    median(x, -1)  ->  values, places = sort(x, -1); values[..., (n - 1) // 2], ...

Only programs that hold such an operator are traced once more.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch


def apply(program: Any) -> Any:
    """A traced program with every operator that needs it written as others."""
    from . import (
        bags,
        complexes,
        convolution,
        distances,
        elements,
        pooling,
        resizing,
        sorting,
        spectral,
    )

    families = (
        *(bags, complexes, convolution, distances, elements, pooling, resizing),
        *(sorting, spectral),
    )
    known = {}
    for family in families:
        known.update(family.TABLE)
    needed = {
        node.target: known[node.target].function
        for node in _calls(program)
        if node.target in known and known[node.target].needed(node)
    }
    return program.run_decompositions(needed) if needed else program


def free_sizes(program: Any) -> int:
    """How many sizes of a program's inputs are free; one that was fixed later shows as a number."""
    values = [node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"]
    shapes = [value.shape for value in values if isinstance(value, torch.Tensor)]
    return sum(not str(size).isdecimal() for shape in shapes for size in shape)


def _calls(program: Any) -> Iterator[Any]:
    """The calls of a program's graph and of what is in it: bodies of branches and loops."""
    for module in program.graph_module.modules():
        if isinstance(module, torch.fx.GraphModule):
            yield from (node for node in module.graph.nodes if node.op == "call_function")
