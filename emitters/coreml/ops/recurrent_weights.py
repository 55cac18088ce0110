"""Weights of recurrent operators: one direction's rows, which stay compressed where they are."""

from __future__ import annotations

import numpy as np
import onnx_ir

from converter.ir.edit import constant_tensor
from converter.ir.real import real_numbers
from emitters.coreml.compressed import DOMAIN, moved
from emitters.coreml.constexpr import blocks, lookup
from emitters.coreml.context import Context, Var
from emitters.coreml.types import Array


def is_fixed(value: onnx_ir.Value) -> bool:
    """Whether weights are known before the program runs."""
    maker = value.producer()
    return real_numbers(value) is not None or (maker is not None and maker.domain == DOMAIN)


def weight(context: Context, value: onnx_ir.Value, place: int, rows: Array) -> Var:
    """Rows of one direction's weights.

    Args:
        context: Where they go.
        value: [directions, gates * hidden, elements]; fixed.
        place: Which direction's.
        rows: Which, in order.

    Raises:
        Refused: They are compressed in a way that the target hasn't.
    """
    array, maker = real_numbers(value), value.producer()
    if array is not None:
        return context.const(np.ascontiguousarray(array[place][rows]))
    assert maker is not None
    tensors = [constant_tensor(each) for each in maker.inputs]
    stored, table = (np.asarray(tensor.numpy()) for tensor in tensors if tensor is not None)
    store = blocks if maker.op_type == "Blocks" else lookup
    return store(context, value.name or "weight", *moved(stored, table, lambda x: x[place][rows]))
