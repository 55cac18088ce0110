"""Weights of recurrent operators: one direction's rows, which stay compressed where they are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir

from converter.graph.edit import constant_tensor, is_op
from emitters.coreml.compressed import DOMAIN, one_a_block
from emitters.coreml.constexpr import blocks, lookup
from emitters.coreml.context import Context, Var
from emitters.coreml.types import Array
from emitters.lowering.folding import evaluated

Rows = Sequence[int] | Array


def is_fixed(context: Context, value: onnx_ir.Value | None) -> bool:
    """Whether weights are known before the program runs."""
    return known(context, value) is not None or _stored(context, value) is not None


def known(context: Context, value: onnx_ir.Value | None) -> Array | None:
    """A constant's values, or those that a DequantizeLinear of constants gives."""
    array = context.array(value)
    maker = value.producer() if value is not None else None
    if array is not None or maker is None or not is_op(maker, "DequantizeLinear"):
        return array
    if any(constant_tensor(each) is None for each in maker.inputs if each is not None):
        return None
    made = evaluated(maker, context.program.model)
    return made[0] if made is not None else None


def weight(context: Context, value: onnx_ir.Value, place: int, rows: Rows) -> Var | None:
    """Rows of one direction's weights; None where they are computed.

    Args:
        context: Where they go.
        value: [directions, gates * hidden, elements].
        place: Which direction's.
        rows: Which, in order.

    Raises:
        Refused: They are compressed in a way that the target hasn't.
    """
    array = known(context, value)
    if array is not None:
        return context.const(np.ascontiguousarray(array[place][rows]))
    parts = _stored(context, value)
    if parts is None:
        return None
    stored, table = (part[place if len(part) > 1 else 0] for part in parts)
    store = lookup if _is(value, "Lookup") else blocks
    return store(context, value.name or "weight", *_of_rows(stored, table, rows))


def _of_rows(stored: Array, table: Array, rows: Rows) -> tuple[Array, Array]:
    """What is stored of some rows, and the scale or table of each block of those.

    Args:
        stored: [rows, elements].
        table: A scale or table for each block: [blocks, blocks, ...].
        rows: Which.
    """
    shape = table.shape[:2]
    numbers = np.arange(shape[0] * shape[1]).reshape(shape)
    which = one_a_block(numbers.repeat(len(stored) // shape[0], axis=0)[rows])
    return np.ascontiguousarray(stored[rows]), table.reshape(-1, *table.shape[2:])[which]


def _stored(context: Context, value: onnx_ir.Value | None) -> list[Array] | None:
    node = value.producer() if value is not None else None
    if node is None or node.domain != DOMAIN:
        return None
    parts = [context.array(each) for each in node.inputs]
    return [part for part in parts if part is not None]


def _is(value: onnx_ir.Value, kind: str) -> bool:
    node = value.producer()
    return node is not None and node.op_type == kind
