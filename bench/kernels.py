"""``python -m bench.kernels``: measures ``emitters/onnx/kernels.json``, and writes it.

Of each form of ``emitters/onnx/kernels.py``, small networks in which ONNX Runtime would meet it, of
several sizes, as they are and with the form: on the CPU, in one thread, in turns in one process.
The gain is the ratio of the medians; a form is used from the size on from which each gains.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir
import onnxruntime

from converter.ir.model import IR_VERSION, OPSET, Model
from converter.machine import describe_machine
from converter.runtime.ort import OrtSession
from emitters.onnx.kernels import FORMS, TABLE, WORTH, FasterKernels

ROUNDS = 15
"""In turns, after one that doesn't count."""

ROUND = 0.02
"""Seconds of measuring in a round, for each of both."""

MAPS = [(16, 96), (32, 48), (32, 32), (64, 24), (128, 12), (128, 6), (128, 2), (128, 1)]
"""Channels and height of feature maps, as networks for phones have them."""

NETS = {
    "blocked": """net (float[1,{c},{h},{h}] x, float[{c},{c},1,1] w, float[{c},1,1] s)
        => (float[1,{c},{h},{h}] y) {{ a = Conv(x, w) b = PRelu(a, s) y = Conv(b, w) }}""",
    "choice": """net (float[1,{c},{h},{h}] x, float[{c},1,1] s) => (float[1,{c},{h},{h}] y)
        {{ y = PRelu(x, s) }}""",
    "halves": """net (float[1,{c},{h},{h}] x, float[{c},{c},1,1] w, float[{d},{c},1,1] v,
                      float[{d},1,3,3] t, float[{d},{d},1,1] z)
        => (float[1,{d},{h},{h}] y) <int64[8] p = {{0,0,0,0,0,{c},0,0}}>
        {{ a = Conv(x, w) b = Relu(a) c = Pad(b, p) d = Conv(b, v) e = Add(c, d) f = Relu(e)
           g = Conv<group = {d}, pads = [1,1,1,1]>(f, t) h = Conv(g, z) i = Add(f, h)
           y = Relu(i) }}""",
}
"""In ONNX's text; c: channels, d: twice as many, h: height and width. Behind a sum with a Pad comes
the next block, as in networks with residuals."""


def network(form: str, channels: int, height: int) -> Model:
    """A network that holds what a form is of; its weights are seeded.

    Args:
        form: Which of the forms.
        channels: Of the network's input.
        height: Of its input, in elements; as wide as high.
    """
    text = NETS[form].format(c=channels, d=2 * channels, h=height)
    header = f'<ir_version: {IR_VERSION}, opset_import: ["" : {OPSET}]>'
    proto = onnx.parser.parse_model(header + text)
    rng = np.random.default_rng(0)
    for value in list(proto.graph.input)[1:]:
        shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        weights = (rng.standard_normal(shape) / np.sqrt(prod(shape[1:]))).astype(np.float32)
        proto.graph.initializer.append(onnx.numpy_helper.from_array(weights, value.name))
        proto.graph.input.remove(value)
    model = Model(onnx_ir.from_proto(onnx.shape_inference.infer_shapes(proto)))
    for index, node in enumerate(model.nodes()):
        node.name = f"{node.op_type}_{index}"
    return model


def rewritten(model: Model, form: str) -> Model:
    """The network with a form, whatever its size."""
    step, copy = FasterKernels({form: 0}), model.copy()
    step(copy.graph)
    assert step.rewritten, f"nothing is written as {form}"
    return copy


def gain(model: Model, faster: Model) -> float:
    """How many times as fast the second is, by medians, in turns."""
    sessions = [OrtSession(each.graph, threads=1, stock=True) for each in (model, faster)]
    shape = [int(dim) for dim in model.inputs[0].shape or ()]
    feeds = {"x": np.random.default_rng(1).standard_normal(shape).astype(np.float32)}
    taken: list[list[float]] = [[], []]
    for number in range(1 + ROUNDS):
        for session, times in zip(sessions, taken, strict=True):
            once = _median(session, feeds)
            if number:
                times.append(once)
    before, after = (statistics.median(times) for times in taken)
    return before / after


def _median(session: OrtSession, feeds: Mapping[str, Any]) -> float:
    """Of the nanoseconds of runs, for a while."""
    end, times = time.perf_counter() + ROUND, []
    while time.perf_counter() < end:
        times += session.time(feeds, 10).ns
    return statistics.median(times)


def least(gains: Sequence[tuple[int, float]]) -> int | None:
    """Of elements and gains, the elements from which each gain is worth it; None of no size."""
    found = None
    for size, seen in sorted(gains, reverse=True):
        if seen < WORTH:
            break
        found = size
    return found


def measure() -> Iterator[tuple[str, dict[str, Any]]]:
    """Each form's row of the table."""
    for name, form in FORMS.items():
        sizes, gains = [], {}
        for channels, height in MAPS:
            model = network(name, channels, height)
            seen = gain(model, rewritten(model, name))
            shape = [int(dim) for dim in (model.outputs[0].shape or ())[1:]]
            gains[" x ".join(map(str, shape))] = round(seen, 2)
            sizes.append((prod(shape), round(seen, 2)))
        yield name, {"operator": form.operator, "type": "float32", "provider": "cpu",
                     "targets": form.targets, "least": least(sizes), "gains": gains}  # fmt: skip


def main() -> None:
    """Measures, prints, writes."""
    rows = {}
    for name, row in measure():
        rows[name] = row
        print(name, row["least"], row["gains"], flush=True)
    table = {
        "command": "python -m bench.kernels",
        "onnxruntime": onnxruntime.__version__,
        "machine": asdict(describe_machine()),
        "forms": rows,
    }
    Path(str(TABLE)).write_text(json.dumps(table, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
