"""LSTM, GRU and RNN: a layer for each direction, their weights in Keras' order of gates."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir

from converter.ir.edit import constant
from emitters.code.context import Context, shape_of
from emitters.code.keras.registry import op
from emitters.code.keras.types import dtype_argument
from emitters.code.steps import UNIT, Array, Unit, Weight, place
from emitters.code.weights import is_weight

_LAYERS = {"LSTM": "LSTM", "GRU": "GRU", "RNN": "SimpleRNN"}
_ORDER = {"LSTM": (0, 2, 3, 1), "GRU": (0, 1, 2), "RNN": (0,)}
"""Of Keras' gates (input, forget, cell, output; update, reset, new), their places in ONNX's."""

_USUAL = {"LSTM": ["sigmoid", "tanh", "tanh"], "GRU": ["sigmoid", "tanh"], "RNN": ["tanh"]}


def _int(node: onnx_ir.Node, name: str) -> int:
    found = node.attributes.get(name)
    return found.as_int() if found is not None else 0


def _way(node: onnx_ir.Node) -> str:
    found = node.attributes.get("direction")
    return found.as_string() if found is not None else "forward"


def _told(node: onnx_ir.Node) -> list[str]:
    found = node.attributes.get("activations")
    return [name.lower() for name in found.as_strings()] if found is not None else []


def _is_usual(node: onnx_ir.Node) -> bool:
    """Whether Keras' layers compute the same."""
    usual, told = _USUAL[node.op_type], _told(node)
    if told not in ([], usual, usual * 2) and set(told) != {"relu"}:
        return False
    if set(told) == {"relu"} and node.op_type != "RNN":
        return False
    if "clip" in node.attributes or _int(node, "layout") or _int(node, "input_forget"):
        return False
    if len(node.inputs) > 7 and node.inputs[7] is not None:
        array = constant(node.inputs[7])
        if array is None or np.any(array):
            return False
    if len(node.inputs) > 4 and node.inputs[4] is not None:
        lengths, shape = constant(node.inputs[4]), shape_of(node.inputs[0])
        if lengths is None or shape is None or not np.all(lengths == shape[0]):
            return False
    return all(is_weight(value) for value in node.inputs[1:4] if value is not None)


@op("LSTM", "GRU", "RNN", legal=_is_usual)
def recurrent(c: Context) -> None:
    """``layers.LSTM``, and so on; what they give, in ONNX's axes."""
    way, run = _way(c.node), c.helper("run_recurrent")
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
        "activation": '"relu"' if set(_told(c.node)) == {"relu"} else None,
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
        return np.ascontiguousarray(_gates(array[way], order).T)

    found = {
        "cell.kernel": c.weight(c.value(1), matrix, f"{kind}{way}"),
        "cell.recurrent_kernel": c.weight(c.value(2), matrix, f"{kind}{way}"),
    }
    if c.has(3):
        apart = kind == "GRU" and bool(c.attr("linear_before_reset", 0))
        found["cell.bias"] = c.weight(c.value(3), _bias(way, order, apart), f"{kind}{way}")
    return found


def _gates(own: Array, order: tuple[int, ...]) -> Array:
    parts = np.split(own, len(order))
    return np.concatenate([parts[at] for at in order])


def _bias(way: int, order: tuple[int, ...], apart: bool) -> Callable[[Array], Array]:
    """Those of the input and of the state: summed, or one above the other."""

    def change(array: Array) -> Array:
        halves = [_gates(half, order) for half in np.split(array[way], 2)]
        return np.stack(halves) if apart else np.sum(halves, axis=0)

    return change
