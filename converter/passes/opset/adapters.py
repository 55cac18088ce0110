"""What changed its meaning or its form between opsets 7 and 20, and how to say it in opset 20.

One function an operator. Each takes a node as it stood in an older opset and puts nodes of
opset 20 in its place that compute the same; where that can't be done it raises
:class:`NotAdaptable` with the reason. No function needs shapes, so that models with free
dimensions, and values of which nothing is known, are converted as well as others.

Where an old operator's definition leaves a case open, what ONNX Runtime does in it counts,
since that is what the original is run in.

Operators whose later versions only added types, inputs, or attributes that are neutral by
default are in :data:`COMPATIBLE`. The tests hold both lists against the schemas of the
installed onnx: no change of any operator is forgotten.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir

from converter.ir.facts import REDUCTIONS
from converter.passes.opset.edit import Edit, NotAdaptable

Adapter = Callable[[Edit], None]

ADAPTERS: dict[str, tuple[int, Adapter]] = {}
"""For each operator, the opset up to which it needs adapting (exclusive), and what does it."""


def _adapter(until: int, *op_types: str) -> Callable[[Adapter], Adapter]:
    def register(function: Adapter) -> Adapter:
        for op_type in op_types:
            ADAPTERS[op_type] = (until, function)
        return function

    return register


@_adapter(14, "BatchNormalization")
def batch_normalization(edit: Edit) -> None:
    """BatchNormalization: ``spatial=0`` (before 9) has statistics for every element of a sample,
    which broadcast over the batch; the outputs for training went in 14."""
    edit.refuse_outputs_beyond(1, "its outputs for training are used")
    if edit.integer("training_mode", 0):
        raise NotAdaptable("it is in training mode", "Export the model in evaluation mode.")
    if edit.version >= 9 or edit.integer("spatial", 1):
        edit.update(drop=("spatial", "momentum"), outputs=1)
        return
    x, scale, bias, mean, var = edit.inputs(5)
    epsilon = edit.like(edit.number("epsilon", 1e-5), x)
    deviation = edit.op("Sqrt", edit.op("Add", var, epsilon))
    normal = edit.op("Div", edit.op("Sub", x, mean), deviation)
    edit.become("Add", edit.op("Mul", normal, scale), bias)


@_adapter(12, "Dropout")
def dropout(edit: Edit) -> None:
    """Dropout: before 12 it did nothing unless trained. ONNX Runtime's mask was all false."""
    (x,) = edit.inputs(1)
    if edit.used(1):
        mask_type = onnx_ir.DataType.BOOL if edit.version >= 10 else edit.dtype(x)
        zero = np.zeros(1, mask_type.numpy())
        mask = edit.op("ConstantOfShape", edit.op("Shape", x), value=onnx_ir.tensor(zero))
        edit.output_becomes(1, mask)
    edit.become("Identity", x)


@_adapter(10, "Upsample")
def upsample(edit: Edit) -> None:
    """Upsample: Resize with ``asymmetric`` coordinates, rounding down. Scales were an attribute
    before 9."""
    x = edit.inputs(1)[0]
    scales = edit.inputs(2)[1] if edit.version >= 9 else edit.constant(edit.numbers("scales"))
    _resize(edit, x, scales, edit.text("mode", "nearest"), "floor")


@_adapter(13, "Resize")
def resize(edit: Edit) -> None:
    """Resize: 10 knew no coordinates, and ONNX Runtime took ``asymmetric`` ones, for ``nearest``
    rounding down where it enlarges and up where it shrinks. 13 lost ``tf_half_pixel_for_nn``."""
    if edit.version >= 11:
        _resize_11(edit)
        return
    x, scales = edit.inputs(2)
    mode = edit.text("mode", "nearest")
    known = edit.value_of(scales)
    if mode != "nearest" or (known is not None and (known >= 1).all()):
        _resize(edit, x, scales, mode, "floor")
    elif known is not None and (known <= 1).all():
        _resize(edit, x, scales, mode, "ceil")
    else:  # axis by axis: enlarge, then shrink
        one = edit.constant(np.ones(1, np.float32))
        larger = edit.op(
            "Resize",
            *(x, None, edit.op("Max", scales, one)),
            mode="nearest",
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        )
        _resize(edit, larger, edit.op("Min", scales, one), mode, "ceil")


def _resize(
    edit: Edit, x: onnx_ir.Value, scales: onnx_ir.Value, mode: str, nearest_mode: str
) -> None:
    attributes = {"mode": mode, "coordinate_transformation_mode": "asymmetric"}
    if mode == "nearest":
        attributes["nearest_mode"] = nearest_mode
    edit.become("Resize", x, None, scales, **attributes)


