"""LSTM, GRU and RNN: layers of one level; their weights in PyTorch's order of gates."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir

from converter.ir.attributes import number
from emitters.code.context import Context
from emitters.code.recurrent import gates, is_rectified, is_usual, way_of
from emitters.code.steps import UNIT, Array, Weight
from emitters.pytorch.ops.linear import dtype_argument
from emitters.pytorch.registry import op

_ORDER = {"LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2), "RNN": (0,)}
"""Of PyTorch's gates (input, forget, cell, output; reset, update, new), their places in ONNX's."""


def _is_usual(node: onnx_ir.Node) -> bool:
    """Whether PyTorch's layers compute the same."""
    return is_usual(node) and (node.op_type != "GRU" or number(node, "linear_before_reset", 0) != 0)


@op("LSTM", "GRU", "RNN", legal=_is_usual)
def recurrent(c: Context) -> None:
    """``nn.LSTM``, and so on; what PyTorch gives, in ONNX's axes."""
    kind, way = c.node.op_type, way_of(c.node)
    ways = 2 if way == "bidirectional" else 1
    shape = [int(size) for size in c.shape(1) or ()]  # type: ignore[arg-type]
    hidden, inside = c.attr("hidden_size") or (c.shape(2) or [0])[-1], shape[2]
    weights = _weights(c, kind, ways)
    named: dict[str, object] = {
        "bidirectional": True if ways == 2 else None,
        "bias": None if c.has(3) else False,
        "dtype": dtype_argument(c.dtype(0)),
    }
    if is_rectified(c.node):
        named["nonlinearity"] = '"relu"'
    unit = c.unit(f"nn.{kind}", (inside, hidden), weights, kind.lower(), named)
    reverse = way == "reverse"
    x = f"torch.flip({c.arg(0)}, (0,))" if reverse else c.arg(0)
    given = _start(c, kind)
    call = f"{UNIT}({x}{given})"
    steps = f"{call}, {ways}, reverse={reverse}" if reverse else f"{call}, {ways}"
    name = c.helper("lstm_results" if kind == "LSTM" else "recurrent_results")
    c.emit_many(f"{name}({steps})", unit=unit)


def _start(c: Context, kind: str) -> str:
    """The states that it starts with."""
    if not c.has(5) and not (kind == "LSTM" and c.has(6)):
        return ""
    if kind != "LSTM":
        return f", {c.arg(5)}"
    states = [c.arg(at) if c.has(at) else None for at in (5, 6)]
    first, second = (s or f"torch.zeros_like({states[1 - i]})" for i, s in enumerate(states))
    return f", ({first}, {second})"


def _weights(c: Context, kind: str, ways: int) -> dict[str, Weight]:
    order = _ORDER[kind]
    found = {}
    for way in range(ways):
        end = "_reverse" if way else ""
        for name, at in (("weight_ih_l0", 1), ("weight_hh_l0", 2)):
            found[name + end] = c.weight(c.value(at), _gates(way, order), f"{kind}{way}")
        if c.has(3):
            for half, name in enumerate(("bias_ih_l0", "bias_hh_l0")):
                change = _gates(way, order, half)
                found[name + end] = c.weight(c.value(3), change, f"{kind}{way}{half}")
    return found


def _gates(way: int, order: tuple[int, ...], half: int | None = None) -> Callable[[Array], Array]:
    """Puts the gates of a direction in order; of a bias, those of one half."""

    def change(array: Array) -> Array:
        own = array[way]
        if half is not None:
            own = np.split(own, 2)[half]
        return gates(own, order)

    return change
