"""Poolings, in what the official node tests leave out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.coreml_emitter.nodes import Node, agree_all, joined, one
from tests.coreml_emitter.running import agree, emitted, kinds, numbers

FREE = ({"n": 1, "h": 9, "w": 8}, {"n": 2, "h": 7, "w": 10}, {"n": 1, "h": 8, "w": 11})
WINDOWS: list[dict[str, Any]] = [
    {"kernel_shape": [3], "strides": [2], "pads": [1, 0], "ceil_mode": 1},
    {"kernel_shape": [3, 2], "strides": [2, 3], "pads": [0, 1, 2, 0]},
    {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1], "ceil_mode": 1},
    {"kernel_shape": [3, 4], "strides": [2, 3], "auto_pad": "SAME_LOWER"},
    {"kernel_shape": [4, 3], "strides": [3, 2], "auto_pad": "SAME_UPPER"},
    {"kernel_shape": [3, 2], "strides": [2, 1], "dilations": [2, 3], "pads": [1, 0, 2, 1]},
    {"kernel_shape": [2, 3, 2], "strides": [1, 2, 2], "pads": [1, 0, 0, 0, 1, 1], "ceil_mode": 1},
]
FLAT = [window for window in WINDOWS if len(window["kernel_shape"]) == 2]
KINDS: list[tuple[str, dict[str, int]]] = [
    ("MaxPool", {}),
    ("AveragePool", {}),
    ("AveragePool", {"count_include_pad": 1}),
    ("LpPool", {"p": 3}),
]


def _nodes(windows: list[dict[str, Any]], dims: tuple[int | str, ...]) -> list[Node]:
    return [
        Node(op, {"x": dims[: 2 + len(window["kernel_shape"])]}, {**window, **more})
        for window in windows
        for op, more in KINDS
    ]


@pytest.mark.parametrize("target", [15, 17])
def test_pool(target: int) -> None:
    agree_all(_nodes(WINDOWS, (2, 3, 9, 8, 7)), target=target)


def test_pool_of_free_sizes() -> None:
    agree_all(_nodes(FLAT[1:], ("n", 3, "h", "w")), FREE)


def test_pool_in_half_precision() -> None:
    nodes = [node for node in _nodes(FLAT, (2, 3, 9, 8)) if node.op != "LpPool"]
    agree_all(nodes, dtype="float16", rtol=2e-3, atol=2e-3)


def test_maxima_of_negative_numbers_don_t_see_the_padding() -> None:
    model = joined([Node("MaxPool", {"x": (1, 2, 8, 8)}, window) for window in FLAT])
    x = -1 - np.abs(numbers(1, 2, 8, 8))
    agree(model, {f"{number}_x": x for number in range(len(FLAT))})


@pytest.mark.parametrize("kind", ["int8", "uint8"])
def test_max_pool_of_integers(kind: str) -> None:
    x = np.random.default_rng(0).integers(0, 120, (1, 2, 6, 7)).astype(kind)
    if kind == "int8":
        x -= 100
    agree(one("MaxPool", {"x": x.shape}, dtype=kind, **WINDOWS[2]), {"x": x})


# -- Indices -----------------------------------------------------------------------------


def test_indices() -> None:
    windows: list[dict[str, Any]] = [
        {"kernel_shape": [3], "strides": [2], "pads": [1, 0]},
        {"kernel_shape": [3, 2], "strides": [2, 1], "dilations": [2, 3], "pads": [1, 0, 2, 1]},
        {"kernel_shape": [2, 2], "strides": [2, 2], "storage_order": 1},
        {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1], "ceil_mode": 1},
        {"kernel_shape": [2, 2, 2], "strides": [1, 2, 2]},
    ]
    dims: list[tuple[int | str, ...]] = [
        ("n", 3, *(9, 8, 7)[: len(window["kernel_shape"])]) for window in windows
    ]
    dims[2:4] = [("n", 3, "h", 8), (2, 3, "h", "w")]
    nodes = [
        Node("MaxPool", {"x": size}, window, 2, {"y1": "int64"})
        for size, window in zip(dims, windows, strict=True)
    ]
    feeds = [
        {
            f"{number}_x": np.random.default_rng(number)  # with equal ones
            .integers(-9, 9, [run.get(str(dim), dim) for dim in size])
            .astype(np.float32)
            for number, size in enumerate(dims)
        }
        for run in FREE
    ]
    agree(joined(nodes), feeds)


@pytest.mark.parametrize("batch", [2, "n"])
def test_max_unpool(batch: int | str) -> None:
    model = one(
        "MaxUnpool",
        {"x": (batch, 3, 2, 4), "at": (batch, 3, 2, 4)},
        dtypes={"at": "int64"},
        kernel_shape=[2, 2],
        strides=[3, 2],
    )
    places = np.random.default_rng(0).permutation(2 * 3 * 5 * 8)[: 2 * 3 * 2 * 4]
    agree(model, {"x": numbers(2, 3, 2, 4), "at": places.reshape(2, 3, 2, 4)})


# -- over all of space -------------------------------------------------------------------


def test_global_pool() -> None:
    nodes = [
        Node(op, {"x": ("n", 3, "h", 5)}, {"p": 3} if op == "GlobalLpPool" else {})
        for op in ("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
    ]
    agree_all(nodes, FREE)


def test_ordinary_poolings_are_one_operation(tmp_path: Path) -> None:
    nodes = [Node(op, {"x": ("n", 3, "h", "w")}, WINDOWS[2]) for op in ("MaxPool", "AveragePool")]
    assert kinds(emitted(joined(nodes), tmp_path)) == ["max_pool", "avg_pool"]
