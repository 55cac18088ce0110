"""Decompositions for those programs that need some: the exporter traces each whole anew for them.

    Given:   to(x, float32), of a float32; adaptive_avg_pool1d(x, [1]); scaled_dot_product_attention
    Result:  x; mean(x, [-1], keepdim); the same, since ONNX has a translation for it

What has no translation, changes its inputs, or holds other graphs, is traced as ever.
"""

from __future__ import annotations

import operator
from contextlib import contextmanager
from typing import Any, Iterator

import torch
from torch.fx import Node

_ASSERTIONS = ("_assert_tensor_metadata", "_assert_scalar", "_assert_async")
_POOLS = {"adaptive_avg_pool1d": 1, "adaptive_avg_pool2d": 2, "adaptive_avg_pool3d": 3}


@contextmanager
def as_needed() -> Iterator[None]:
    """Has the exporter decompose only programs that hold what it has no translation for."""
    try:
        from torch.onnx._internal.exporter import _decomp, _fx_passes

        decompose, known = (
            _fx_passes.decompose_with_registry,
            _decomp.get_onnx_implemented_overloads,
        )
    except (ImportError, AttributeError):  # another version: only slower
        yield
        return

    def decompose_if_needed(program: Any, registry: Any) -> Any:
        return program if _is_ready(program, set(known(registry))) else decompose(program, registry)

    _fx_passes.decompose_with_registry = decompose_if_needed
    try:
        yield
    finally:
        _fx_passes.decompose_with_registry = decompose


def _is_ready(program: Any, translated: set[Any]) -> bool:
    """Whether every node has a translation, if need be after it was written as another one.

    A program that isn't stays as it is.
    """
    graph = program.graph
    written = dict.fromkeys(node for node in graph.nodes if _by_another(node) is not None)
    if not all(node in written or _is_translated(node, translated) for node in graph.nodes):
        return False
    for node in written:
        definition = _by_another(node)  # again: its inputs may have been written anew
        assert definition is not None
        target, args, kwargs = definition
        new = args[0]
        if target is not None:
            with graph.inserting_before(node):
                new = graph.call_function(target, args, kwargs)
            new.meta = node.meta.copy()
        node.replace_all_uses_with(new)
    graph.eliminate_dead_code()
    return True


def _is_translated(node: Node, translated: set[Any]) -> bool:
    target = node.target
    if node.op != "call_function":
        return node.op in ("placeholder", "output")
    if not isinstance(target, torch._ops.OpOverload):  # a size computed of sizes, one of several
        return target in translated and getattr(operator, target.__name__, None) is target
    if target._opname in _ASSERTIONS:
        return True
    return target in translated and not target._schema.is_mutable


def _by_another(node: Node) -> tuple[Any, tuple[Any, ...], dict[str, Any]] | None:
    """A node by its definition, where that is one other; without a target, its first input."""
    target, given = node.target, node.args
    if not isinstance(target, torch._ops.OpOverload) or node.kwargs:
        return None
    if target == torch.ops.aten.to.dtype and len(given) == 2:
        if given[0].meta["val"].dtype == given[1]:
            return None, given[:1], {}
        return torch.ops.aten._to_copy.default, given[:1], {"dtype": given[1]}
    axes = _POOLS.get(target._opname, 0)
    if axes and [*given[1]] == [1] * axes:
        return torch.ops.aten.mean.dim, (given[0], [*range(-axes, 0)], True), {}
    return None
