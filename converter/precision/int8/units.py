"""What a target computes in one int8 kernel: an operator and what it takes in behind it.

    Conv -> Relu                 the range is taken after the Relu
    MatMul -> Add(bias) -> Clip  nothing is quantized in between

Quantizing between them would cut the kernel in two, round twice, and take the range of numbers
that the Relu or Clip throws away. So what is folded can't stay in float32 alone: it goes with its
operator.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir

from converter.ir.edit import attribute_int, constant, constant_tensor, is_op
from converter.ir.facts import INTEGER_PRODUCTS
from converter.precision.int8.scheme import CLIPPING_OPS, Scheme

Array = np.ndarray[Any, Any]

QUANTIZED_OPS = INTEGER_PRODUCTS | {"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"}
"""Operators that say that a model holds integers already."""

_ACTIVATION_INPUTS = {"Clip": (0,), "ReduceMean": (0,)}
"""Operators that have float inputs, or could, besides those that are activations."""


@dataclass(frozen=True, eq=False)
class Unit:
    """An operator that can be int8, and what it takes in.

    Attributes:
        node: The operator.
        weight: Its input that holds constant weights; None without.
        axis: The weights' output channels; None for one scale.
        bias: The node and input that hold its constant bias; None without.
        activations: Inputs that are activations.
        constants: Inputs that are constant, and quantized as activations are.
        folded: A bias Add, a Relu or Clip behind it, in order.
        end: What it hands on.
    """

    node: onnx_ir.Node
    weight: int | None
    axis: int | None
    bias: tuple[onnx_ir.Node, int] | None
    activations: tuple[int, ...]
    constants: tuple[int, ...]
    folded: tuple[onnx_ir.Node, ...]
    end: onnx_ir.Value


def matrix_unit(node: onnx_ir.Node, scheme: Scheme) -> Unit | str:
    """The unit around a matrix operator, or why it stays in float32."""
    constants = [_is_known(value) for value in node.inputs]
    if node.op_type == "MatMul":
        return _matmul(node, scheme)
    if constants[0]:
        return "its input is constant"
    if not constants[1]:
        return "its weights are computed"
    problem = _weight_problem(node.inputs[1]) or _bias_problem(node)
    if problem:
        return problem
    axis = _weight_axis(node) if scheme.per_channel else None
    bias = (node, 2) if len(node.inputs) > 2 and node.inputs[2] is not None else None
    folded = _clip(node.outputs[0])
    end = folded[-1].outputs[0] if folded else node.outputs[0]
    return Unit(node, 1, axis, bias, (0,), (), folded, end)


def _matmul(node: onnx_ir.Node, scheme: Scheme) -> Unit | str:
    left, right = (_is_known(value) for value in node.inputs)
    if left and right:
        return "its inputs are constant"
    weight, axis, bias = None, None, None
    folded: tuple[onnx_ir.Node, ...] = ()
    end = node.outputs[0]
    if right:
        problem = _weight_problem(node.inputs[1])
        if problem:
            return problem
        weight, rank = 1, len(_shape(node.inputs[1]))
        if rank < 2:
            return "its weights are a vector"
        axis = 1 if scheme.per_channel and rank == 2 else None
        bias = _bias_add(node)
        folded = (bias[0],) if bias else ()
        end = folded[0].outputs[0] if folded else end
    clip = _clip(end)
    end = clip[0].outputs[0] if clip else end
    activations = tuple(i for i, fixed in enumerate((left, right)) if not fixed)
    return Unit(node, weight, axis, bias, activations, (0,) if left else (), folded + clip, end)


def merges(unit: Unit, scheme: Scheme) -> bool:
    """Whether a MatMul and its bias are one Gemm to the target: both have two dimensions."""
    first = unit.node.inputs[0]
    two = first is not None and first.shape is not None and len(first.shape) == 2
    return scheme.merges_bias and unit.bias is not None and unit.node.op_type == "MatMul" and two


def other_unit(node: onnx_ir.Node) -> Unit | str:
    """The unit around an operator without weights, or why it stays in float32."""
    indices = _ACTIVATION_INPUTS.get(node.op_type, tuple(range(len(node.inputs))))
    inputs = [i for i in indices if node.inputs[i] is not None and is_float(node.inputs[i])]
    constants = tuple(i for i in inputs if _is_known(node.inputs[i]))
    activations = tuple(i for i in inputs if i not in constants)
    if not activations:
        return "its inputs are constant"
    problems = [_weight_problem(node.inputs[i]) for i in constants]
    if any(problems):
        return next(problem for problem in problems if problem)
    if len(node.outputs) != 1:
        return "it has several outputs"
    folded = () if node.op_type in CLIPPING_OPS else _clip(node.outputs[0])
    end = folded[-1].outputs[0] if folded else node.outputs[0]
    return Unit(node, None, None, None, activations, constants, folded, end)


# -- questions to values -------------------------------------------------------------


def is_float(value: onnx_ir.Value | None) -> bool:
    """Whether a value is float32."""
    if value is None:
        return False
    tensor = constant_tensor(value) if value.dtype is None else None
    return (value.dtype if tensor is None else tensor.dtype) == onnx_ir.DataType.FLOAT


def _is_known(value: onnx_ir.Value | None) -> bool:
    """Whether a value is an initializer that no caller may feed, or a Constant's tensor."""
    return constant_tensor(value) is not None


