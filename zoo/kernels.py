"""Which of ONNX Runtime's kernels a model's time goes to, by its profiler."""

from __future__ import annotations

import statistics
from pathlib import Path

import onnx
import onnx_ir

from converter.ir.model import Model
from converter.runtime.ort import OrtSession
from converter.runtime.ort_profile import RUNS, most, profile, zeros


def call_alone(model: Path) -> float:
    """Microseconds of a call of ``run`` that hands the same inputs back: no kernel is in it."""
    original = onnx.load(model, load_external_data=False)
    inputs, names = original.graph.input, [spec.name for spec in Model.load(model).inputs]
    given = [value for value in inputs if value.name in names]
    back = [onnx.ValueInfoProto(name=f"{value.name}_back", type=value.type) for value in given]
    nodes = [
        onnx.helper.make_node("Identity", [value.name], [other.name])
        for value, other in zip(given, back, strict=True)
    ]
    del original.graph.node[:], original.graph.initializer[:], original.graph.value_info[:]
    del original.graph.output[:]
    original.graph.node.extend(nodes)
    original.graph.output.extend(back)
    session = OrtSession(onnx_ir.from_proto(original), threads=1)
    return statistics.median(session.time(zeros(session.inputs), 100 * RUNS).ns) / 1e3


def told(model: Path) -> str:
    """In a line: how many nodes run, the operators that take most of the time, and a call alone."""
    found = profile(model)
    nodes = sum(n for n, _ in found.values())
    return f"{nodes} nodes: {most(found)}; a call alone {call_alone(model):.3g} µs"
