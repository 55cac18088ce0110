"""How each step's time grows with a model's nodes and with the bytes of its weights, and memory.

``python -m bench growth`` gives the page's rows, and draws docs/growth-nodes.svg and
docs/growth-bytes.svg.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from bench.measure import Row, cold_cache, peak_memory, wall_seconds
from converter.report.svg import growth_plot

DOCS = Path(__file__).resolve().parent.parent / "docs"
MODELYARD = str(Path(sys.executable).parent / "modelyard")
TARGETS = ("onnx", "tflite", "coreml")
NODES = (100, 1000, 5000, 20_000)
BYTES = tuple(megabytes * 10**6 for megabytes in (10, 100, 1000, 4000))
STEEPEST = 1.3
"""The exponent from which a step's time grows faster than n log n, whatever the noise."""
OPENING = "ONNX Runtime alone, opening it"
ROOM = 300e6
"""Bytes that a conversion takes however small the weights are."""
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


Times = Mapping[int, Mapping[str, float]]
"""Wall seconds of each step, and of the whole command (``command``), by the model's size."""


def rows(folder: Path) -> Iterator[Row]:
    """A row for each target by nodes, and for each size by bytes; draws both plots."""
    grown = {target: {n: of_nodes(folder, target, n) for n in NODES} for target in TARGETS}
    for target, times in grown.items():
        powers = exponents(times)
        seen = ", ".join(f"{times[n]['command']:.3g} s" for n in NODES)
        steps = ", ".join(f"{step} n^{power:.2f}" for step, power in powers.items())
        what = f"ONNX to {target}, {', '.join(f'{n:,}' for n in NODES)} nodes"
        met = all(power <= STEEPEST for step, power in powers.items() if step != OPENING)
        yield Row(what, f"{seen}; {steps}", f"each step n^{STEEPEST} or less", met)
    draw(grown, "nodes")
    heavy: dict[str, dict[int, Mapping[str, float]]] = {target: {} for target in TARGETS[:2]}
    for target, times in heavy.items():
        for size in BYTES:
            held, anonymous, times[size] = of_bytes(folder, target, size)
            what = f"ONNX to {target}, {held / 1e6:,.0f} MB of weights outside, anonymous memory"
            taken = f"{anonymous / 1e6:,.0f} MB; {times[size]['command']:.3g} s"
            seen = f"x{anonymous / held:.2f} ({taken})"
            yield Row(what, seen, "x1 and 300 MB", anonymous <= held + ROOM)
    draw(heavy, "bytes")


def draw(grown: Mapping[str, Times], unit: str) -> None:
    """Passes (of the first target: all have the same) and each target's emission, as curves."""
    curves = {"passes": [(n, step["simplify"]) for n, step in grown[TARGETS[0]].items()]}
    for target, times in grown.items():
        curves[f"emission, {target}"] = [
            (n, step[f"emit:{target}:fp32"]) for n, step in times.items()
        ]
    (DOCS / f"growth-{unit}.svg").write_text(growth_plot(curves, unit))


def of_nodes(folder: Path, target: str, count: int) -> Mapping[str, float]:
    """Converts a model of many nodes.

    Args:
        folder: For the model and the output.
        target: What it is converted to.
        count: How many nodes.

    Returns:
        Seconds by step; of the command, and of opening the file.
    """
    make_mixed(folder / "mixed.onnx", count)
    cold_cache(folder)
    seconds = wall_seconds(_command("mixed.onnx", target), folder)
    return _steps(folder) | {"command": seconds, OPENING: _opening(folder / "mixed.onnx")}


def _opening(path: Path) -> float:
    """Seconds that ONNX Runtime takes to open a file, which reading and checking can't go below."""
    import onnxruntime

    start = time.perf_counter()
    onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return time.perf_counter() - start


def of_bytes(folder: Path, target: str, size: int) -> tuple[int, int, Mapping[str, float]]:
    """Converts a model whose weights lie in a file beside it.

    Args:
        folder: For the model and the output.
        target: What it is converted to.
        size: About how many bytes of weights.

    Returns:
        The bytes of weights, the most anonymous memory in bytes, and seconds by step.
    """
    held = make_large(folder / "large.onnx", size)
    cold_cache(folder)
    peak = peak_memory(_command("large.onnx", target), folder)
    steps = _steps(folder)
    return held, peak.anonymous, steps | {"command": sum(steps.values())}


def make_large(path: Path, size: int, width: int = 0) -> int:
    """Writes a model of square MatMuls with external weights; gives the bytes of the weights.

    Args:
        path: Where.
        size: About how many they are.
        width: Of the matrices; 0 for what suits the size.
    """
    import onnx
    from onnx import TensorProto, helper

    width = width or (4096 if size >= 1e9 else 1024)
    count = size // (width * width * 4)
    rng = np.random.default_rng(0)
    weights, nodes = [], []
    with path.with_suffix(".data").open("wb") as data:
        for i in range(count):
            block = rng.standard_normal((width, width), np.float32) / np.float32(np.sqrt(width))
            tensor = TensorProto(name=f"w{i}", data_type=TensorProto.FLOAT, dims=block.shape)
            tensor.data_location = TensorProto.EXTERNAL
            where = {"location": path.with_suffix(".data").name, "offset": data.tell()}
            for key, value in {**where, "length": block.nbytes}.items():
                tensor.external_data.add(key=key, value=str(value))
            data.write(block.tobytes())
            weights.append(tensor)
            nodes.append(helper.make_node("MatMul", [f"x{i}", f"w{i}"], [f"x{i + 1}"], f"n{i}"))
    shape = ["batch", width]
    graph = helper.make_graph(
        nodes,
        "large",
        [helper.make_tensor_value_info("x0", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(f"x{count}", TensorProto.FLOAT, shape)],
        weights,
    )
    opset = helper.make_opsetid("", 18)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=9), path)
    return count * width * width * 4


def _command(model: str, target: str) -> list[str]:
    argv = [MODELYARD, "convert", model, "--to", target, "--no-bench", "--out", "grown"]
    return [*argv, "--overwrite"]


def _steps(folder: Path) -> dict[str, float]:
    steps = json.loads((folder / "grown" / "report.json").read_text())["timings"]
    return {step["step"]: step["seconds"] for step in steps}


def exponents(grown: Times) -> dict[str, float]:
    """Of each step that takes long at the most nodes, the exponent between the last two sizes: 1
    is linear, and n log n is 1.1 there."""
    (few, before), (many, after) = list(grown.items())[-2:]
    return {
        step: float(np.log(seconds / before[step]) / np.log(many / few))
        for step, seconds in after.items()
        if seconds >= NOTED and before.get(step)
    }
