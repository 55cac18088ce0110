"""Reductions, and where the largest or smallest is."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir

from parsers.coreml.network.registry import Layer, layer
from parsers.coreml.network.tensors import Network
from parsers.coreml.reader import DataType
from parsers.coreml.refusal import Refusal

_MODES = {
    "SUM": "reduce_sum",
    "AVG": "reduce_mean",
    "PROD": "reduce_prod",
    "SUMSQUARE": "reduce_sum_square",
    "L1": "reduce_l1_norm",
    "L2": "reduce_l2_norm",
    "MAX": "reduce_max",
    "MIN": "reduce_min",
}
_AXES: dict[str, list[int]] = {
    "CHW": [-3, -2, -1],
    "HW": [-2, -1],
    "C": [-3],
    "H": [-2],
    "W": [-1],
}
_OVER_AXES = {
    "reduceL1": "reduce_l1_norm",
    "reduceL2": "reduce_l2_norm",
    "reduceMax": "reduce_max",
    "reduceMin": "reduce_min",
    "reduceSum": "reduce_sum",
    "reduceProd": "reduce_prod",
    "reduceMean": "reduce_mean",
    "reduceSumSquare": "reduce_sum_square",
    "reduceLogSumExp": "reduce_log_sum_exp",
}


@layer("reduce")
def reduce(net: Network, at: Layer) -> onnx_ir.Value:
    """Over channels, height or width; the axes stay, of size 1."""
    how, x = at.parameters, at.inputs[0]
    mode = type(how).ReduceOperation.Name(how.mode)
    axes = _AXES[type(how).ReduceAxis.Name(how.axis)]
    if mode == "ARGMAX":
        return _where(net, "ArgMax", x, axes[0], keep=True)
    if mode == "LOGSUM":
        moved = net.op("add", x=x, y=how.epsilon or 1e-6)
        logarithm = net.node("Log", [moved])
        return net.op("reduce_sum", x=logarithm, axes=axes, keep_dims=True)
    return net.op(_MODES[mode], x=x, axes=axes, keep_dims=True)


@layer(*_OVER_AXES)
def over_axes(net: Network, at: Layer) -> onnx_ir.Value:
    """Over axes, or all; a result without any axis has one, of size 1."""
    how, x = at.parameters, at.inputs[0]
    axes: Sequence[int] | None = None if how.reduceAll else [int(axis) for axis in how.axes]
    found = net.op(_OVER_AXES[at.kind], x=x, axes=axes, keep_dims=bool(how.keepDims))
    return net.shaped(found, [1]) if net.need_rank(found) == 0 else found


@layer("reduceLogSum")
def log_sum(net: Network, at: Layer) -> onnx_ir.Value:
    """None: a sum of logarithms or the logarithm of a sum."""
    raise Refusal(
        "the documentation doesn't say whether it sums logarithms or takes the logarithm of a sum"
    )


@layer("argMax", "argMin")
def where(net: Network, at: Layer) -> onnx_ir.Value:
    """The index, as a number of float32."""
    how, x = at.parameters, at.inputs[0]
    keep = not how.removeDim or net.need_rank(x) == 1
    kind = {"argMax": "ArgMax", "argMin": "ArgMin"}[at.kind]
    return _where(net, kind, x, int(how.axis), keep=keep)


def _where(net: Network, kind: str, x: onnx_ir.Value, axis: int, *, keep: bool) -> onnx_ir.Value:
    found = net.node(kind, [x], {"axis": axis, "keepdims": int(keep)}, DataType.INT64)
    return net.node("Cast", [found], {"to": int(DataType.FLOAT)}, DataType.FLOAT)
