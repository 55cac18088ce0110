"""Decompositions for those programs that need some: the exporter traces each whole anew for them.

    Given:   flatten(x, 1); adaptive_avg_pool1d(x, [1]); scaled_dot_product_attention(q, k, v)
    Result:  reshape(x, [n, -1]); mean(x, [-1], keepdim); the same, for ONNX has a translation of it

So the exporter sees what a trace would give. What has no translation, changes its inputs, holds
other graphs, or would be decomposed in another way, is traced as ever.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.fx import Node

_ASSERTIONS = ("_assert_tensor_metadata", "_assert_scalar", "_assert_async")
# Whether they copy is decided by strides, of which ONNX knows nothing: Reshape, and nothing at all.
_BY_STRIDES = ("reshape", "contiguous")
_POOLS = {"adaptive_avg_pool1d": 1, "adaptive_avg_pool2d": 2, "adaptive_avg_pool3d": 3}


@contextmanager
def as_needed() -> Iterator[list[Any]]:
    """Has the exporter decompose only programs that hold what it has no translation for; gives the
    others, once they were taken as they are."""
    taken: list[Any] = []
    try:
        from torch._export.utils import _check_valid_to_preserve, _is_cia_op
        from torch.onnx._internal.exporter import _decomp, _fx_passes

        decompose, known = (
            _fx_passes.decompose_with_registry,
            _decomp.get_onnx_implemented_overloads,
        )
    except (ImportError, AttributeError):  # another version: only slower
        yield taken
        return

    def stays(target: Any) -> bool:
        """Whether run_decompositions leaves an operator that is translated as it is."""
        return not _is_cia_op(target) or _check_valid_to_preserve(target)

    def decompose_if_needed(program: Any, registry: Any) -> Any:
        if not _make_ready(program.graph, set(known(registry)), stays):
            return decompose(program, registry)
        taken.append(program)
        # reshape's own translation takes a size of 0 for one to be copied
        registry.functions["aten::reshape"] = registry.functions["aten::view"]
        return program

    _fx_passes.decompose_with_registry = decompose_if_needed
    try:
        yield taken
    finally:
        _fx_passes.decompose_with_registry = decompose


def _make_ready(graph: Any, translated: set[Any], stays: Callable[[Any], bool]) -> bool:
    """Whether every node has a translation, after each that has a definition was written as that.

    A graph that isn't ready stays as it is.
    """
    defined = {node: made for node in graph.nodes if (made := _definition(node)) is not None}
    if not all(node in defined or _is_translated(node, translated, stays) for node in graph.nodes):
        return False
    for node, make in defined.items():
        with graph.inserting_before(node):
            new = make()
        new.meta = new.meta or node.meta.copy()
        node.replace_all_uses_with(new)
    graph.eliminate_dead_code()
    return True


def _is_translated(node: Node, translated: set[Any], stays: Callable[[Any], bool]) -> bool:
    target = node.target
    if node.op != "call_function":
        return node.op in ("placeholder", "output")
    if not isinstance(target, torch._ops.OpOverload):  # a size computed of sizes, one of several
        return target in translated and getattr(operator, target.__name__, None) is target
    if target._opname in _ASSERTIONS:
        return True
    if target._schema.is_mutable or target not in translated:
        return False
    return target._opname in _BY_STRIDES or stays(target)


def _definition(node: Node) -> Callable[[], Node] | None:
    """What makes the node that stands for one, where that is another node or an input of it."""
    target, given, aten = node.target, node.args, torch.ops.aten
    if not isinstance(target, torch._ops.OpOverload) or node.kwargs:
        return None

    def call(target: Any, *args: Any, **kwargs: Any) -> Callable[[], Node]:
        # its first input is looked up when it is made: that may have another by then
        return lambda: node.graph.call_function(target, (node.args[0], *args), kwargs)

    if target == aten.flatten.using_ints and given[0].meta["val"].dim():
        return lambda: node.graph.call_function(aten.reshape.default, (node.args[0], _flat(node)))
    if target == aten.to.dtype and len(given) == 2 and not _is_of(given[0], given[1]):
        return call(aten._to_copy.default, dtype=given[1])
    axes = _POOLS.get(target._opname, 0)
    if axes and [*given[1]] == [1] * axes:
        return call(aten.mean.dim, [*range(-axes, 0)], True)
    same = (target == aten.to.dtype and len(given) == 2) or (
        target == aten.dropout.default and given[2] is False
    )
    return (lambda: node.args[0]) if same else None


def _is_of(node: Any, dtype: Any) -> bool:
    return bool(node.meta["val"].dtype == dtype)


def _flat(node: Node) -> list[Any]:
    """The sizes of what ``flatten`` gives, -1 for the axes that become one."""
    given: list[Any] = [*node.args, *(0, -1)[len(node.args) - 1 :]]
    source, start, end = given
    shape = source.meta["val"].shape

    def size(axis: int) -> Any:
        if isinstance(shape[axis], int):
            return shape[axis]
        made = node.graph.call_function(torch.ops.aten.sym_size.int, (source, axis))
        made.meta["val"] = shape[axis]
        return made

    before, after = range(start % len(shape)), range(end % len(shape) + 1, len(shape))
    return [*map(size, before), -1, *map(size, after)]
