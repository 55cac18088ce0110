"""What MindSpore Lite's reader of ONNX has, and what of ONNX's later operators it reads as older.

The reader goes by an operator's name and takes no notice of the opset: of an operator that ONNX has
changed since, it reads what it knows. What came later is written as it was before; what it reads
otherwise is rewritten or refused. Found by the official node tests, on mindspore-lite 2.0.0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

import numpy as np
import onnx_ir
from onnx_ir import DataType

from converter.ir.attributes import ints, number, text
from converter.ir.definitions import is_defined
from converter.ir.edit import all_nodes, constant_tensor, integers
from converter.passes.legalize import REWRITES
from converter.passes.legalize.builder import Builder, Value, key_of
from converter.passes.legalize.chain import LegalizingPass
from emitters.lowering.folding import fold_constants
from emitters.lowering.walking import name_nodes

_READ = frozenset(
    {"Abs", "Add", "And", "ArgMax", "AveragePool", "BatchNormalization",
     "Cast", "Ceil", "Clip", "Concat", "ConstantOfShape", "Conv", "ConvTranspose", "Cos", "CumSum",
     "DepthToSpace", "Div", "Equal", "Erf", "Exp", "Expand", "Flatten", "Floor", "Gather",
     "GatherElements", "GatherND", "Gemm", "GlobalAveragePool", "GlobalMaxPool", "Greater",
     "HardSwish", "Identity", "InstanceNormalization", "LRN", "LSTM", "LeakyRelu",
     "Less", "Log", "LogSoftmax", "MatMul", "Max", "MaxPool", "Min", "Mul", "Neg",
     "NonZero", "Not", "OneHot", "Or", "PRelu", "Pad", "Pow", "Range",
     "Reciprocal", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "Relu",
     "Reshape", "ScatterND", "Shape", "Sigmoid", "Sin", "Slice",
     "Softmax", "Softplus", "Split", "Sqrt", "Squeeze", "Sub", "Sum", "Tan", "Tanh", "Tile", "TopK",
     "Transpose", "Unsqueeze", "Where", "Xor"}
)  # fmt: skip
"""Operators that the reader has and the runtime computes as ONNX says, but for :data:`_RULES`."""

_REDUCES = ("ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum")
REMEDY = "use --to onnx, or openvino"


def why(node: onnx_ir.Node) -> str | None:
    """Why the reader takes a node otherwise, or not at all; None where it takes it."""
    if node.domain not in ("", "ai.onnx") or node.op_type not in _READ:
        return "it wasn't seen to work in MindSpore Lite"
    takes, told = _RULES.get(node.op_type, (lambda node: True, ""))
    return None if takes(node) else f"MindSpore Lite {told}"


class Legalize(LegalizingPass):
    """Brings a model to what the reader has."""

    name = "legalize:mindspore"

    def legal(self, node: onnx_ir.Node) -> bool:
        """Whether the reader takes it as it is."""
        return why(node) is None

    def chain(self, model: onnx_ir.Model) -> None:
        """Operators written out as ONNX defines them, constants folded; the rewrites."""
        if self.write_out(model, _is_written_out):
            name_nodes(model)
        fold_constants(model)
        self.legalize(model, self.legal, _REWRITES)


def _elu(b: Builder, node: onnx_ir.Node) -> Value:
    """Relu(x) + alpha (exp(min(x, 0)) - 1): MindSpore Lite gives 0 below 0."""
    x = node.inputs[0]
    assert x is not None
    low = b.op("Sub", b.op("Exp", b.op("Min", x, b.number(0, x))), b.number(1, x))
    alpha = b.number(node.attributes.get_float("alpha", 1.0), x)
    return b.op("Add", b.op("Relu", x), b.op("Mul", low, alpha))


def _clip(b: Builder, node: onnx_ir.Node) -> Value | None:
    """As its bounds are given: MindSpore Lite has 0 in the place of one that isn't."""
    x, *bounds = node.inputs
    for op, bound in zip(("Max", "Min"), bounds, strict=False):
        x = x if bound is None else b.op(op, x, bound)
    return x


def _flat(b: Builder, node: onnx_ir.Node) -> Value | None:
    x, axis = node.inputs[0], node.attributes.get_int("axis", 1)
    if x is None or x.shape is None or not x.shape.is_static():
        return None
    first = prod(x.shape.numpy()[:axis])
    return b.op("Reshape", x, np.array([first, -1]))


def _largest(b: Builder, node: onnx_ir.Node) -> Value | None:
    """-min(-x): MindSpore Lite begins at the smallest number above 0."""
    x = node.inputs[0]
    if x is None or x.dtype == DataType.BOOL:
        return None
    axes = node.inputs[1] if len(node.inputs) > 1 else None
    told = {name: item.value for name, item in node.attributes.items()}
    return b.op("Neg", b.op("ReduceMin", b.op("Neg", x), axes, **told))


_REWRITES = {
    **{key: made for key, made in REWRITES.items() if key not in _REDUCES},
    "Elu": _elu,
    "Clip": _clip,
    "Flatten": _flat,
    "ReduceMax": _largest,
}
"""Without those that only others' axes need: what they give has axes that aren't known, too."""