def _resize_11(edit: Edit) -> None:
    coordinates = edit.text("coordinate_transformation_mode", "half_pixel")
    changes: dict[str, str] = {}
    if coordinates == "tf_half_pixel_for_nn":
        # floor((i + .5) / s) is what rounding (i + .5) / s - .5 half up gives
        nearest = edit.text("nearest_mode", "round_prefer_floor")
        if edit.text("mode", "nearest") != "nearest" or nearest != "floor":
            raise NotAdaptable(
                "opset 13 of ONNX no longer has coordinate_transformation_mode "
                f"tf_half_pixel_for_nn with {nearest!r}",
                "Export the model with opset 13 or later.",
            )
        changes = {
            "coordinate_transformation_mode": "half_pixel",
            "nearest_mode": "round_prefer_ceil",
        }
    inputs = list(edit.node.inputs)
    for index in (1, 2):  # an empty tensor stood for no input
        known = edit.value_of(inputs[index]) if index < len(inputs) else None
        if known is not None and known.size == 0:
            inputs[index] = None
    edit.update(inputs=inputs, attributes=changes)


@_adapter(13, "Softmax", "LogSoftmax", "Hardmax")
def softmax(edit: Edit) -> None:
    """Softmax, LogSoftmax, Hardmax: before 13 all axes from ``axis`` on counted as one."""
    (x,) = edit.inputs(1)
    axis, rank = edit.integer("axis", 1), edit.rank(x)
    if axis == -1 or (rank is not None and axis == rank - 1):
        edit.update(attributes={"axis": -1})
        return
    dims = edit.dims(x)
    if dims is not None and all(dim == 1 for dim in dims[axis:][1:]):
        edit.update(attributes={"axis": axis})
        return
    flat = edit.op("Flatten", x, axis=axis)
    result = edit.op(edit.node.op_type, flat, axis=-1)
    edit.become("Reshape", result, edit.op("Shape", x))


@_adapter(10, "Slice")
def slice_(edit: Edit) -> None:
    """Slice: starts, ends and axes were attributes before 10."""
    (x,) = edit.inputs(1)
    starts, ends = edit.integers("starts"), edit.integers("ends")
    axes = edit.integers("axes", range(len(starts)))
    edit.become("Slice", x, *(edit.constant(np.array(v, np.int64)) for v in (starts, ends, axes)))


@_adapter(10, "TopK")
def top_k(edit: Edit) -> None:
    """TopK: k was an attribute before 10."""
    (x,) = edit.inputs(1)
    k = edit.constant(np.array([edit.integer("k", 0)], np.int64))
    edit.update(inputs=[x, k], drop=("k",))


@_adapter(11, "Pad")
def pad(edit: Edit) -> None:
    """Pad: pads and value were attributes before 11."""
    (x,) = edit.inputs(1)
    pads = edit.constant(np.array(edit.integers("pads"), np.int64))
    value = edit.number("value", 0.0)
    inputs = [x, pads, edit.like(value, x)] if value else [x, pads]
    edit.update(inputs=inputs, drop=("pads", "value"))


@_adapter(11, "Clip")
def clip(edit: Edit) -> None:
    """Clip: min and max were attributes before 11."""
    (x,) = edit.inputs(1)
    bounds = [
        edit.like(edit.number(name, 0.0), x) if edit.has(name) else None for name in ("min", "max")
    ]
    edit.update(inputs=[x, *bounds], drop=("min", "max"))


@_adapter(11, "Scatter")
def scatter(edit: Edit) -> None:
    """Scatter: called ScatterElements since 11."""
    edit.become("ScatterElements", *edit.inputs(3), axis=edit.integer("axis", 0))


@_adapter(13, "Squeeze", "Unsqueeze", "ReduceSum")
@_adapter(18, *REDUCTIONS - {"ReduceSum"})
def axes_to_input(edit: Edit) -> None:
    """Squeeze, Unsqueeze and the reductions: axes were an attribute (before 13 and 18)."""
    axes = edit.integers("axes", ())
    inputs = edit.inputs(1)
    if axes:
        inputs.append(edit.constant(np.array(axes, np.int64)))
    edit.update(inputs=inputs, drop=("axes",))


@_adapter(18, "Split")
def split(edit: Edit) -> None:
    """Split: its sizes were an attribute before 13; equal parts have to be counted since 18."""
    inputs, changes = [value for value in edit.node.inputs if value is not None], {}
    if edit.has("split"):
        inputs.append(edit.constant(np.array(edit.integers("split"), np.int64)))
    elif len(inputs) == 1:
        changes["num_outputs"] = len(edit.node.outputs)
    edit.update(inputs=inputs, attributes=changes, drop=("split",))


@_adapter(9, "Scan")
def scan(edit: Edit) -> None:
    """Scan: 8 had a batch dimension and lengths of its own."""
    raise NotAdaptable(
        "newer opsets have no counterpart of Scan in opset 8",
        "Export the model with opset 9 or later.",
    )


