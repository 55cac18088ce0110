"""Weights of fewer bits are made when they are needed, one after another."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnx_ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from converter.ir.edit import weights_first

WIDTH, COUNT = 1024, 12
RUN = """
import sys
from pathlib import Path
import numpy as np, onnxruntime

def kilobytes(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1])

options = onnxruntime.SessionOptions()
options.enable_mem_pattern = options.enable_cpu_mem_arena = False
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
session = onnxruntime.InferenceSession(sys.argv[1], options)
x = np.ones(session.get_inputs()[0].shape, np.float32)
Path("/proc/self/clear_refs").write_text("5")  # the most is what there is now: proc(5)
before = kilobytes("VmRSS")
session.run(None, {"x0": x})
print(kilobytes("VmHWM") - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from Linux's /proc")
def test_one_weight_is_there_at_a_time(tmp_path: Path) -> None:
    made = onnx_ir.serde.deserialize_model(_products())
    before = _taken(made, tmp_path)
    nodes = weights_first(made.graph)
    assert [node.op_type for node in nodes] == ["DequantizeLinear"] * COUNT + ["MatMul"] * COUNT
    for node in nodes:
        made.graph.remove(node)
        made.graph.append(node)
    kilobytes = WIDTH**2 * 4 / 1024
    assert before > 0.9 * COUNT * kilobytes > 4 * kilobytes > _taken(made, tmp_path)


def _products() -> onnx.ModelProto:
    """Products with weights of 16 bits, each made right before its own."""
    rng, nodes, weights = np.random.default_rng(0), [], []
    for at in range(COUNT):
        stored = rng.integers(-99, 99, (WIDTH, WIDTH)).astype(np.int16)
        weights += [
            numpy_helper.from_array(stored, f"q{at}"),
            numpy_helper.from_array(np.float32(1e-4), f"s{at}"),
        ]
        nodes += [
            helper.make_node("DequantizeLinear", [f"q{at}", f"s{at}"], [f"w{at}"]),
            helper.make_node("MatMul", [f"x{at}", f"w{at}"], [f"x{at + 1}"]),
        ]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, WIDTH])
        for name in ("x0", f"x{COUNT}")
    ]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def _taken(model: onnx_ir.Model, folder: Path) -> int:
    """Kilobytes that a run takes, above what opening took."""
    onnx_ir.save(model, folder / "model.onnx")
    argv = [sys.executable, "-c", RUN, str(folder / "model.onnx")]
    return int(subprocess.run(argv, capture_output=True, check=True, text=True).stdout)
