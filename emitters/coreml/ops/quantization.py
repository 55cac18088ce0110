"""QuantizeLinear and DequantizeLinear, and weights that stay compressed in the package.

What QuantizeLinear gives is held in int8 or uint8 for the DequantizeLinear behind it; to any other
operator it is int32, as integers are everywhere else (:meth:`Context.hold`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir

from converter.ir.edit import attribute_int, is_op
from converter.ir.refused import Refused
from emitters.coreml.compressed import DOMAIN, is_recurrent
from emitters.coreml.constexpr import OLDEST, blocks, lookup
from emitters.coreml.context import Context, Var, free
from emitters.coreml.registry import lowers
from emitters.coreml.types import Array, DataType

EIGHT = (DataType.INT8, DataType.UINT8)
_QUANTIZES = 17
"""The oldest system with quantize and dequantize."""


@dataclass(frozen=True)
class Scale:
    """Constant scales and zero points.

    Attributes:
        scale, zero: Arrays of no axes, or of one number for each place along ``axis``.
        axis: None for one scale.
    """

    scale: Array
    zero: Array
    axis: int | None

    def same(self, other: Scale) -> bool:
        """Whether integers of both, of one type, stand for the same numbers."""
        return (
            self.axis == other.axis
            and np.array_equal(self.scale, other.scale)
            and np.array_equal(self.zero, other.zero)
        )


@lowers("QuantizeLinear")
def quantize(context: Context, node: onnx_ir.Node) -> None:
    """quantize, which takes constant scales; elsewhere clip(round(x / scale) + zero point)."""
    x, output = context.var(node.inputs[0]), node.outputs[0]
    dtype, known = context.dtype(output), _scale(context, node)
    if dtype in EIGHT and known is not None and _takes(context, x, known):
        held = _unchanged(context, node, known, dtype)
        name = "int8" if dtype == DataType.INT8 else "uint8"
        if held is None:
            held = context.op("quantize", input=x, output_dtype=name, **_settings(known))
        context.hold(output, held)
        return
    if dtype not in EIGHT:
        raise Refused(f"a QuantizeLinear to {dtype.name.lower()}", "use int8 or uint8")
    scale, zero = _broadcast(context, node, x)
    ratio = context.op(
        "real_div", x=context.cast(x, "fp32"), y=context.cast(scale, "fp32")
    )  # float16's own quotients would round twice
    made = context.op("round", x=ratio)
    if zero is not None:
        made = context.op("add", x=made, y=context.cast(zero, "fp32"))
    info = np.iinfo(dtype.numpy())
    made = context.op("maximum", x=made, y=np.float32(info.min))
    made = context.op("minimum", x=made, y=np.float32(info.max))
    context.give(output, context.cast(made, "int32"))


@lowers("DequantizeLinear")
def dequantize(context: Context, node: onnx_ir.Node) -> None:
    """dequantize of what quantize gave; of int8 and uint8 constants, a constant that stays as
    small in the package; of other constants, the real numbers; else (x - zero point) * scale."""
    source, output = node.inputs[0], node.outputs[0]
    known = _scale(context, node)
    stored = context.array(source)
    if stored is not None and known is not None:
        small = stored.dtype.itemsize == 1 and stored.ndim
        made = packed(context, output) if small else None
        context.give(output, made or context.const(_real(stored, known), output.name or ""))
        return
    held = context.held(source)
    if held is not None and known is not None and _takes(context, held, known):
        context.give(output, context.op("dequantize", input=held, **_settings(known)))
        return
    x = context.var(source)
    if context.type_of(x) != "int32":
        raise Refused(f"a DequantizeLinear of {context.dtype(source)}", "use int8 or uint8")
    scale, zero = _broadcast(context, node, x)
    shifted = x if zero is None else context.op("sub", x=x, y=zero)
    made = context.op("mul", x=context.cast(shifted, "fp32"), y=context.cast(scale, "fp32"))
    context.give(output, context.cast(made, context.type_of(scale)))


@lowers("Blocks", "Lookup", "BlockLookup", domain=DOMAIN)
def compressed(context: Context, node: onnx_ir.Node) -> None:
    """int8 or int4 numbers with a scale for each block, or indices into a table for each; those
    of recurrent operators are made for one direction after the other."""
    output = node.outputs[0]
    if is_recurrent(output):
        context.program.apart.add(output)
        return
    context.give(output, packed(context, output))
    if any(use.node.graph is not node.graph for use in output.uses()) and context.rank(output) == 2:
        context.program.turned[output] = packed(context, output, (1, 0))


def packed(
    context: Context, value: onnx_ir.Value | None, perm: Sequence[int] | None = None
) -> Var | None:
    """A weight that stays compressed in the package; None where a value isn't one.

    Args:
        context: Where it goes.
        value: What may be a weight that is quantized or palettized.
        perm: The order that its axes are stored in; None: their own.

    Raises:
        Refused: The target has no such weights.
    """
    node = value.producer() if value is not None else None
    if node is None or (node.domain != DOMAIN and not is_op(node, "DequantizeLinear")):
        return None
    parts = [context.array(node.inputs[index]) for index in (0, 1)]
    if is_op(node, "DequantizeLinear"):
        known = _scale(context, node)
        if parts[0] is None or known is None or parts[0].dtype.itemsize != 1:
            return None
        parts = [parts[0], *_spread(known, parts[0].ndim)]
    arrays = [part for part in parts if part is not None]
    if perm is not None:
        arrays = [array.transpose([*perm, *range(len(perm), array.ndim)]) for array in arrays]
    arrays = [np.ascontiguousarray(array) for array in arrays]
    name = node.outputs[0].name or "weight"
    return (blocks if node.op_type in ("Blocks", "DequantizeLinear") else lookup)(
        context, name, *arrays
    )


def is_packed(context: Context, value: onnx_ir.Value | None) -> bool:
    """Whether :func:`packed` gives a constant that Core ML unpacks by itself."""
    node = value.producer() if value is not None else None
    if context.target < OLDEST or node is None:
        return False
    stored = context.array(node.inputs[0]) if is_op(node, "DequantizeLinear") else None
    if stored is None or stored.dtype.itemsize != 1:
        return node.domain == DOMAIN
    return _scale(context, node) is not None


def _spread(known: Scale, rank: int) -> tuple[Array, Array]:
    """Scales and zero points with as many axes as what they belong to."""
    shape = [-1 if axis == known.axis else 1 for axis in range(rank)]
    return known.scale.reshape(shape), known.zero.reshape(shape)


def _real(stored: Array, known: Scale) -> Array:
    scale, zero = _spread(known, stored.ndim)
    whole = (stored.astype(np.int64) - zero).astype(np.float32)
    real: Array = (whole * scale.astype(np.float32)).astype(scale.dtype)
    return real


def _scale(context: Context, node: onnx_ir.Node) -> Scale | None:
    """A node's scales and zero points; None where they are computed.

    Raises:
        Refused: There is one for each block.
    """
    if attribute_int(node, "block_size", 0):
        raise Refused(f"a {node.op_type} with a scale for each block", "use one for each channel")
    scale = context.array(node.inputs[1])
    zero = None
    if len(node.inputs) > 2 and node.inputs[2] is not None:
        zero = context.array(node.inputs[2])
        if zero is None:
            return None
    if scale is None:
        return None
    if zero is None:
        whole = node.outputs[0] if node.op_type == "QuantizeLinear" else node.inputs[0]
        zero = np.zeros(scale.shape, context.dtype(whole).numpy())
    if scale.size == 1:
        return Scale(scale.reshape(()), zero.reshape(()), None)
    axis = (attribute_int(node, "axis", 1) or 0) % context.rank(node.inputs[0])
    return Scale(scale, zero, axis)


def _takes(context: Context, x: Var, known: Scale) -> bool:
    """Whether quantize and dequantize of MIL are there for a tensor with these scales."""
    if context.target < _QUANTIZES or not len(x.shape) or np.any(known.scale == 0):
        return False
    return known.axis is None or not free(x.shape[known.axis])


def _settings(known: Scale) -> dict[str, Array | np.int32 | None]:
    zero = known.zero if np.any(known.zero) else None
    axis = None if known.axis is None else np.int32(known.axis)
    return {"scale": known.scale, "zero_point": zero, "axis": axis}


def _unchanged(context: Context, node: onnx_ir.Node, known: Scale, dtype: DataType) -> Var | None:
    """The integers before a DequantizeLinear that this node undoes."""
    source = node.inputs[0]
    maker = source.producer() if source is not None else None
    if maker is None or maker.op_type != "DequantizeLinear" or maker.inputs[0] is None:
        return None
    before = _scale(context, maker)
    same = before is not None and maker.inputs[0].dtype == dtype and before.same(known)
    return context.held(maker.inputs[0]) if same else None


def _broadcast(context: Context, node: onnx_ir.Node, x: Var) -> tuple[Var, Var | None]:
    """Scales and zero points, shaped so that they broadcast to ``x``."""
    if attribute_int(node, "block_size", 0):
        raise Refused(f"a {node.op_type} with a scale for each block", "use one for each channel")
    found = [context.var(node.inputs[1]), context.optional(node, 2)]
    rank = len(x.shape)
    for index, var in enumerate(found):
        if var is None or not len(var.shape):
            continue
        if len(var.shape) > 1:
            raise Refused(f"a {node.op_type} with a scale for each block")
        single = var.shape[0] == 1
        axis = 0 if single else (attribute_int(node, "axis", 1) or 0) % max(rank, 1)
        shape = [-1 if place == axis else 1 for place in range(rank)]
        found[index] = (
            context.op("reshape", x=var, shape=shape) if rank else context.op("squeeze", x=var)
        )
    return found[0], found[1]