def as_before(model: onnx_ir.Model) -> None:
    """Writes what ONNX has changed since opset 13 as it was then, and what the reader doesn't take
    by default, in place."""
    for node in all_nodes(model):
        if node.op_type in (*_REDUCES, "Squeeze", "Unsqueeze") and len(node.inputs) > 1:
            node.attributes["axes"] = onnx_ir.AttrInt64s("axes", integers(node.inputs[1]) or [])
            node.resize_inputs(1)
        elif node.op_type in ("Conv", "ConvTranspose"):
            _spell_windows(node)
        elif node.op_type == "Split":
            _spell_sizes(node)
    model.opset_imports[""] = 13


def _is_written_out(node: onnx_ir.Node) -> bool:
    return (
        node.op_type not in _READ and key_of(node) not in _REWRITES and is_defined(node.op_type, 20)
    )


def _spell_windows(node: onnx_ir.Node) -> None:
    weight = node.inputs[1]
    assert weight is not None and weight.shape is not None
    kernel = [int(size) for size in weight.shape.numpy()[2:]]
    ones = [1] * len(kernel)
    for name, usual in (("kernel_shape", kernel), ("strides", ones), ("dilations", ones)):
        node.attributes.setdefault(name, onnx_ir.AttrInt64s(name, usual))
    node.attributes.setdefault("group", onnx_ir.AttrInt64("group", 1))


def _spell_sizes(node: onnx_ir.Node) -> None:
    axis = node.attributes.get_int("axis", 0)
    given = integers(node.inputs[1]) if len(node.inputs) > 1 else None
    sizes = given or [int(value.shape.numpy()[axis]) for value in node.outputs if value.shape]
    node.attributes.pop("num_outputs", None)
    node.attributes["split"] = onnx_ir.AttrInt64s("split", sizes)
    node.resize_inputs(1)


def _rank(node: onnx_ir.Node, place: int = 0) -> int | None:
    value = node.inputs[place]
    return None if value is None or value.shape is None else len(value.shape)


def _has_axes(node: onnx_ir.Node) -> bool:
    axes = node.inputs[1] if len(node.inputs) > 1 else None
    return axes is None or bool(integers(axes))


def _has_weights(node: onnx_ir.Node) -> bool:
    return all(value is None or constant_tensor(value) is not None for value in node.inputs[1:])


def _is_dense(node: onnx_ir.Node) -> bool:
    """Whether an average doesn't count padding."""
    counts = number(node, "count_include_pad", 0)
    return not (counts and any(ints(node, "pads", ()))) and not number(node, "ceil_mode", 0)


def _puts(node: onnx_ir.Node) -> bool:
    """Whether it puts values at constant places."""
    places = constant_tensor(node.inputs[1])
    reduces = text(node, "reduction", "none") != "none"
    return not reduces and places is not None and not (places.numpy() < 0).any()


def _goes_forwards(node: onnx_ir.Node) -> bool:
    steps = integers(node.inputs[4]) if len(node.inputs) > 4 else [1]
    return bool(steps) and min(steps or [0]) > 0


_RULES: Mapping[str, tuple[Callable[[onnx_ir.Node], bool], str]] = {
    **dict.fromkeys(
        (*_REDUCES, "Squeeze", "Unsqueeze"), (_has_axes, "takes axes that are constant")
    ),
    **dict.fromkeys(
        ("BatchNormalization", "LSTM", "PRelu", "Split"),
        (_has_weights, "takes it with weights that are constant"),
    ),
    "ArgMax": (lambda n: not number(n, "select_last_index", 0), "gives the first of equal values"),
    "AveragePool": (_is_dense, "counts no padding, and rounds the number of windows down"),
    "Clip": (
        lambda n: len(n.inputs) == 3 and all(n.inputs) and _has_weights(n),
        "takes two bounds that are constant",
    ),
    "ConvTranspose": (lambda n: "output_shape" not in n.attributes, "knows no output_shape"),
    "Flatten": (lambda n: number(n, "axis", 1) == 1, "flattens from the second axis on"),
    "GatherND": (lambda n: not number(n, "batch_dims", 0), "has no batch_dims"),
    "InstanceNormalization": (lambda n: _rank(n) == 4, "has it of four axes"),
    "MatMul": (lambda n: min(_rank(n) or 0, _rank(n, 1) or 0) > 1, "multiplies no vectors"),
    "MaxPool": (lambda n: not number(n, "ceil_mode", 0), "rounds the number of windows down"),
    "Pow": (
        lambda n: len({v.dtype for v in n.inputs if v is not None}) == 1,
        "has powers of one type",
    ),
    "ScatterND": (_puts, "replaces, at constant indices from 0 on"),
    "Shape": (lambda n: not n.attributes.keys() & {"start", "end"}, "gives all sizes"),
    "Slice": (_goes_forwards, "steps forwards alone"),
}
"""What of an operator MindSpore Lite takes, and that in words."""