def sole_use(value: onnx_ir.Value) -> onnx_ir.Node | None:
    """The one node that reads a value; None where there are others, or it is an output."""
    uses = list(value.uses())
    if len(uses) != 1 or value.is_graph_output():
        return None
    node = uses[0].node
    producer = value.producer()
    return node if producer is not None and node.graph is producer.graph else None


def clip_bounds(node: onnx_ir.Node) -> tuple[float, float] | None:
    """The bounds of a Relu, or of a Clip with constant ones; None for anything else."""
    if is_op(node, "Relu"):
        return 0.0, float("inf")
    if not is_op(node, "Clip"):
        return None
    bounds = [-float("inf"), float("inf")]
    for i, value in enumerate(node.inputs[1:3]):
        if value is None:
            continue
        array = constant(value)
        if array is None or array.size != 1:
            return None
        bounds[i] = float(array.reshape(-1)[0])
    return bounds[0], bounds[1]


def _clip(value: onnx_ir.Value) -> tuple[onnx_ir.Node, ...]:
    node = sole_use(value)
    if node is None or not is_op(node, *CLIPPING_OPS):
        return ()
    bounds = clip_bounds(node)
    return (node,) if bounds and bounds[0] <= 0.0 <= bounds[1] else ()


def _bias_add(node: onnx_ir.Node) -> tuple[onnx_ir.Node, int] | None:
    """The Add behind a MatMul that adds one number for each output channel."""
    after = sole_use(node.outputs[0])
    if after is None or not is_op(after, "Add"):
        return None
    index = 1 if after.inputs[0] is node.outputs[0] else 0
    shape = _shape(after.inputs[index]) if _is_known(after.inputs[index]) else ()
    channels = _shape(node.inputs[1])[-1]
    return (after, index) if shape == (channels,) and is_float(after.inputs[index]) else None


def _shape(value: onnx_ir.Value | None) -> tuple[int, ...]:
    tensor = constant_tensor(value)
    assert tensor is not None
    return tuple(int(size) for size in tensor.shape.numpy())


def _weight_axis(node: onnx_ir.Node) -> int:
    if node.op_type == "Gemm":
        return 0 if attribute_int(node, "transB", 0) else 1
    return 1 if node.op_type == "ConvTranspose" else 0


def _weight_problem(value: onnx_ir.Value | None) -> str | None:
    tensor = constant_tensor(value)
    if tensor is None or not is_float(value):
        return "its weights are not float32"
    if not tensor.size:
        return "its weights are empty"
    if not np.isfinite(tensor.numpy()).all():
        return "its weights hold NaN or infinity"
    return None


def _bias_problem(node: onnx_ir.Node) -> str | None:
    if node.op_type == "Gemm" and attribute_int(node, "transA", 0):
        return "its input is transposed"
    if len(node.inputs) < 3 or node.inputs[2] is None:
        return None
    if not _is_known(node.inputs[2]):
        return "its bias is computed"
    problem = _weight_problem(node.inputs[2])
    if problem:
        return problem.replace("weights", "bias").replace("are", "is").replace("hold", "holds")
    shape = _shape(node.inputs[2])
    if node.op_type == "Gemm" and math.prod(shape) != 1 and shape[-1] != math.prod(shape):
        return "its bias isn't one number for each output"
    return None
