"""LSTM, GRU and RNN: layers of one level; their weights in PyTorch's order of gates."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir

from converter.ir.edit import constant
from emitters.code.context import Context, shape_of
from emitters.code.steps import UNIT, Array, Weight
from emitters.code.weights import is_weight
from emitters.pytorch.ops.linear import dtype_argument
from emitters.pytorch.registry import op

_ORDER = {"LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2), "RNN": (0,)}
"""Of PyTorch's gates (input, forget, cell, output; reset, update, new), their places in ONNX's."""

_USUAL = {
    "LSTM": ["sigmoid", "tanh", "tanh"],
    "GRU": ["sigmoid", "tanh"],
    "RNN": ["tanh"],
}


def _is_usual(node: onnx_ir.Node) -> bool:
    """Whether PyTorch's layers compute the same."""
    kind = node.op_type
    attributes = node.attributes
    usual = _USUAL[kind]
    told = [name.lower() for name in attributes["activations"].as_strings()] if (
        "activations" in attributes
    ) else usual  # fmt: skip
    ways = 2 if _way(node) == "bidirectional" else 1
    if told not in (usual, usual * ways) and not (kind == "RNN" and set(told) == {"relu"}):
        return False
    if "clip" in attributes or _int(node, "layout") or _int(node, "input_forget"):
        return False
    if kind == "GRU" and not _int(node, "linear_before_reset"):
        return False
    if kind == "LSTM" and len(node.inputs) > 7 and node.inputs[7] is not None:
        array = constant(node.inputs[7])
        if array is None or np.any(array):
            return False
    if len(node.inputs) > 4 and node.inputs[4] is not None:
        return _is_whole(node)
    constants = [value for value in node.inputs[1:4] if value is not None]
    return all(is_weight(value) for value in constants)


def _is_whole(node: onnx_ir.Node) -> bool:
    """Whether all sequences are given to their end."""
    lengths, shape = constant(node.inputs[4]), shape_of(node.inputs[0])
    weights = all(is_weight(value) for value in node.inputs[1:4] if value is not None)
    whole = lengths is not None and shape is not None and bool(np.all(lengths == shape[0]))
    return weights and whole


def _int(node: onnx_ir.Node, name: str) -> int:
    found = node.attributes.get(name)
    return found.as_int() if found is not None else 0


def _way(node: onnx_ir.Node) -> str:
    found = node.attributes.get("direction")
    return found.as_string() if found is not None else "forward"


@op("LSTM", "GRU", "RNN", legal=_is_usual)
def recurrent(c: Context) -> None:
    """``nn.LSTM``, and so on; what PyTorch gives, in ONNX's axes."""
    kind, way = c.node.op_type, _way(c.node)
    ways = 2 if way == "bidirectional" else 1
    shape = [int(size) for size in c.shape(1) or ()]  # type: ignore[arg-type]
    hidden, inside = c.attr("hidden_size") or (c.shape(2) or [0])[-1], shape[2]
    weights = _weights(c, kind, ways)
    named: dict[str, object] = {
        "bidirectional": True if ways == 2 else None,
        "bias": None if c.has(3) else False,
        "dtype": dtype_argument(c.dtype(0)),
    }
    told = [name.lower() for name in c.attr("activations") or []]
    if kind == "RNN" and "relu" in told:
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
        parts = np.split(own, len(order))
        return np.concatenate([parts[place] for place in order])

    return change
