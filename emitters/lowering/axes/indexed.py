"""Operators that take or put elements by indices, and those that only ask for sizes."""

from __future__ import annotations

from math import prod

import numpy as np
import onnx_ir

from converter.ir.attributes import number
from converter.ir.refused import Refused
from converter.passes.legalize.builder import Size, Value
from emitters.lowering.axes.packed import Packed, Work, entries
from emitters.lowering.axes.reduction import alike, placed, resized, three


def gather(w: Work) -> list[Packed]:
    """By indices in one row."""
    x, places = w.input(0), w.input(1)
    axis = placed(w, x, 0)
    flat = w.view(places, [w.b.product(places.dims)])
    return [Packed(w.like(three(w, x, axis), flat, axis=1)[0], resized(x, axis, places.dims))]


def elements(w: Work) -> list[Packed]:
    """GatherElements, ScatterElements: tensors of the same sizes but along the axis."""
    xs = w.inputs()
    axis = placed(w, xs[0], 0)
    if not all(alike(xs[0], x, axis) for x in xs[1:]):
        raise Refused("its indices have fewer elements than the data along one of many axes")
    made = w.like(*(three(w, x, axis) for x in xs), axis=1)[0]
    return [Packed(made, xs[1].dims if w.node.op_type == "GatherElements" else xs[0].dims)]


def one_hot(w: Work) -> list[Packed]:
    """A new axis, of a computed size."""
    x = w.input(0)
    axis = number(w.node, "axis", -1) % (len(x.dims) + 1)
    whole = w.joined(x, [range(axis), range(axis, len(x.dims))])
    made = w.like(whole, *w.rest(1), axis=1)[0]
    return [Packed(made, (*x.dims[:axis], w.b.size(made, 1), *x.dims[axis:]))]


def trilu(w: Work) -> list[Packed]:
    """Matrices one after the other."""
    x = w.input(0)
    last = len(x.dims) - 1
    whole = w.joined(x, [range(last - 1), [last - 1], [last]])
    return [Packed(w.like(whole, *w.rest(1))[0], x.dims)]


# -- vectors of indices ----------------------------------------------------------------------


def gather_nd(w: Work) -> list[Packed]:
    """Of [batch, place, rest] by one number for each place, in [batch, count]."""
    x, indices = w.input(0), w.input(1)
    batch = number(w.node, "batch_dims", 0)
    flat, rest = _flat(w, x, indices, batch)
    dims = (*indices.dims[:-1], *rest)
    sizes = [
        w.b.product(part) for part in (x.dims[:batch], x.dims[batch : -len(rest) or None], rest)
    ]
    if not batch:
        return [Packed(w.b.op("Gather", w.view(x, sizes[1:]), flat, axis=0), dims)]
    rows = w.view(Packed(flat, ()), [sizes[0], w.b.product(indices.dims[batch:-1]), 1])
    return [Packed(w.b.op("GatherND", w.view(x, sizes), rows, batch_dims=1), dims)]


def scatter_nd(w: Work) -> list[Packed]:
    """Rows of [place, rest] by one number for each."""
    x, indices, updates = w.inputs()
    flat, rest = _flat(w, x, indices, 0)
    sizes = [w.b.product(part) for part in (x.dims[: len(x.dims) - len(rest)], rest)]
    count = w.b.product(indices.dims[:-1])
    rows = w.view(Packed(flat, ()), [count, 1])
    return [Packed(w.like(w.view(x, sizes), rows, w.view(updates, [count, sizes[1]]))[0], x.dims)]


def _flat(w: Work, x: Packed, indices: Packed, batch: int) -> tuple[Value, tuple[Size, ...]]:
    """One place for each vector of indices, as if the axes that it stands for were one: int64
    [vectors]. And the sizes behind these axes."""
    depth = indices.dims[-1]
    if not isinstance(depth, int):
        raise Refused("its index vectors have no known length")
    own, rest = x.dims[batch : batch + depth], x.dims[batch + depth :]
    sizes = [size for size in own if isinstance(size, int)]
    if len(sizes) < depth:
        raise Refused("indices along axes of free sizes", "fix them (--input, --batch)")
    vectors = w.view(indices, [w.b.product(indices.dims[:-1]), depth])
    vectors = w.b.cast(vectors, onnx_ir.DataType.INT64)
    below = w.b.op("Less", vectors, np.asarray(0))
    counted = w.b.op("Add", vectors, np.asarray(sizes))
    vectors = w.b.op("Where", below, counted, vectors)
    strides = np.asarray([prod(sizes[axis + 1 :]) for axis in range(depth)])
    return w.b.reduce("ReduceSum", w.b.op("Mul", vectors, strides), [1], keep=False), rest


# -- sizes -----------------------------------------------------------------------------------


def shape(w: Work) -> list[Packed]:
    """The sizes, or some of them."""
    dims = w.input(0).dims
    start, end = number(w.node, "start", 0), number(w.node, "end", len(dims))
    wanted = dims[start:end]
    return [Packed(w.b.vector(wanted), (len(wanted),))]


def size(w: Work) -> list[Packed]:
    """Their product."""
    return [Packed(w.b.vector([w.b.product(w.input(0).dims)]), ())]


def constant_of_shape(w: Work) -> list[Packed]:
    """A number everywhere."""
    target = w.b.input(0)
    assert target is not None
    known, asked = w.node.outputs[0].shape or (), entries(w.b, target)
    dims = [a if isinstance(a, int) else b for a, b in zip(known, asked, strict=True)]
    wanted = tuple(dim for dim in dims if dim is not None)
    if len(wanted) < len(dims):
        raise Refused("its shape, of that many axes, isn't known at all")
    return [Packed(w.like(w.b.vector([w.b.product(wanted)]))[0], wanted)]


INDEXED = {
    **dict.fromkeys(("GatherElements", "ScatterElements"), elements),
    "ConstantOfShape": constant_of_shape,
    "Gather": gather,
    "GatherND": gather_nd,
    "OneHot": one_hot,
    "ScatterND": scatter_nd,
    "Shape": shape,
    "Size": size,
    "Trilu": trilu,
}
