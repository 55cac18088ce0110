"""RNN, GRU and LSTM: what a node asks for.

Source: the operator pages ``RNN``, ``GRU`` and ``LSTM``.
"""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir

from converter.ir.attributes import number, text
from converter.ir.refused import Refused

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
"""How many rows of ``hidden`` the weights have."""

_DEFAULTS = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}

_ACTIVATIONS: Mapping[str, Mapping[str, float]] = {
    **{name: {} for name in ("Relu", "Sigmoid", "Softplus", "Softsign", "Tanh")},
    "Affine": {"alpha": 1.0, "beta": 0.0},
    "Elu": {"alpha": 1.0},
    "HardSigmoid": {"alpha": 0.2, "beta": 0.5},
    "LeakyRelu": {"alpha": 0.01},
    "ScaledTanh": {"alpha": 1.0, "beta": 1.0},
    "ThresholdedRelu": {"alpha": 1.0},
}
"""The parameters that an activation has, unless a node says others."""

Activation = tuple[str, Mapping[str, float]]
"""ONNX's name of it, and its parameters."""


def directions_of(node: onnx_ir.Node) -> list[bool]:
    """Of each direction, whether it goes from the last step to the first."""
    kinds = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}
    return kinds[text(node, "direction", "forward")]


def activations_of(node: onnx_ir.Node) -> list[list[Activation]]:
    """The activations f, g and h of each direction. Parameters are listed for those activations
    that have some, over all directions.

    Raises:
        Refused: There is none of a name, or another number of them.
    """
    default, count = _DEFAULTS[node.op_type], len(directions_of(node))
    attribute = node.attributes.get("activations")
    names = list(attribute.as_strings()) if attribute is not None else []
    names = names or default * count
    if len(names) != len(default) * count:
        raise Refused(f"{len(names)} activations, not {len(default) * count}")
    own = {name: node.attributes.get(f"activation_{name}") for name in ("alpha", "beta")}
    listed = {name: list(found.as_floats()) if found else [] for name, found in own.items()}
    made = [_activation(name, listed) for name in names]
    return [made[place * len(default) :][: len(default)] for place in range(count)]


def _activation(name: str, listed: Mapping[str, list[float]]) -> Activation:
    """Takes what it needs off the front of each list."""
    kind = next((each for each in _ACTIVATIONS if each.lower() == name.lower()), None)
    if kind is None:
        raise Refused(f"the activation {name}")
    usual = _ACTIVATIONS[kind].items()
    return kind, {key: listed[key].pop(0) if listed[key] else value for key, value in usual}


def clip_of(node: onnx_ir.Node) -> float | None:
    """The largest number that goes into an activation."""
    clip = node.attributes.get("clip")
    return clip.as_float() if clip is not None and clip.as_float() > 0 else None


def has_peepholes(node: onnx_ir.Node) -> bool:
    """Whether the cell goes into the gates."""
    return node.op_type == "LSTM" and len(node.inputs) > 7 and node.inputs[7] is not None


def resets_behind(node: onnx_ir.Node) -> bool:
    """Whether GRU's reset gate comes behind the product with the state."""
    return node.op_type == "GRU" and number(node, "linear_before_reset", 0) != 0


def hidden_size(node: onnx_ir.Node) -> int:
    """Elements of a hidden state.

    Raises:
        Refused: It isn't known.
    """
    weights = node.inputs[2]
    assert weights is not None
    shape = [None, None] if weights.shape is None else [*weights.shape]
    rows, hidden = shape[-2:]
    if not isinstance(hidden, int) or rows != GATES[node.op_type] * hidden:
        raise Refused(f"recurrent weights of {tuple(shape)}: their sizes have to be known")
    return hidden
