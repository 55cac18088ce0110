"""How each step's time grows with a model's nodes, and memory with the bytes of its weights.

``python -m bench growth`` gives the page's rows.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np

from bench.measure import Memory, peak_memory, wall_seconds

NODES = (100, 1000, 5000, 20_000)
BYTES = tuple(megabytes * 10**6 for megabytes in (100, 300, 1000))
CHANNELS, SIDE = 4, 4
NOTED = 1.0
"""Seconds at the most nodes below which a step's growth isn't told: constant costs hide it."""


def make_mixed(path: Path, count: int) -> None:
    """Writes a model of about ``count`` nodes in blocks of eight: a branch of two Conv around a
    Relu, one of a MatMul, their sum, and elementwise operators on it; x: [batch, 4, 4, 4]."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)
    nodes, weights = [], []

    def constant(*shape: int, scale: float) -> str:
        name = f"w{len(weights)}"
        array = (rng.standard_normal(shape) * scale).astype(np.float32)
        weights.append(numpy_helper.from_array(array, name))
        return name

    def add(op: str, *inputs: str, **attributes: object) -> str:
        name = f"v{len(nodes)}"
        nodes.append(helper.make_node(op, inputs, [name], f"n{len(nodes)}", **attributes))
        return name

    def conv(x: str) -> str:
        weight = constant(CHANNELS, CHANNELS, 3, 3, scale=1 / 6)
        return add("Conv", x, weight, pads=[1] * 4)

    x = "x"
    for _ in range(max(count // 8, 1)):
        product = add("MatMul", x, constant(SIDE, SIDE, scale=1 / 2))
        y = add("Add", conv(add("Relu", conv(x))), product)
        y = add("Mul", add("Relu", y), constant(1, CHANNELS, 1, 1, scale=1))
        x = add("Sub", y, constant(1, CHANNELS, 1, 1, scale=1 / 4))
    shape = ["batch", CHANNELS, SIDE, SIDE]
    graph = helper.make_graph(
        nodes,
        "mixed",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(x, TensorProto.FLOAT, shape)],
        weights,
    )
    opset = helper.make_opsetid("", 18)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=9), path)


def step_seconds(argv: list[str], folder: Path, target: str, count: int) -> dict[str, float]:
    """Wall seconds of each step of a conversion without anything in the cache, and of the whole
    command (``command``)."""
    make_mixed(folder / "mixed.onnx", count)
    out = folder / "mixed-out"
    shutil.rmtree(out, ignore_errors=True)
    env = {"MODELYARD_CACHE": str(folder / f"cache-{target}-{count}")}
    whole = wall_seconds(
        [*argv, "convert", "mixed.onnx", "--to", target, "--no-bench", "--out", str(out)],
        folder,
        env,
    )
    steps = json.loads((out / "report.json").read_text())["timings"]
    return {step["step"]: step["seconds"] for step in steps} | {"command": whole}


def exponents(grown: dict[int, dict[str, float]]) -> dict[str, float]:
    """Of each step that takes long at the most nodes, the exponent between the last two sizes: 1
    is linear, and n log n is 1.1 there."""
    (few, before), (many, after) = list(grown.items())[-2:]
    return {
        step: float(np.log(seconds / before[step]) / np.log(many / few))
        for step, seconds in after.items()
        if seconds >= NOTED and before.get(step)
    }


def convert_memory(argv: list[str], folder: Path, size: int) -> tuple[int, Memory]:
    """The bytes of the weights of a model of about ``size``, and the most memory that converting
    it to ONNX takes."""
    from bench.__main__ import make_large

    held = make_large(folder / "growing.onnx", size)
    peak = peak_memory(
        [*argv, "convert", "growing.onnx", "--to", "onnx", "--no-bench", "--out", "growing-out"],
        folder,
    )
    shutil.rmtree(folder / "growing-out")
    return held, peak
