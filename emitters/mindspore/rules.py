"""What MindSpore Lite's reader of ONNX has, and what of ONNX's later operators it reads as older.

The reader goes by an operator's name and takes no notice of the opset: of an operator that ONNX has
changed since, it reads what it knows. What came later is written as it was before; what it reads
otherwise is rewritten or refused. Found by the official node tests, on mindspore-lite 2.0.0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import prod

import numpy as np
import onnx_ir
from onnx_ir import DataType

from converter.errors import Unsupported
from converter.ir.definitions import is_defined
from converter.ir.edit import all_nodes, constant_tensor, integers
from converter.passes.legalize import REWRITES, why_illegal
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
    rule = _RULES.get(node.op_type)
    return rule(node) if rule else None


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


def _bounds(node: onnx_ir.Node) -> str | None:
    return None if len(node.inputs) == 3 and all(node.inputs) else "MindSpore Lite takes two bounds"


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


def refusals(model: onnx_ir.Model) -> Iterator[Unsupported]:
    """Every node that the reader takes otherwise, or not at all."""
    for node in all_nodes(model):
        if (reason := why(node)) is not None:
            known = why_illegal(node)
            op = f"{node.domain}::{node.op_type}" if node.domain else node.op_type
            yield Unsupported(node.name or "", op, reason, known.hint if known else REMEDY)


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


def _four_axes(node: onnx_ir.Node) -> str | None:
    shape = node.inputs[0].shape if node.inputs[0] is not None else None
    return None if shape is not None and len(shape) == 4 else "MindSpore Lite has it of four axes"


def _axes(node: onnx_ir.Node) -> str | None:
    axes = node.inputs[1] if len(node.inputs) > 1 else None
    if axes is not None and not integers(axes):
        return "MindSpore Lite takes axes that are constant"
    return None


def _weights(node: onnx_ir.Node) -> str | None:
    if all(value is None or constant_tensor(value) is not None for value in node.inputs[1:]):
        return None
    return "MindSpore Lite takes it with weights that are constant"


def _average(node: onnx_ir.Node) -> str | None:
    counts = node.attributes.get_int("count_include_pad", 0)
    pads = any(node.attributes.get_ints("pads", []))
    return "MindSpore Lite doesn't count the padding" if counts and pads else _window(node)


def _window(node: onnx_ir.Node) -> str | None:
    ceiled = node.attributes.get_int("ceil_mode", 0)
    return "MindSpore Lite rounds the number of windows down" if ceiled else None


def _transposed(node: onnx_ir.Node) -> str | None:
    return "MindSpore Lite knows no output_shape" if "output_shape" in node.attributes else None


def _flatten(node: onnx_ir.Node) -> str | None:
    first = node.attributes.get_int("axis", 1) == 1
    return None if first else "MindSpore Lite flattens from the second axis on"


def _gather(node: onnx_ir.Node) -> str | None:
    return "MindSpore Lite has no batch_dims" if node.attributes.get_int("batch_dims", 0) else None


def _matrices(node: onnx_ir.Node) -> str | None:
    shapes = [value.shape for value in node.inputs if value is not None]
    if all(shape is not None and len(shape) > 1 for shape in shapes):
        return None
    return "MindSpore Lite multiplies no vectors"


def _arg(node: onnx_ir.Node) -> str | None:
    last = node.attributes.get_int("select_last_index", 0)
    return "MindSpore Lite gives the first of equal values" if last else None


def _power(node: onnx_ir.Node) -> str | None:
    one, other = (value.dtype if value is not None else None for value in node.inputs)
    return None if one == other else "MindSpore Lite has powers of one type"


def _scatter(node: onnx_ir.Node) -> str | None:
    places = constant_tensor(node.inputs[1])
    reduces = node.attributes.get_string("reduction", "none") != "none"
    if reduces or places is None or (places.numpy() < 0).any():
        return "MindSpore Lite replaces, at constant indices from 0 on"
    return None


def _shape(node: onnx_ir.Node) -> str | None:
    cut = "start" in node.attributes or "end" in node.attributes
    return "MindSpore Lite gives all sizes" if cut else None


def _slice(node: onnx_ir.Node) -> str | None:
    steps = integers(node.inputs[4]) if len(node.inputs) > 4 else [1]
    return None if steps and min(steps) > 0 else "MindSpore Lite only steps forwards"


_RULES: Mapping[str, Callable[[onnx_ir.Node], str | None]] = {
    **dict.fromkeys((*_REDUCES, "Squeeze", "Unsqueeze"), _axes),
    **dict.fromkeys(("BatchNormalization", "LSTM", "PRelu", "Split"), _weights),
    "Clip": lambda node: _bounds(node) or _weights(node),
    "ConvTranspose": _transposed,
    "Flatten": _flatten,
    "GatherND": _gather,
    "MatMul": _matrices,
    "MaxPool": _window,
    "Pow": _power,
    "ScatterND": _scatter,
    "Shape": _shape,
    "Slice": _slice,
    "ArgMax": _arg,
    "AveragePool": _average,
    "InstanceNormalization": _four_axes,
}