@_adapter(16, "RoiAlign")
def roi_align(edit: Edit) -> None:
    """RoiAlign: before 16 coordinates were not shifted by half a pixel; 16 does by default."""
    edit.update(attributes={"coordinate_transformation_mode": "output_half_pixel"})


@_adapter(20, "GridSample")
def grid_sample(edit: Edit) -> None:
    """GridSample: two modes have other names since 20."""
    mode = edit.text("mode", "bilinear")
    renamed = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    edit.update(attributes={"mode": renamed})


@_adapter(20, "DFT")
def dft(edit: Edit) -> None:
    """DFT: the axis was an attribute before 20, 1 by default; it is an input now, -2 by default."""
    inputs = [*edit.node.inputs, None][:2]
    axis = edit.constant(np.array(edit.integer("axis", 1), np.int64))
    edit.update(inputs=[*inputs, axis], drop=("axis",))


@_adapter(99, "STFT")
def stft(edit: Edit) -> None:
    """STFT: onnx's shape inference takes ``onesided`` to be 0 where it is left to its default,
    which is 1; so it is written out."""
    edit.update(attributes={"onesided": edit.integer("onesided", 1)})


@_adapter(99, "GroupNormalization")
def group_normalization(edit: Edit) -> None:
    """GroupNormalization: opset 20 has none that isn't deprecated, so it is said in terms of
    InstanceNormalization over groups. 18 scales by group, 21 by channel."""
    x, scale, bias = edit.inputs(3)
    groups, epsilon = edit.integer("num_groups", 1), edit.number("epsilon", 1e-5)
    by_channel = edit.version >= 21
    grouped = edit.op("Reshape", x, edit.constant(np.array([0, groups, -1], np.int64)))
    ones, zeros = (np.full(groups, fill, np.float32) for fill in (1, 0))
    weights = (edit.like(ones, x), edit.like(zeros, x)) if by_channel else (scale, bias)
    normal = edit.op("InstanceNormalization", grouped, *weights, epsilon=epsilon)
    shape = edit.op("Shape", x)
    if by_channel:
        channels = edit.op("Shape", scale)
        around = [edit.constant(np.array([fill], np.int64)) for fill in (0, -1)]
        by_sample = edit.op("Concat", around[0], channels, around[1], axis=0)
        axis = edit.constant(np.array([1], np.int64))
        normal = edit.op("Reshape", normal, by_sample)
        normal = edit.op("Mul", normal, edit.op("Unsqueeze", scale, axis))
        normal = edit.op("Add", normal, edit.op("Unsqueeze", bias, axis))
    edit.become("Reshape", normal, shape)


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


COMPATIBLE: dict[int, frozenset[str]] = {
    8: _names("Max MaxPool Mean Min Sum"),
    9: _names("Cast Constant Flatten Gemm Greater Less MatMul PRelu"),
    10: _names("AveragePool MaxPool"),
    11: _names(
        "ArgMax ArgMin AveragePool Compress Concat Constant Conv ConvTranspose DepthToSpace "
        "Equal Flatten Gather Gemm If Loop LpPool MaxPool MaxUnpool NonMaxSuppression OneHot "
        "Scan Slice TopK"
    ),
    12: _names("ArgMax ArgMin Clip Constant GatherND Max MaxPool Min Pow"),
    13: _names(
        "Abs Add ArgMax ArgMin Cast Ceil Clip Concat Constant DepthToSpace DequantizeLinear Div "
        "Dropout Equal Erf Exp Expand Flatten Floor Gather GatherElements GatherND Gemm Greater "
        "Identity If IsNaN LRN Less Log Loop MatMul Max Mean MeanVarianceNormalization Min Mod "
        "Mul Neg NegativeLogLikelihoodLoss NonZero Pad Pow QuantizeLinear Reciprocal Relu Reshape "
        "ScatterElements ScatterND Shape Sigmoid Sign Size Slice SoftmaxCrossEntropyLoss "
        "SpaceToDepth Sqrt Sub Sum Tanh Tile Transpose"
    ),
    14: _names("Add CumSum Div GRU Identity LSTM Mul RNN Relu Reshape Sub"),
    15: _names("BatchNormalization Pow Shape"),
    16: _names(
        "GreaterOrEqual Identity If LeakyRelu LessOrEqual Loop PRelu Scan ScatterElements "
        "ScatterND Where"
    ),
    18: _names("LpPool OptionalGetElement OptionalHasElement Pad Resize ScatterElements ScatterND"),
    19: _names(
        "AveragePool Cast CastLike Constant DequantizeLinear Equal Identity If Loop Pad "
        "QuantizeLinear Reshape Resize Scan Shape Size"
    ),
    20: _names("ConstantOfShape IsInf IsNaN ReduceMax ReduceMin"),
}
"""For each opset, the operators that changed in it and need nothing done."""
