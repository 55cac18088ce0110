"""RNN, GRU and LSTM: every attribute, written out and as loops, with free sizes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from converter.ir import Model
from converter.ort import OrtSession
from emitters.tflite.lowering import lower
from emitters.tflite.session import open_file
from tests.tflite_emitter.running import (
    REQUEST,
    Array,
    agree,
    emitted,
    kinds,
    numbers,
    parsed,
    run_file,
    with_weights,
)

INSIDE, HIDDEN, BATCH = 3, 4, 2
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def recurrent(
    kind: str,
    attributes: str = "",
    *,
    steps: int | str = 3,
    batch: int | str = BATCH,
    directions: int = 1,
    extra: str = "",
    layout: int = 0,
    **weights: Array,
) -> Model:
    """A model of one operator; ``extra`` names inputs from ``sequence_lens`` on, by commas."""
    rows = GATES[kind] * HIDDEN
    shape = f"{batch},{steps}" if layout else f"{steps},{batch}"
    state = f"{batch},{directions}" if layout else f"{directions},{batch}"
    whole = f"{shape},{directions}" if layout else f"{steps},{directions},{batch}"
    cell = f", float[{state},{HIDDEN}] c" if kind == "LSTM" else ""
    names = ["l", "h0", "c0", "p"]
    types = [
        f"int32[{batch}]",
        *[f"float[{state},{HIDDEN}]"] * 2,
        f"float[{directions},{3 * HIDDEN}]",
    ]
    declared = "".join(
        f", {kind_} {name}" for kind_, name in zip(types, names, strict=True)
        if name in extra.replace(" ", "").split(",")
    )  # fmt: skip
    model = parsed(
        f"g (float[{shape},{INSIDE}] x, float[{directions},{rows},{INSIDE}] w,"
        f" float[{directions},{rows},{HIDDEN}] r, float[{directions},{2 * rows}] b{declared})"
        f" => (float[{whole},{HIDDEN}] y, float[{state},{HIDDEN}] h{cell})"
        f" {{ y, h{', c' if cell else ''} ="
        f" {kind}<hidden_size={HIDDEN}, layout={layout}{attributes}>(x, w, r, b{extra}) }}"
    )
    rng = np.random.default_rng(7)
    own = {
        "w": rng.standard_normal((directions, rows, INSIDE)).astype(np.float32),
        "r": rng.standard_normal((directions, rows, HIDDEN)).astype(np.float32),
        "b": rng.standard_normal((directions, 2 * rows)).astype(np.float32),
    }
    return with_weights(model, **own, **weights)


def feeds(steps: int, **more: Array) -> dict[str, Array]:
    return {"x": numbers(steps, BATCH, INSIDE), **more}


BOTH = ', direction="bidirectional"'


@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize("steps", [4, 40])
def test_both_directions_with_lengths_and_states(kind: str, steps: int, tmp_path: Path) -> None:
    """Few steps, written out, and many, in a loop; sequences of different lengths."""
    states = {"h0": numbers(2, BATCH, HIDDEN, seed=3)}
    if kind == "LSTM":
        states["c0"] = numbers(2, BATCH, HIDDEN, seed=4)
    extra = ", l, h0, c0" if kind == "LSTM" else ", l, h0"
    model = recurrent(kind, BOTH, steps=steps, directions=2, extra=extra)
    lengths = np.asarray([steps, steps - 3], np.int32)
    agree(model, feeds(steps, l=lengths, **states), tmp_path)
    assert ("WHILE" in kinds(model)) == (steps == 40)


@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_free_steps_and_batch(kind: str, direction: str, tmp_path: Path) -> None:
    model = recurrent(kind, f', direction="{direction}"', steps="T", batch="N")
    path, session = emitted(model, tmp_path), OrtSession(model.graph)
    for steps, batch in ((5, 2), (33, 1)):
        given = {"x": numbers(steps, batch, INSIDE)}
        found, expected = run_file(path, given), session.run(given)
        for name, array in expected.items():
            np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("steps", [3, 20])
@pytest.mark.parametrize(
    ("kind", "attributes"),
    [
        ("GRU", ", linear_before_reset=1"),
        ("GRU", ", clip=0.4"),
        ("GRU", ', activations=["HardSigmoid", "ScaledTanh"], activation_alpha=[0.3, 1.2],'
                " activation_beta=[0.4, 0.7]"),
        ("RNN", ', activations=["Affine"], activation_alpha=[0.5], activation_beta=[0.1]'),
        ("RNN", ', activations=["Relu"], clip=2.0'),
        ("RNN", ', activations=["LeakyRelu"], activation_alpha=[0.2]'),
        ("RNN", ', activations=["ThresholdedRelu"], activation_alpha=[0.3], clip=1.5'),
        ("LSTM", ", input_forget=1"),
        ("LSTM", ", clip=0.3"),
        ("LSTM", ', activations=["Sigmoid", "Softsign", "Softsign"]'),
        ("LSTM", ', activations=["Sigmoid", "Softplus", "Tanh"]'),
    ],
)  # fmt: skip
def test_attributes(kind: str, attributes: str, steps: int, tmp_path: Path) -> None:
    agree(recurrent(kind, attributes, steps=steps), feeds(steps), tmp_path)


def test_peepholes(tmp_path: Path) -> None:
    model = recurrent(
        "LSTM", BOTH, steps=18, directions=2, extra=", , , , p",
        p=numbers(2, 3 * HIDDEN, seed=9),
    )  # fmt: skip
    agree(model, feeds(18), tmp_path)


def test_many_steps_stay_a_small_file(tmp_path: Path) -> None:
    long = emitted(recurrent("LSTM", BOTH, steps=100, directions=2), tmp_path / "long")
    short = emitted(recurrent("LSTM", BOTH, steps=17, directions=2), tmp_path / "short")
    assert abs(long.stat().st_size - short.stat().st_size) < 500


@pytest.mark.parametrize("steps", [3, 20])
def test_runs_do_not_see_each_other(steps: int, tmp_path: Path) -> None:
    """The same input twice gives the same: no state is kept."""
    session = open_file(emitted(recurrent("LSTM", steps=steps), tmp_path), REQUEST)
    try:
        first, again = session.run(feeds(steps)), session.run(feeds(steps))
    finally:
        session.close()
    for name, array in first.items():
        np.testing.assert_array_equal(again[name], array, err_msg=name)


@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize("steps", [3, 20])
def test_batch_first(kind: str, steps: int, tmp_path: Path) -> None:
    """``layout`` 1, which ONNX Runtime hasn't, is the other with its axes swapped."""
    plain = recurrent(kind, BOTH, steps=steps, directions=2, extra=", , h0")
    swapped = recurrent(kind, BOTH, steps=steps, directions=2, layout=1, extra=", , h0")
    given = feeds(steps, h0=numbers(2, BATCH, HIDDEN, seed=3))
    expected = OrtSession(plain.graph).run(given)
    found = run_file(
        emitted(swapped, tmp_path), {name: array.swapaxes(0, 1) for name, array in given.items()}
    )
    np.testing.assert_allclose(found["y"], expected["y"].transpose(2, 0, 1, 3), atol=1e-5)
    np.testing.assert_allclose(found["h"], expected["h"].transpose(1, 0, 2), atol=1e-5)


def test_what_is_refused() -> None:
    attributes = ', activations=["Elu"], activation_alpha=[0.5]'
    (item,) = lower(recurrent("RNN", attributes)).refusals
    assert "Elu" in item.reason
