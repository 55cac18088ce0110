"""If and Loop: what their attributes and graphs say before anything runs."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import onnx_ir

from converter.ir.edit import constant_tensor, is_op
from converter.ir.facts import MOVES
from converter.ir.refused import Refused

ENDLESS = 1 << 31
"""A trip count from which on a loop ends by its condition alone."""


def need_tensors(values: Iterable[onnx_ir.Value | None], reason: str) -> None:
    """Refuses sequences and optionals.

    Raises:
        Refused: One of the values is one; for a reason of the target's.
    """
    kinds = (onnx_ir.SequenceType, onnx_ir.OptionalType)
    for value in values:
        if value is not None and isinstance(value.type, kinds):
            raise Refused(
                reason,
                f"stack the elements of {value.name!r} to a tensor in the model, or cut the model "
                "before it (--output)",
            )


def need_same_rank(
    name: str | None, one: tuple[int | str, ...], other: tuple[int | str, ...]
) -> None:
    """Refuses an If's output that has another number of axes in each graph.

    Args:
        name: The output's.
        one: Its shape in one graph.
        other: Its shape in the other.

    Raises:
        Refused: They differ.
    """
    if len(one) != len(other):
        raise Refused(
            f"{name!r} has {len(one)} axes in one graph, but {len(other)} in the other",
            "fix what the condition depends on (--dim NAME=SIZE, --input), or cut the model "
            "(--output)",
        )


def most_rounds(loop: onnx_ir.Node) -> int | onnx_ir.Value | None:
    """How many rounds a Loop runs at most: a number, or the value that says so when the model
    runs; None where there is no limit."""
    value = loop.inputs[0]
    stored = constant_tensor(value)
    if stored is None:
        return value
    count = int(np.asarray(stored.numpy()).item())
    return None if count >= ENDLESS else max(count, 0)


def start_condition(loop: onnx_ir.Node) -> onnx_ir.Value | None:
    """What says whether a Loop's first round is run; None where it always is."""
    value = loop.inputs[1] if len(loop.inputs) > 1 else None
    known = constant_tensor(value)
    return None if known is not None and known.numpy().item() else value


def is_narrow(value: onnx_ir.Value | None) -> bool:
    """Whether integers were ones of 32 bits or fewer, or sizes, and moved about since: whether they
    fit int32."""
    while value is not None and (maker := value.producer()) is not None:
        if is_op(maker, "Shape", "Size"):
            return True
        if not is_op(maker, "Cast", *MOVES):
            break
        value = maker.inputs[0]
    return value is not None and value.dtype is not None and value.dtype.bitwidth < 64


def always_goes_on(body: onnx_ir.Graph) -> bool:
    """Whether a Loop's condition after a round is but the one it was given, or true."""
    value: onnx_ir.Value | None = body.outputs[0]
    while value is not None:
        maker = value.producer()
        if maker is None:
            break
        if maker.op_type == "Constant" and "value" in maker.attributes:
            return bool(maker.attributes["value"].as_tensor().numpy().item())
        if maker.op_type != "Identity":
            return False
        value = maker.inputs[0]
    if value is not None and value.is_initializer() and value.const_value is not None:
        return bool(value.const_value.numpy().item())
    return value is body.inputs[1]
