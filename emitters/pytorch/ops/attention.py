"""Attention that a graph spells out, as ``scaled_dot_product_attention``.

MatMul (q, k transposed) [* scale] [+ mask] -> Softmax -> MatMul (.., v)
"""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir

from converter.ir.edit import attribute_ints, constant, is_op
from emitters.code.context import Context, shape_of
from emitters.code.literals import listed, number
from emitters.code.steps import Value
from emitters.code.weights import only_use


@dataclass(frozen=True)
class Attention:
    """One that was found.

    Attributes:
        query, key, value: Its operands; ``key`` is transposed already.
        mask: What is added before Softmax.
        scale: What products are multiplied by.
        inner: The nodes that it takes the place of, but for the last.
    """

    query: Value
    key: Value
    value: Value
    mask: Value | None
    scale: float
    inner: tuple[onnx_ir.Node, ...]


def found_in(graph: onnx_ir.Graph) -> dict[onnx_ir.Node, Attention]:
    """All of a graph, by their last node."""
    found = {}
    for node in graph:
        if is_op(node, "Softmax"):
            last = only_use(node.outputs[0])
            attention = _matched(node, last) if last is not None else None
            if last is not None and attention is not None:
                found[last] = attention
    return found


def _matched(softmax: onnx_ir.Node, last: onnx_ir.Node) -> Attention | None:
    rank = len(shape_of(softmax.outputs[0]) or ())
    axis = softmax.attributes.get("axis")
    if softmax.outputs[0].dtype != onnx_ir.DataType.FLOAT:  # in halves it rounds elsewhere
        return None
    if not is_op(last, "MatMul") or last.inputs[0] is not softmax.outputs[0] or rank < 3:
        return None
    if axis is not None and axis.as_int() not in (-1, rank - 1):
        return None
    inner, mask, scale = [softmax], None, 1.0
    at = _maker(softmax.inputs[0])
    if is_op(at, "Add"):
        assert at is not None
        sides = [(a, b) for a, b in (at.inputs, at.inputs[::-1]) if _is_scores(a)]
        if len(sides) != 1:
            return None
        scores, mask = sides[0]
        inner.append(at)
        at = _maker(scores)
    if is_op(at, "Mul", "Div"):
        assert at is not None
        factor = _factor(at)
        if factor is None:
            return None
        scale, scores = factor
        inner.append(at)
        at = _maker(scores)
    if at is None or not is_op(at, "MatMul"):
        return None
    query, key, value = at.inputs[0], at.inputs[1], last.inputs[1]
    if query is None or key is None or value is None:
        return None
    ranks = {len(shape_of(each) or ()) for each in (query, key, value)}
    if ranks != {rank} or constant(key) is not None or constant(value) is not None:
        return None
    return Attention(query, key, value, mask, scale, (*inner, at))


def _maker(value: Value | None) -> onnx_ir.Node | None:
    """The node that gives a value, where nothing else takes it."""
    if value is None or only_use(value) is None:
        return None
    return value.producer()


def _is_scores(value: Value | None) -> bool:
    node = _maker(value)
    if node is not None and is_op(node, "Mul", "Div"):
        factor = _factor(node)
        node = _maker(factor[1]) if factor else None
    return node is not None and is_op(node, "MatMul")


def _factor(node: onnx_ir.Node) -> tuple[float, Value] | None:
    for at, other in enumerate(node.inputs):
        array = constant(other)
        rest = node.inputs[1 - at]
        if array is not None and array.size == 1 and rest is not None:
            factor = float(array.reshape(-1)[0])
            if is_op(node, "Mul"):
                return factor, rest
            if at == 1 and factor:
                return 1 / factor, rest
    return None


def attend(c: Context, found: Attention) -> None:
    """Writes one."""
    query, value = c.use(found.query), c.use(found.value)
    given = [query, _untransposed(c, found.key), value]
    if found.mask is not None:
        given.append(f"attn_mask={c.use(found.mask)}")
    size = (shape_of(found.query) or [None])[-1]
    usual = isinstance(size, int) and abs(found.scale * size**0.5 - 1) < 1e-7
    if not usual:
        given.append(f"scale={number(found.scale)}")
    c.emit(f"F.scaled_dot_product_attention({', '.join(given)})", hint="attended")


def _untransposed(c: Context, key: Value) -> str:
    """Keys with their last two axes exchanged: before the Transpose that did so, where one did."""
    node = key.producer()
    if is_op(node, "Transpose") and node is not None and only_use(key) is not None:
        perm = attribute_ints(node, "perm")
        source = node.inputs[0]
        if perm is not None and source is not None:
            perm[-1], perm[-2] = perm[-2], perm[-1]
            if perm == sorted(perm):
                return c.use(source)
            return f"{c.use(source, 10)}.permute{listed(perm)}"
    return f"{c.use(key, 10)}.transpose(-1, -2)"
