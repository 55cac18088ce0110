"""What OpenVINO has otherwise than ONNX, or not at all: by operator, as ONNX has it.

Some of it is written in other operators (:class:`Legalize`), the rest is refused. Found by the
official node tests; OpenVINO's own conversion refuses the rest (:mod:`emitters.openvino.writing`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np
import onnx_ir
from onnx_ir import DataType

from converter.errors import Unsupported
from converter.ir.attributes import text
from converter.ir.definitions import is_defined
from converter.ir.edit import all_nodes, constant, constant_tensor, is_op, static_shape
from converter.passes.legalize import REWRITES
from converter.passes.legalize.builder import key_of
from converter.passes.legalize.chain import LegalizingPass
from emitters.lowering.operators import refused_nodes

_LACKING = frozenset(
    {"AffineGrid", "CenterCropPad", "DeformConv", "Det", "MaxUnpool", "MelWeightMatrix",
     "NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"}
)  # fmt: skip
"""Operators without a conversion that can be written as others, or as ONNX defines them."""

_REWRITES = {key: rewrite for key, rewrite in REWRITES.items() if key != "ReduceMax"}
"""What a ReduceMax of nothing would be else has the same end."""

_REMEDY = "use --to onnx, or cut it out"
_DIVIDES = (
    "OpenVINO divides by a computed value as a product with 1 / y, and a number that is "
    "rounded after that can be another one"
)
_WIDE = (DataType.INT64, DataType.UINT32, DataType.UINT64)
_INTEGERS = (DataType.INT8, DataType.INT16, DataType.INT32, DataType.UINT8, DataType.UINT16, *_WIDE)
_SATURATES_RIGHTLY = ("Clip", "Max", "Min", "Slice")
_NARROW = np.iinfo(np.int32)


def why(node: onnx_ir.Node) -> str | None:
    """What OpenVINO would do otherwise of a node; None where it takes it."""
    if node.domain not in ("", "ai.onnx"):
        return None
    rule = _RULES.get(node.op_type)
    return (rule and rule(node)) or _text(node) or _wide(node)


def refusals(model: onnx_ir.Model) -> Iterator[Unsupported]:
    """All that stays otherwise, once what can be rewritten is."""
    for value in model.graph.outputs:
        if value.is_graph_input():
            why_not = "it is an unchanged input, and OpenVINO's conversion makes two inputs of it"
            yield Unsupported(value.name or "", "output", why_not, "leave that output out")
        elif value.const_value is not None and not value.const_value.size:
            why_not = "it is a constant without elements, and OpenVINO makes one number of it"
            yield Unsupported(value.name or "", "output", why_not, "leave that output out")
    yield from refused_nodes(model, why, _REMEDY)


class Legalize(LegalizingPass):
    """Brings a model to what OpenVINO computes as ONNX says."""

    name = "legalize:openvino"

    def legal(self, node: onnx_ir.Node) -> bool:
        """Whether OpenVINO takes it as it is."""
        return why(node) is None

    def wanted(self, graph: onnx_ir.Model) -> bool:
        """Whether there is anything to rewrite."""
        return any(_can_be_other(node) and not self.legal(node) for node in all_nodes(graph))

    def chain(self, model: onnx_ir.Model) -> None:
        """Operators written out as ONNX defines them, and the rewrites."""
        self.write_out(
            model, lambda node: node.op_type in _LACKING and key_of(node) not in _REWRITES
        )
        self.legalize(model, self.legal, _REWRITES)


def _can_be_other(node: onnx_ir.Node) -> bool:
    return key_of(node) in _REWRITES or (node.op_type in _LACKING and is_defined(node.op_type, 20))


def _resize(node: onnx_ir.Node) -> str | None:
    told = {name: item.value for name, item in node.attributes.items()}
    way = told.get("coordinate_transformation_mode", "half_pixel")
    if way in ("tf_crop_and_resize", "half_pixel_symmetric"):
        return f"OpenVINO has no coordinates {way}"
    if told.get("antialias"):
        return "OpenVINO's antialiasing has other weights"
    if told.get("exclude_outside") and told.get("mode") == "cubic":
        return "OpenVINO's cubic weights count the pixels outside of the image"
    if told.get("keep_aspect_ratio_policy", "stretch") != "stretch":
        return "OpenVINO doesn't keep aspect ratios"
    return None


def _pool(node: onnx_ir.Node) -> str | None:
    """Where ONNX leaves out a last window that begins in the padding, and OpenVINO may not."""
    attributes = node.attributes
    if not attributes.get_int("ceil_mode", 0):
        return None
    kernel = attributes.get_ints("kernel_shape")
    ones, zeros = [1] * len(kernel), [0] * 2 * len(kernel)
    strides, steps = (attributes.get_ints(n, ones) for n in ("strides", "dilations"))
    ends = attributes.get_ints("pads", zeros)[len(kernel) :]
    spans = [(size - 1) * step + 1 for size, step in zip(kernel, steps, strict=True)]
    if all(e + s - 1 < span for e, s, span in zip(ends, strides, spans, strict=True)):
        return None
    return "OpenVINO counts a last window that begins in the padding"


def _transposed(node: onnx_ir.Node) -> str | None:
    """Where OpenVINO's CPU makes a Pad before it pads of its own (seen in 2026.4)."""
    if text(node, "auto_pad", "NOTSET").startswith("SAME"):
        return "OpenVINO's padding of transposed convolutions by auto_pad is another"
    maker = node.inputs[0].producer() if node.inputs[0] is not None else None
    pads, strides = (node.attributes.get_ints(name, ()) for name in ("pads", "strides"))
    if is_op(maker, "Pad") and any(pads) and any(step > 1 for step in strides):
        return "OpenVINO joins the Pad before it to its own padding, and gives another size"
    return None


