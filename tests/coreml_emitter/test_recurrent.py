"""RNN, GRU and LSTM: MIL's own operations, steps written out, and loops."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.coreml_emitter.running import (
    Model,
    agree,
    emitted,
    kinds,
    numbers,
    parsed,
    run_package,
    with_weights,
)

Array = np.ndarray[Any, Any]
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
HIDDEN, ELEMENTS = 3, 4


def recurrent(
    op: str, attributes: str = "", *, steps: str = "s", batch: str = "b", names: str = "x, w, r, c",
    more: str = "", layout: int = 0, dtype: str = "float",
) -> Model:  # fmt: skip
    """One node, whose sizes are free unless they are numbers."""
    both = "bidirectional" in attributes
    directions, rows = 1 + both, GATES[op] * HIDDEN
    order = [batch, steps] if layout else [steps, batch]
    whole = [batch, steps, directions] if layout else [steps, directions, batch]
    state = [batch, directions] if layout else [directions, batch]
    ends = ["h", "e"] if op == "LSTM" else ["h"]
    given = ", ".join(f"{dtype}[{', '.join(map(str, state))}, {HIDDEN}] {name}" for name in ends)
    settings = [
        f"hidden_size = {HIDDEN}",
        f"layout = {layout}",
        *([attributes] if attributes else []),
    ]
    return parsed(f"""
        g ({dtype}[{", ".join(order)}, {ELEMENTS}] x, {dtype}[{directions}, {rows}, {ELEMENTS}] w,
           {dtype}[{directions}, {rows}, {HIDDEN}] r, {dtype}[{directions}, {2 * rows}] c{more})
        => ({dtype}[{", ".join(map(str, whole))}, {HIDDEN}] y, {given})
        {{ y, {", ".join(ends)} = {op} <{", ".join(settings)}> ({names}) }}""")


def weights(op: str, directions: int = 1) -> dict[str, Array]:
    rows = GATES[op] * HIDDEN
    return {
        "w": numbers(directions, rows, ELEMENTS, seed=1),
        "r": numbers(directions, rows, HIDDEN, seed=2),
        "c": numbers(directions, 2 * rows, seed=3),
    }


SIZES = [{"x": numbers(steps, batch, ELEMENTS)} for steps, batch in ((1, 2), (11, 1))]


@pytest.mark.parametrize(
    ("op", "direction"),
    [("RNN", "forward"), ("RNN", "bidirectional"), ("GRU", "bidirectional"), ("LSTM", "reverse"),
     ("LSTM", "bidirectional")],
)  # fmt: skip
def test_free_steps_and_batch(op: str, direction: str) -> None:
    model = recurrent(op, f'direction = "{direction}"')
    agree(with_weights(model, **weights(op, 1 + (direction == "bidirectional"))), SIZES)


@pytest.mark.parametrize(("op", "steps"), [("RNN", 3), ("GRU", 9), ("LSTM", 3)])
def test_weights_that_are_computed(op: str, steps: int) -> None:
    model = recurrent(op, 'direction = "bidirectional"', steps=str(steps), batch="2")
    agree(model, {"x": numbers(steps, 2, ELEMENTS), **weights(op, 2)})


@pytest.mark.parametrize(
    ("op", "steps"), [("RNN", "12"), ("GRU", "4"), ("GRU", "s"), ("LSTM", "s")]
)
def test_lengths_and_starts(op: str, steps: str) -> None:
    """Sequences that end earlier, in both directions, from states of their own."""
    states = ", s, t" if op == "LSTM" else ", s"
    more = f", int32[3] l, float[2, 3, {HIDDEN}] s" + (
        f", float[2, 3, {HIDDEN}] t" if op == "LSTM" else ""
    )
    model = recurrent(
        op, 'direction = "bidirectional"', steps=steps, batch="3",
        names=f"x, w, r, c, l{states}", more=more,
    )  # fmt: skip
    count = int(steps) if steps.isdigit() else 10
    feeds = {"x": numbers(count, 3, ELEMENTS), "l": np.array([count, 2, 3], np.int32)}
    feeds["s"] = numbers(2, 3, HIDDEN, seed=4)
    if op == "LSTM":
        feeds["t"] = numbers(2, 3, HIDDEN, seed=5)
    agree(with_weights(model, **weights(op, 2)), feeds)


@pytest.mark.parametrize("op", ["GRU", "LSTM"])
def test_batch_first(op: str, tmp_path: Path) -> None:
    """The layout that ONNX Runtime hasn't: what the other one gives, its axes moved."""
    x = numbers(6, 2, ELEMENTS)
    expected = agree(with_weights(recurrent(op), **weights(op)), {"x": x})
    path = emitted(with_weights(recurrent(op, layout=1), **weights(op)), tmp_path)
    found = run_package(path, {"x": x.swapaxes(0, 1)})
    np.testing.assert_allclose(found["y"], np.moveaxis(expected["y"], 2, 0), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found["h"], expected["h"].swapaxes(0, 1), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("op", "attribute"),
    [("GRU", "linear_before_reset = 1"), ("GRU", "clip = 0.3"), ("LSTM", "input_forget = 1"),
     ("LSTM", "clip = 0.3")],
)  # fmt: skip
def test_attributes(op: str, attribute: str) -> None:
    agree(with_weights(recurrent(op, attribute), **weights(op)), SIZES)


