"""lstm with peepholes and rnn, in either direction: step by step in numpy."""

from typing import Any

import numpy as np
import pytest

from tests.coreml.running import Array, check, drawing, op

STEPS, BATCH, WIDTH, HIDDEN = 4, 2, 3, 5
X = drawing(8, -0.7, 0.7)(STEPS, BATCH, WIDTH)
LINES = {"forward": X, "reverse": X[::-1]}


def sigmoid(x: Array) -> Array:
    y: Array = 1 / (1 + np.exp(-x))
    return y


ACTIVATIONS: dict[str, Any] = {
    "sigmoid": sigmoid,
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0),
    "linear": lambda x: x,
    "hard_sigmoid": lambda x: np.clip(0.2 * x + 0.5, 0, 1),
    "scaled_tanh": lambda x: 1.7159 * np.tanh(2 / 3 * x),
}
USUAL = ["sigmoid", "tanh", "tanh"]


def lstm_by_hand(x: Array, h: Array, c: Array, w: list[Array], kinds: list[str],
                 peephole: Array | None) -> tuple[Array, Array, Array]:  # fmt: skip
    """All steps' h, and the last h and c; w: of the input, of the state, bias (ifoz)."""
    gate, cell, out = (ACTIVATIONS[kind] for kind in kinds)
    pi, pf, po = np.split(np.zeros(3 * HIDDEN) if peephole is None else peephole, 3)
    steps = []
    for step in x.astype(np.float64):
        i, f, o, z = np.split(step @ w[0].T + h @ w[1].T + w[2], 4, 1)
        i, f, z = gate(i + pi * c), gate(f + pf * c), cell(z)
        c = f * c + i * z
        h = gate(o + po * c) * out(c)
        steps.append(h)
    return np.stack(steps), h, c


def weights(draw: Any, gates: int) -> list[Array]:
    return [draw(gates * HIDDEN, size) for size in (WIDTH, HIDDEN)] + [draw(gates * HIDDEN)]


def named(w: list[Array], suffix: str = "") -> dict[str, Array]:
    names = ("weight_ih", "weight_hh", "bias")
    return {f"{name}{suffix}": array for name, array in zip(names, w, strict=True)}


@pytest.mark.parametrize("direction", LINES)
@pytest.mark.parametrize("kinds", [USUAL, ["hard_sigmoid", "relu", "linear"]])
def test_lstm(direction: str, kinds: list[str]) -> None:
    """Every step with peepholes, and the last without."""
    draw = drawing(1, -0.7, 0.7)
    w, h, c, peephole = weights(draw, 4), draw(BATCH, HIDDEN), draw(BATCH, HIDDEN), draw(3 * HIDDEN)
    names = ("recurrent_activation", "cell_activation", "activation")
    how = named(w) | dict(zip(names, kinds, strict=True)) | {"direction": direction}
    every = lstm_by_hand(LINES[direction], h, c, w, kinds, peephole)
    _, end, memory = lstm_by_hand(LINES[direction], h, c, w, kinds, None)
    cases = [
        (op.lstm(**how, output_sequence=True, peephole=peephole), every),
        (op.lstm(**how, output_sequence=False), [end[None], end, memory]),
    ]
    check(cases, {"x": X, "initial_h": h, "initial_c": c})


@pytest.mark.parametrize("direction", LINES)
def test_rnn(direction: str) -> None:
    draw = drawing(4, -0.7, 0.7)
    w, start, cases = weights(draw, 1), draw(BATCH, HIDDEN), []
    for kind in ("tanh", "scaled_tanh", "relu"):
        h, steps = start, []
        for step in LINES[direction].astype(np.float64):
            h = ACTIVATIONS[kind](step @ w[0].T + h @ w[1].T + w[2])
            steps.append(h)
        how = named(w) | {"direction": direction, "activation": kind}
        cases.append((op.rnn(**how, output_sequence=True), [np.stack(steps), h]))
    check(cases, {"x": X, "initial_h": start})
