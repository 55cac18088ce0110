"""Normalizations, in what the official node tests leave out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.coreml_emitter.nodes import Inputs, Node, agree_all, joined, one
from tests.coreml_emitter.running import (
    Array,
    agree,
    emitted,
    kinds,
    numbers,
    parsed,
    run_package,
    with_weights,
)

FREE = ({"n": 1, "h": 5}, {"n": 2, "h": 4})


def _channels(count: int, *names: str) -> dict[str, Array]:
    made = {name: numbers(count, seed=place) for place, name in enumerate(names)}
    if "variance" in made:
        made["variance"] = np.abs(made["variance"])
    return made


@pytest.mark.parametrize("target", [15, 17])
def test_batch_normalization(target: int) -> None:
    numbers_ = _channels(3, "scale", "bias", "mean", "variance")
    dims: list[tuple[int | str, ...]] = [("n", 3), ("n", 3, "h"), ("n", 3, 4, "h"), (2, 3, 2, 2, 2)]
    nodes = [
        Node("BatchNormalization", {"x": size, **numbers_}, {"epsilon": 1e-2}) for size in dims
    ]
    agree_all(nodes, FREE, target=target)


def test_batch_normalization_with_computed_statistics() -> None:
    model = one(
        "BatchNormalization",
        {"x": ("n", 3, 4), "scale": (3,), "bias": (3,), "mean": (3,), "variance": (3,)},
    )
    agree(model, {"x": numbers(2, 3, 4), **_channels(3, "scale", "bias", "mean", "variance")})


def test_training_gives_running_statistics() -> None:
    numbers_ = _channels(3, "scale", "bias", "mean", "variance")
    model = one(
        "BatchNormalization",
        {"x": (4, 3, 5), **numbers_},
        outputs=3,
        training_mode=1,
        momentum=0.7,
    )
    agree(model, {"x": numbers(4, 3, 5)})


def test_a_conv_takes_its_batch_normalization_in(tmp_path: Path) -> None:
    model = parsed(
        "g (float[n, 2, 8, 8] x, float[3, 2, 3, 3] w, float[3] s, float[3] c, float[3] m,"
        " float[3] v) => (float[n, 3, 6, 6] y)"
        " { z = Conv(x, w)  y = BatchNormalization(z, s, c, m, v) }"
    )
    each = _channels(3, "s", "c", "m", "variance")
    each["v"] = each.pop("variance")
    model = with_weights(model, w=numbers(3, 2, 3, 3), **each)
    agree(model, {"x": numbers(2, 2, 8, 8)}, tmp_path)
    assert kinds(tmp_path / "model.mlpackage") == ["conv"]


@pytest.mark.parametrize("target", [15, 17])
def test_instance_and_group_normalization(target: int) -> None:
    each, groups = _channels(4, "scale", "bias"), _channels(2, "scale", "bias")
    dims: list[tuple[int | str, ...]] = [("n", 4, "h"), ("n", 4, 3, "h"), ("n", 4, 2, "h", 3)]
    nodes = [Node("InstanceNormalization", {"x": size, **each}) for size in dims]
    nodes += [
        Node(
            "GroupNormalization",
            {"x": size, **groups},
            {"num_groups": 2, "epsilon": 1e-2},
            shape=size,
        )
        for size in dims
    ]
    nodes.append(Node("InstanceNormalization", {"x": dims[1], "scale": (4,), "bias": (4,)}))
    agree_all(nodes, FREE, target=target)


def test_layer_normalization() -> None:
    scale, bias = numbers(4, 3), numbers(4, 3, seed=1)
    inputs: list[Inputs] = [
        {"x": ("n", "h", 4, 3), "scale": scale, "bias": bias},
        {"x": ("n", "h", 4, 3), "scale": scale},
        {"x": ("n", 4, 3), "scale": (4, 3), "bias": (4, 3)},
        {"x": (2, 4, 3), "scale": numbers(1, 3), "bias": bias},
    ]
    nodes = [Node("LayerNormalization", given, {"axis": -2}) for given in inputs]
    nodes.append(
        Node("LayerNormalization", {"x": ("n", 5, 6), "scale": numbers(6)}, {"epsilon": 0.1}, 3)
    )
    agree_all(nodes, FREE)


def test_layer_normalization_is_one_operation(tmp_path: Path) -> None:
    inputs = {"x": ("n", 5, 6), "scale": numbers(6), "bias": numbers(6)}
    assert kinds(emitted(one("LayerNormalization", inputs), tmp_path)) == ["layer_norm"]


@pytest.mark.parametrize("target", [15, 17])
def test_local_response(target: int) -> None:
    attributes = {"alpha": 0.3, "beta": 0.6, "bias": 1.5, "size": 3}
    model = joined([Node("LRN", {"x": ("n", 7, "h", 4)}, attributes)])
    agree(model, {"0_x": numbers(2, 7, 5, 4)}, target=target)


@pytest.mark.parametrize("target", [15, 17])
def test_local_response_over_an_even_number_of_channels(target: int, tmp_path: Path) -> None:
    """ONNX Runtime takes odd numbers alone: held to the operator's definition."""
    alpha, beta, bias, size = 0.3, 0.6, 1.5, 4
    model = one("LRN", {"x": (2, 6, "h", 4)}, alpha=alpha, beta=beta, bias=bias, size=size)
    x = numbers(2, 6, 3, 4)
    found = run_package(emitted(model, tmp_path, target=target), {"x": x})["y"]
    wide = np.pad(x**2, ((0, 0), (1, 2), (0, 0), (0, 0)))
    around = np.stack([wide[:, c : c + size].sum(axis=1) for c in range(6)], axis=1)
    np.testing.assert_allclose(found, x / (bias + alpha / size * around) ** beta, rtol=1e-5)


def test_other_normalizations() -> None:
    nodes = [
        Node("LpNormalization", {"x": ("n", 4, "h")}, {"p": 1, "axis": 1}),
        Node("LpNormalization", {"x": ("n", 4, "h")}, {"p": 2}),
        Node("MeanVarianceNormalization", {"x": ("n", 3, "h", 4)}, shape=("n", 3, "h", 4)),
    ]
    agree_all(nodes, FREE)


def test_batch_normalization_of_half_precision_with_constants_of_float32() -> None:
    each = _channels(4, "scale", "bias", "mean", "variance")
    model = one("BatchNormalization", {"x": (2, 4, 3), **each}, dtype="float16", epsilon=1e-7)
    x = numbers(2, 4, 3).astype(np.float16)
    agree(model, {"x": x}, rtol=5e-3, atol=5e-3)


def test_half_precision() -> None:
    def half(*names: str) -> dict[str, Array]:
        return {name: array.astype(np.float16) for name, array in _channels(4, *names).items()}

    each = half("scale", "bias", "mean", "variance")
    each["variance"] += np.float16(0.1)
    few, dims = half("scale", "bias"), ("n", 4, "h", 3)
    nodes = [
        Node("InstanceNormalization", {"x": dims, **few}),
        Node("BatchNormalization", {"x": dims, **each}),
        Node("LayerNormalization", {"x": ("n", "h", 4), **few}),
        Node("GroupNormalization", {"x": dims, **few}, {"num_groups": 4}, shape=dims),
    ]
    agree_all(nodes, FREE, dtype="float16", rtol=1e-2, atol=1e-2)
