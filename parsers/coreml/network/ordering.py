"""Orders and indices: reverse, topK, argSort, gathers, oneHot, cumSum; parts of matrices; shapes
taken from another tensor. Indices are numbers of float32."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir

from parsers.coreml.network.registry import Layer, layer
from parsers.coreml.network.tensors import Network
from parsers.coreml.reader import DataType
from parsers.coreml.refusal import Refusal

INT64 = DataType.INT64
_MOST = int(np.iinfo(np.int64).max)
_LONGEST = 1 << 24
"""Elements up to which a row of numbers is written out."""


def _whole(net: Network, x: onnx_ir.Value) -> onnx_ir.Value:
    return net.node("Cast", [x], {"to": int(INT64)}, INT64)


def _real(net: Network, x: onnx_ir.Value) -> onnx_ir.Value:
    return net.node("Cast", [x], {"to": int(DataType.FLOAT)}, DataType.FLOAT)


@layer("reverse")
def reverse(net: Network, at: Layer) -> onnx_ir.Value:
    """Axes in the other direction."""
    axes = [axis for axis, turned in enumerate(at.parameters.reverseDim) if turned]
    if not axes:
        return net.node("Identity", at.inputs)
    count = len(axes)
    bounds = [net.ints([-1] * count), net.ints([-_MOST] * count)]
    return net.node("Slice", [at.inputs[0], *bounds, net.ints(axes), net.ints([-1] * count)])


@layer("topK")
def top_k(net: Network, at: Layer) -> Sequence[onnx_ir.Value]:
    """The K largest or smallest along an axis, and where they are."""
    how = at.parameters
    if len(at.inputs) > 1:
        raise Refusal("how many it takes is computed")
    return _top(net, at.inputs[0], int(how.K), int(how.axis), largest=not how.useBottomK)


@layer("argSort")
def arg_sort(net: Network, at: Layer) -> onnx_ir.Value:
    """Where an axis' elements are, in their order."""
    how, x = at.parameters, at.inputs[0]
    axis = int(how.axis)
    return _top(net, x, net.size(x, axis), axis, largest=bool(how.descending))[1]


def _top(
    net: Network, x: onnx_ir.Value, count: int, axis: int, *, largest: bool
) -> list[onnx_ir.Value]:
    attributes = {"axis": axis, "largest": int(largest)}
    found, where = net.nodes_of("TopK", [x, net.ints([count])], 2, attributes)
    return [found, _real(net, where)]


@layer("gatherAlongAxis")
def gather_along_axis(net: Network, at: Layer) -> onnx_ir.Value:
    """Elements by an index for each."""
    x, index = at.inputs
    axis = int(at.parameters.axis)
    return net.node("GatherElements", [x, _whole(net, index)], {"axis": axis}, x.dtype)


@layer("gatherND")
def gather_nd(net: Network, at: Layer) -> onnx_ir.Value:
    """Parts by the indices of their first axes."""
    x, index = at.inputs
    return net.node("GatherND", [x, _whole(net, index)], dtype=x.dtype)


@layer("oneHot")
def one_hot(net: Network, at: Layer) -> onnx_ir.Value:
    """A vector for each index; one below zero is nowhere, which ONNX counts from the end."""
    how = at.parameters
    if len(at.inputs) > 1:
        raise Refusal("the size of its vectors is computed")
    size = net.const(how.oneHotVectorSize, np.int64)
    index = _whole(net, at.inputs[0])
    zero = net.const(0, np.int64)
    below = net.node("Less", [index, zero], dtype=DataType.BOOL)
    index = net.node("Where", [below, size, index], dtype=INT64)
    ends = net.const([how.offValue, how.onValue])
    depth = net.ints([how.oneHotVectorSize])
    return net.node("OneHot", [index, depth, ends], {"axis": int(how.axis)}, DataType.FLOAT)


@layer("cumSum")
def cum_sum(net: Network, at: Layer) -> onnx_ir.Value:
    """Sums of all elements up to each."""
    how = at.parameters
    if len(at.inputs) > 1:
        raise Refusal("its axis is computed")
    attributes = {"exclusive": int(how.excludeFinalSum), "reverse": int(how.reverse)}
    return net.node("CumSum", [at.inputs[0], net.const(how.axis, np.int64)], attributes)


@layer("lowerTriangular", "upperTriangular")
def triangular(net: Network, at: Layer) -> onnx_ir.Value:
    """A matrix, zero above or below a diagonal."""
    diagonal = net.const(at.parameters.k, np.int64)
    upper = int(at.kind == "upperTriangular")
    return net.node("Trilu", [at.inputs[0], diagonal], {"upper": upper})


@layer("matrixBandPart")
def matrix_band_part(net: Network, at: Layer) -> onnx_ir.Value:
    """A matrix, zero but for so many diagonals; all of them where the number is negative."""
    how, x = at.parameters, at.inputs[0]
    for count, upper in ((-int(how.numLower), 1), (int(how.numUpper), 0)):
        if (count <= 0) if upper else (count >= 0):
            x = net.node("Trilu", [x, net.const(count, np.int64)], {"upper": upper})
    return x


@layer("rangeStatic")
def range_static(net: Network, at: Layer) -> onnx_ir.Value:
    """Numbers from a start to an end, which isn't one of them."""
    how = at.parameters
    step = how.stepSizeValue
    if not step or (how.endValue - how.startValue) / step > _LONGEST:
        raise Refusal(f"a range from {how.startValue} to {how.endValue} in steps of {step}")
    return net.const(np.arange(how.startValue, how.endValue, step, dtype=np.float32))


@layer("fillLike", "broadcastToLike", "reshapeLike")
def like_another(net: Network, at: Layer) -> onnx_ir.Value:
    """A number or the first operand, in the shape of the last."""
    other = at.inputs[-1]
    shape = net.node("Shape", [other], None, INT64)
    given = net.const(at.parameters.value) if at.kind == "fillLike" else at.inputs[0]
    kind = "Reshape" if at.kind == "reshapeLike" else "Expand"
    found = net.node(kind, [given, shape])
    found.shape = other.shape
    return found