def _round(node: onnx_ir.Node) -> str | None:
    value = node.inputs[0]
    maker = value.producer() if value is not None else None
    divides = maker is not None and is_op(maker, "Div")
    by = maker.inputs[1] if divides and maker is not None else None
    return _DIVIDES if divides and constant_tensor(by) is None else None


def _nms(node: onnx_ir.Node) -> str | None:
    given = node.inputs[3] if len(node.inputs) > 3 else None
    if given is None or constant_tensor(given) is not None:
        return None
    return "OpenVINO drops boxes whose overlap equals the threshold, and the scores aren't constant"


def _largest(node: onnx_ir.Node) -> str | None:
    data = node.inputs[0]
    held = constant_tensor(data)
    shape = held.shape if held is not None else data.shape if data is not None else None
    empty = shape is not None and 0 in shape
    return "OpenVINO's largest of nothing isn't minus infinity" if empty else None


def _cast(node: onnx_ir.Node) -> str | None:
    types = {value.dtype for value in (node.inputs[0], node.outputs[0]) if value is not None}
    doubles = DataType.DOUBLE in types and len(types) > 1
    return "OpenVINO's CPU has no float64, and infinities in it become numbers" if doubles else None


def _dft(node: onnx_ir.Node) -> str | None:
    told = {name: item.value for name, item in node.attributes.items()}
    data, axis = node.inputs[0], constant(node.inputs[2]) if len(node.inputs) > 2 else np.array(-2)
    first = axis is not None and (
        axis == 1 or (data is not None and data.shape is not None and axis + len(data.shape) == 1)
    )
    if first or not (told.get("inverse") and told.get("onesided")):
        return None
    return "OpenVINO only has an inverse real DFT along the first axis after the batch"


def _unless(takes: Callable[[onnx_ir.Node], bool], told: str) -> Callable[..., str | None]:
    return lambda node: None if takes(node) else told


_RULES: Mapping[str, Callable[[onnx_ir.Node], str | None]] = {
    **dict.fromkeys(_LACKING, lambda node: "OpenVINO has no such operator"),
    "AveragePool": _pool,
    "Cast": _cast,
    "CastLike": _cast,
    "ConvTranspose": _transposed,
    "DFT": _dft,
    "Dropout": _unless(
        lambda n: n.inputs[0] is None or not n.inputs[0].is_graph_input(),
        "OpenVINO's conversion calls the input as it calls the output",
    ),
    "DynamicQuantizeLinear": lambda node: _DIVIDES,
    "GridSample": _unless(
        lambda n: len(static_shape(n.inputs[0]) or ()) == 4, "OpenVINO only samples 2-D grids"
    ),
    "If": lambda node: (
        "OpenVINO's CPU plug-in returns arbitrary memory for results of some branches"
    ),
    "LSTM": _unless(lambda n: not any(n.inputs[7:]), "OpenVINO's LSTM has no peepholes"),
    "LpNormalization": lambda node: "OpenVINO adds to the norm that it divides by",
    "MaxPool": _pool,
    "NonMaxSuppression": _nms,
    "Pad": _unless(
        lambda n: text(n, "mode", "constant") != "wrap", "OpenVINO has no padding that wraps"
    ),
    "Pow": _unless(
        lambda n: not any(v is not None and v.dtype in _INTEGERS for v in n.inputs[:1]),
        "OpenVINO's CPU raises integers to powers in float32",
    ),
    "QuantizeLinear": _unless(lambda n: constant_tensor(n.inputs[1]) is not None, _DIVIDES),
    "ReduceMax": _largest,
    "Resize": _resize,
    "Round": _round,
}


def _text(node: onnx_ir.Node) -> str | None:
    values = [value for value in (*node.inputs, *node.outputs) if value is not None]
    holds = any(value.dtype == DataType.STRING for value in values)
    return "OpenVINO's CPU computes nothing of text" if holds else None


def _wide(node: onnx_ir.Node) -> str | None:
    """Whether a constant has integers that 32 bits don't hold, where that counts."""
    if node.op_type in _SATURATES_RIGHTLY:
        return None
    for value in node.inputs:
        if value is None or value.dtype not in _WIDE:
            continue
        held = constant(value)
        if (
            held is not None
            and held.size
            and (held.max() > _NARROW.max or held.min() < _NARROW.min)
        ):
            return "OpenVINO's CPU computes integers in 32 bits, and a constant has more"
    return None
