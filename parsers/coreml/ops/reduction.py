"""Reductions over axes (``reduction``)."""

from __future__ import annotations

import onnx_ir

from parsers.coreml.operation import Operation
from parsers.coreml.reader import Reader
from parsers.coreml.refusal import Refusal
from parsers.coreml.registry import reads

_OVER_AXES = {
    "reduce_l1_norm": "ReduceL1",
    "reduce_l2_norm": "ReduceL2",
    "reduce_log_sum": "ReduceLogSum",
    "reduce_log_sum_exp": "ReduceLogSumExp",
    "reduce_max": "ReduceMax",
    "reduce_mean": "ReduceMean",
    "reduce_min": "ReduceMin",
    "reduce_prod": "ReduceProd",
    "reduce_sum": "ReduceSum",
    "reduce_sum_square": "ReduceSumSquare",
}
_WHERE = {"reduce_argmax": "ArgMax", "reduce_argmin": "ArgMin"}


@reads(*_OVER_AXES)
def over_axes(reader: Reader, op: Operation) -> None:
    """ONNX's operator of the same meaning; over all axes where none are named."""
    axes = reader.setting(op, "axes")
    if axes is not None and not axes:
        raise Refusal("it reduces over an empty list of axes")
    inputs = [reader.value(op, "x")]
    if axes is not None:
        inputs.append(reader.ints(axes))
    keep = int(reader.setting(op, "keep_dims", False))
    reader.give(op, reader.node(_OVER_AXES[op.type], inputs, {"keepdims": keep}))


@reads(*_WHERE)
def where(reader: Reader, op: Operation) -> None:
    """ArgMax, ArgMin: the first of several, which Core ML leaves open."""
    attributes = {
        "axis": int(reader.setting(op, "axis", -1)),
        "keepdims": int(reader.setting(op, "keep_dims", False)),
    }
    found = reader.node(
        _WHERE[op.type], [reader.value(op, "x")], attributes, onnx_ir.DataType.INT64
    )
    declared = op.outputs[0].type.dtype
    reader.give(op, found if declared is None else reader.cast(found, declared))
