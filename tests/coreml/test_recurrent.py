"""lstm, gru and rnn: step by step in numpy, by the formulas that coremltools documents."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from converter.errors import UnsupportedError
from tests.coreml.running import Array, agrees, compute

RNG = np.random.default_rng(8)
STEPS, BATCH, WIDTH, HIDDEN = 4, 2, 3, 5


def uniform(*shape: int) -> Array:
    return RNG.uniform(-0.7, 0.7, shape).astype(np.float32)


X = uniform(STEPS, BATCH, WIDTH)


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


def lstm_by_hand(
    x: Array, h: Array, c: Array, w: list[Array], kinds: list[str], peephole: Array | None
) -> tuple[Array, Array, Array]:
    """All steps' h, and the last h and c; w: of the input, of the state, bias (ifoz)."""
    gate, cell, out = (ACTIVATIONS[kind] for kind in kinds)
    pi, pf, po = np.split(np.zeros(3 * HIDDEN) if peephole is None else peephole, 3)
    steps = []
    for step in x:
        i, f, o, z = np.split(step @ w[0].T + h @ w[1].T + w[2], 4, 1)
        i, f, z = gate(i + pi * c), gate(f + pf * c), cell(z)
        c = f * c + i * z
        h = gate(o + po * c) * out(c)
        steps.append(h)
    return np.stack(steps), h, c


def single(x: Any) -> Array:
    return np.asarray(x, np.float32)


@pytest.mark.parametrize("every", [True, False])
@pytest.mark.parametrize("direction", ["forward", "reverse"])
@pytest.mark.parametrize("kinds", [["sigmoid", "tanh", "tanh"], ["hard_sigmoid", "relu", "linear"]])
def test_lstm(direction: str, every: bool, kinds: list[str]) -> None:
    w = [uniform(4 * HIDDEN, WIDTH), uniform(4 * HIDDEN, HIDDEN), uniform(4 * HIDDEN)]
    peephole = uniform(3 * HIDDEN) if every else None
    h, c = uniform(BATCH, HIDDEN), uniform(BATCH, HIDDEN)

    def body(mb: Any, x: Any, h: Any, c: Any) -> Any:
        return mb.lstm(
            x=x, initial_h=h, initial_c=c, weight_ih=w[0], weight_hh=w[1], bias=w[2],
            direction=direction, output_sequence=every, recurrent_activation=kinds[0],
            cell_activation=kinds[1], activation=kinds[2],
            **({} if peephole is None else {"peephole": peephole}),
        )  # fmt: skip

    y, last, memory = compute(body, {"x": X, "h": h, "c": c})
    line = X[::-1] if direction == "reverse" else X
    steps, end, cells = lstm_by_hand(line, h, c, w, kinds, peephole)
    agrees(y, single(steps if every else end[None]))
    agrees(last, single(end))
    agrees(memory, single(cells))


@pytest.mark.parametrize("every", [True, False])
def test_lstm_in_both_directions(every: bool) -> None:
    forward, back = (
        [uniform(4 * HIDDEN, WIDTH), uniform(4 * HIDDEN, HIDDEN), uniform(4 * HIDDEN)]
        for _ in range(2)
    )
    h, c = uniform(BATCH, 2 * HIDDEN), uniform(BATCH, 2 * HIDDEN)

    def body(mb: Any, x: Any, h: Any, c: Any) -> Any:
        return mb.lstm(
            x=x, initial_h=h, initial_c=c, weight_ih=forward[0], weight_hh=forward[1],
            bias=forward[2], weight_ih_back=back[0], weight_hh_back=back[1], bias_back=back[2],
            direction="bidirectional", output_sequence=every,
        )  # fmt: skip

    y, last, memory = compute(body, {"x": X, "h": h, "c": c}, free={"x": [0]})
    kinds = ["sigmoid", "tanh", "tanh"]
    halves = [
        lstm_by_hand(X, h[:, :HIDDEN], c[:, :HIDDEN], forward, kinds, None),
        lstm_by_hand(X[::-1], h[:, HIDDEN:], c[:, HIDDEN:], back, kinds, None),
    ]
    steps = np.concatenate([halves[0][0], halves[1][0][::-1]], 2)
    ends = np.concatenate([halves[0][1], halves[1][1]], 1)
    agrees(y, single(steps if every else ends[None]))
    agrees(last, single(ends))
    agrees(memory, single(np.concatenate([halves[0][2], halves[1][2]], 1)))


