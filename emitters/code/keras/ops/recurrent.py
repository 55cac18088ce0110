"""LSTM, GRU and RNN: a layer for each direction, their weights in Keras' order of gates."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir

from emitters.code.context import Context
from emitters.code.keras.registry import op
from emitters.code.keras.types import dtype_argument
from emitters.code.recurrent import gates, is_rectified, is_usual, way_of
from emitters.code.steps import UNIT, Array, Unit, Weight, place

_LAYERS = {"LSTM": "LSTM", "GRU": "GRU", "RNN": "SimpleRNN"}
_ORDER = {"LSTM": (0, 2, 3, 1), "GRU": (0, 1, 2), "RNN": (0,)}
"""Of Keras' gates (input, forget, cell, output; update, reset, new), their places in ONNX's."""


@op("LSTM", "GRU", "RNN", legal=is_usual)
def recurrent(c: Context) -> None:
    """``layers.LSTM``, and so on; what they give, in ONNX's axes."""
    way, run = way_of(c.node), c.helper("run_recurrent")
    if way != "bidirectional":
        told = ", backwards=True" if way == "reverse" else ""
        _give(c, f"{run}({UNIT}, {c.arg(0)}{_start(c)}{told})", _unit(c, 0))
        return
    halves = []
    for at, told in enumerate((_start(c), f"{_start(c)}, way=1, backwards=True")):
        half = onnx_ir.Value(name=f"{c.node.outputs[0].name}_{at}")
        c.emit(f"{run}({UNIT}, {c.arg(0)}{told})", unit=_unit(c, at), output=half,
               hint="backward" if at else "forward")  # fmt: skip
        halves.append(place(c.index(half), 0))
    _give(c, f"{c.helper('side_by_side')}({', '.join(halves)})")


def _give(c: Context, text: str, unit: Unit | None = None) -> None:
    """Its outputs, of which the last may not be there."""
    count, whole = len(c.node.outputs), 3 if c.node.op_type == "LSTM" else 2
    if count == 1:
        c.emit(f"{text}[0]", unit=unit)
    else:
        c.emit_many(text if count == whole else f"{text}[:{count}]", unit=unit)


def _unit(c: Context, way: int) -> Unit:
    """The layer of a direction."""
    kind = c.node.op_type
    hidden = c.attr("hidden_size") or (c.shape(2) or [0])[-1]
    named: dict[str, object] = {
        "activation": '"relu"' if is_rectified(c.node) else None,
        "use_bias": None if c.has(3) else False,
        "reset_after": False if kind == "GRU" and not c.attr("linear_before_reset", 0) else None,
        "return_sequences": True,
        "return_state": True,
        "dtype": dtype_argument(c.dtype(0)),
    }
    hint = f"backward_{kind.lower()}" if way else kind.lower()
    return c.unit(f"layers.{_LAYERS[kind]}", (hidden,), _weights(c, kind, way), hint, named)


def _start(c: Context) -> str:
    """The states that it starts with."""
    places = (5, 6) if c.node.op_type == "LSTM" else (5,)
    states = [c.arg(at) if c.has(at) else "" for at in places]
    if not any(states):
        return ""
    given = next(filter(None, states))
    told = [state or f"ops.zeros_like({given})" for state in states]
    return f", ({', '.join(told)}{',' if len(told) == 1 else ''})"


def _weights(c: Context, kind: str, way: int) -> dict[str, Weight]:
    order = _ORDER[kind]

    def matrix(array: Array) -> Array:
        return np.ascontiguousarray(gates(array[way], order).T)

    found = {
        "cell.kernel": c.weight(c.value(1), matrix, f"{kind}{way}"),
        "cell.recurrent_kernel": c.weight(c.value(2), matrix, f"{kind}{way}"),
    }
    if c.has(3):
        apart = kind == "GRU" and bool(c.attr("linear_before_reset", 0))
        found["cell.bias"] = c.weight(c.value(3), _bias(way, order, apart), f"{kind}{way}")
    return found


def _bias(way: int, order: tuple[int, ...], apart: bool) -> Callable[[Array], Array]:
    """Those of the input and of the state: summed, or one above the other."""

    def change(array: Array) -> Array:
        halves = [gates(half, order) for half in np.split(array[way], 2)]
        return np.stack(halves) if apart else np.sum(halves, axis=0)

    return change