def test_peepholes() -> None:
    model = recurrent("LSTM", names='x, w, r, c, "", "", "", p', more=f", float[1, {3 * HIDDEN}] p")
    made = with_weights(model, **weights("LSTM"), p=numbers(1, 3 * HIDDEN, seed=6))
    agree(made, SIZES)


@pytest.mark.parametrize(
    ("op", "names", "alphas", "betas"),
    [
        ("LSTM", ["HardSigmoid", "Softsign", "ScaledTanh"], [0.3, 1.2], [0.4, 0.6]),
        ("LSTM", ["Sigmoid", "Elu", "Affine"], [0.7, 0.5], [0.1]),
        ("LSTM", ["HardSigmoid", "Tanh", "Softplus"], [], []),
        ("GRU", ["HardSigmoid", "ThresholdedRelu"], [0.3, 0.2], [0.4]),
        ("GRU", ["Sigmoid", "LeakyRelu"], [0.2], []),
        ("RNN", ["Relu"], [], []),
    ],
)
def test_activations(op: str, names: list[str], alphas: list[float], betas: list[float]) -> None:
    quoted = ", ".join(f'"{name}"' for name in names)
    text = f"activations = [{quoted}]"
    text += f", activation_alpha = {alphas}" if alphas else ""
    text += f", activation_beta = {betas}" if betas else ""
    model = recurrent(op, text, steps="4", batch="2")
    agree(with_weights(model, **weights(op)), {"x": numbers(4, 2, 4)})


@pytest.mark.parametrize(
    ("op", "direction", "expected"),
    [
        ("LSTM", "reverse", ["reverse", "lstm", "reverse"]),
        ("LSTM", "bidirectional", ["lstm"]),
        ("RNN", "bidirectional", ["rnn", "reverse", "rnn", "reverse"]),
    ],
)
def test_what_is_mil_s_own(op: str, direction: str, expected: list[str], tmp_path: Path) -> None:
    model = recurrent(op, f'direction = "{direction}"')
    made = with_weights(model, **weights(op, 1 + (direction == "bidirectional")))
    found = kinds(emitted(made, tmp_path))
    assert sorted(k for k in found if k in ("lstm", "rnn", "reverse")) == sorted(expected)


@pytest.mark.parametrize("target", [16, 17])
def test_halves(target: int) -> None:
    """MIL's operations take them from iOS17 on; before, the steps are written out."""
    model = recurrent("LSTM", dtype="float16", steps="5", batch="2")
    made = with_weights(
        model, **{name: array.astype(np.float16) for name, array in weights("LSTM").items()}
    )
    agree(made, {"x": numbers(5, 2, 4).astype(np.float16)}, target=target, rtol=1e-2, atol=1e-2)


def test_quantized_weights(tmp_path: Path) -> None:
    """They are made real, for MIL's own operation."""
    model = parsed("""g (float[5, b, 4] x, int8[1, 12, 4] w, int8[1, 12, 3] r, float s)
        => (float[5, 1, b, 3] y) {
        v = DequantizeLinear(w, s)
        t = DequantizeLinear(r, s)
        y = LSTM<hidden_size = 3>(x, v, t)
    }""")
    stored = {
        "w": (numbers(1, 12, 4) * 40).astype(np.int8),
        "r": (numbers(1, 12, 3, seed=1) * 40).astype(np.int8),
    }
    made = with_weights(model, **stored, s=np.asarray(0.02, np.float32))
    agree(made, {"x": numbers(5, 2, 4)}, tmp_path)
    assert "lstm" in kinds(tmp_path / "model.mlpackage")