def test_a_clipped_cell_gate_is_refused() -> None:
    w = [uniform(4 * HIDDEN, WIDTH), uniform(4 * HIDDEN, HIDDEN)]
    zeros = np.zeros((BATCH, HIDDEN), np.float32)

    def body(mb: Any, x: Any) -> Any:
        given = {"initial_h": zeros, "initial_c": zeros, "weight_ih": w[0], "weight_hh": w[1]}
        return mb.lstm(x=x, **given, clip=np.float32(2))

    with pytest.raises(UnsupportedError) as error:
        compute(body, {"x": X})
    assert "clips the cell's state" in error.value.items[0].reason


def gru_by_hand(x: Array, h: Array, w: list[Array], after: bool) -> tuple[Array, Array]:
    """w: of the input, of the state, the state's bias, the input's (roz)."""
    steps = []
    for step in x:
        r, o, z = np.split(step @ w[0].T + w[3], 3, 1)
        hr, ho, hz = np.split(w[1], 3)
        br, bo, bz = np.split(w[2], 3)
        r, z = sigmoid(r + h @ hr.T + br), sigmoid(z + h @ hz.T + bz)
        within = r * (h @ ho.T + bo) if after else (r * h) @ ho.T + bo
        h = (1 - z) * np.tanh(o + within) + z * h
        steps.append(h)
    return np.stack(steps), h


@pytest.mark.parametrize("every", [True, False])
@pytest.mark.parametrize("direction", ["forward", "reverse"])
@pytest.mark.parametrize("after", [True, False])
def test_gru(direction: str, every: bool, after: bool) -> None:
    w = [uniform(3 * HIDDEN, WIDTH), uniform(3 * HIDDEN, HIDDEN), uniform(3 * HIDDEN)]
    w.append(uniform(3 * HIDDEN) if after else np.zeros(3 * HIDDEN, np.float32))
    h = uniform(BATCH, HIDDEN)
    given = {"input_bias": w[3], "reset_after": True} if after else {}

    def body(mb: Any, x: Any, h: Any) -> Any:
        return mb.gru(
            x=x, initial_h=h, weight_ih=w[0], weight_hh=w[1], bias=w[2],
            direction=direction, output_sequence=every, **given,
        )  # fmt: skip

    y, last = compute(body, {"x": X, "h": h}, target=18 if after else 15)
    steps, end = gru_by_hand(X[::-1] if direction == "reverse" else X, h, w, after)
    agrees(y, single(steps if every else end[None]))
    agrees(last, single(end))


@pytest.mark.parametrize("direction", ["forward", "reverse"])
@pytest.mark.parametrize("kind", ["tanh", "scaled_tanh", "relu"])
def test_rnn(direction: str, kind: str) -> None:
    w = [uniform(HIDDEN, WIDTH), uniform(HIDDEN, HIDDEN), uniform(HIDDEN)]
    start = uniform(BATCH, HIDDEN)

    def body(mb: Any, x: Any, h: Any) -> Any:
        return mb.rnn(
            x=x, initial_h=h, weight_ih=w[0], weight_hh=w[1], bias=w[2],
            direction=direction, output_sequence=True, activation=kind,
        )  # fmt: skip

    y, last = compute(body, {"x": X, "h": start})
    h, steps = start, []
    for step in X[::-1] if direction == "reverse" else X:
        h = ACTIVATIONS[kind](step @ w[0].T + h @ w[1].T + w[2])
        steps.append(h)
    agrees(y, single(np.stack(steps)))
    agrees(last, single(h))
