"""lstm, gru and rnn: step by step in numpy, by the formulas that coremltools documents."""

from __future__ import annotations

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


def lstm_by_hand(
    x: Array, h: Array, c: Array, w: list[Array], kinds: list[str], peephole: Array | None
) -> tuple[Array, Array, Array]:
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


def test_lstm_in_both_directions() -> None:
    draw = drawing(2, -0.7, 0.7)
    forward, back = weights(draw, 4), weights(draw, 4)
    h, c = draw(BATCH, 2 * HIDDEN), draw(BATCH, 2 * HIDDEN)
    how = named(forward) | named(back, "_back") | {"direction": "bidirectional"}
    halves = [
        lstm_by_hand(X, h[:, :HIDDEN], c[:, :HIDDEN], forward, USUAL, None),
        lstm_by_hand(X[::-1], h[:, HIDDEN:], c[:, HIDDEN:], back, USUAL, None),
    ]
    steps = np.concatenate([halves[0][0], halves[1][0][::-1]], 2)
    end, memory = (np.concatenate([halves[0][at], halves[1][at]], 1) for at in (1, 2))
    cases = [
        (op.lstm(**how, output_sequence=every), [steps if every else end[None], end, memory])
        for every in (True, False)
    ]
    check(cases, {"x": X, "initial_h": h, "initial_c": c}, free={"x": [0]})


def gru_by_hand(x: Array, h: Array, w: list[Array], after: bool) -> tuple[Array, Array]:
    """w: of the input, of the state, the state's bias, the input's (roz)."""
    steps = []
    for step in x.astype(np.float64):
        r, o, z = np.split(step @ w[0].T + w[3], 3, 1)
        hr, ho, hz = np.split(w[1], 3)
        br, bo, bz = np.split(w[2], 3)
        r, z = sigmoid(r + h @ hr.T + br), sigmoid(z + h @ hz.T + bz)
        within = r * (h @ ho.T + bo) if after else (r * h) @ ho.T + bo
        h = (1 - z) * np.tanh(o + within) + z * h
        steps.append(h)
    return np.stack(steps), h


@pytest.mark.parametrize("direction", LINES)
@pytest.mark.parametrize("after", [True, False])
def test_gru(direction: str, after: bool) -> None:
    draw = drawing(3, -0.7, 0.7)
    w, h, own = weights(draw, 3), draw(BATCH, HIDDEN), draw(3 * HIDDEN)
    given: dict[str, Any] = {"input_bias": own, "reset_after": True} if after else {}
    given |= named(w) | {"direction": direction}
    steps, end = gru_by_hand(LINES[direction], h, [*w, own if after else own * 0], after)
    cases = [
        (op.gru(**given, output_sequence=True), [steps, end]),
        (op.gru(**given, output_sequence=False), [end[None], end]),
    ]
    check(cases, {"x": X, "initial_h": h}, target=18 if after else 15)


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
