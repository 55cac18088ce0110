"""What a source keeps between calls: an input and an output, or with ``--no-state`` neither."""

from pathlib import Path

import numpy as np
import pytest

from converter.runtime.ort import OrtSession
from tests.acceptance.cli import typed
from tests.coreml.test_interface import stateful
from tests.tflite.build import File, counter

NET = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.tensor([[3.0, -1.0]]))
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        self.total += x
        self.calls += 1
        return self.total * 2
"""

X = np.array([[0.5, 7.0]], np.float32)


@pytest.mark.slow
def test_a_pytorch_model_s_buffers(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(NET)
    line = "convert net.py:Net --input x:1x2 --samples random:4 --no-bench --no-state --json"
    report = typed(f"{line} --to onnx,tflite --out out", tmp_path).json["report"]
    told = " ".join(alert["text"] for alert in report["alerts"])
    assert report["verdict"] == "passed" and "without effect" not in told
    assert "STATE IS HELD: forward changes buffers" in told and "total (starts at" in told
    session = OrtSession(tmp_path / "out/onnx/fp32/model.onnx")
    assert [spec.name for spec in (*session.inputs, *session.outputs)] == ["x", "output"]
    for _ in range(2):
        np.testing.assert_array_equal(session.run({"x": X})["output"], [[7.0, 12.0]])
    line = "check out --against net.py:Net --input x:1x2 --samples random:4"
    typed(f"{line} --no-state", tmp_path)


@pytest.mark.slow
def test_a_tflite_file_s_variables(tmp_path: Path) -> None:
    (tmp_path / "sum.tflite").write_bytes(counter()[0].content())
    line = "convert sum.tflite --samples random:4 --no-bench --json --to onnx"
    report = typed(f"{line} --no-state --out out", tmp_path).json["report"]
    told = " ".join(alert["text"] for alert in report["alerts"])
    assert report["verdict"] == "passed"
    assert "STATE IS HELD: the file keeps state" in told and "running/total (starts at 5.0)" in told
    session = OrtSession(tmp_path / "out/onnx/fp32/model.onnx")
    assert [spec.name for spec in (*session.inputs, *session.outputs)] == ["x", "y"]
    for _ in range(2):
        np.testing.assert_array_equal(session.run({"x": X})["y"], [[5.5, 12.0]])
    report = typed(f"{line} --out other", tmp_path).json["report"]
    assert any("STATE IS EXPLICIT" in alert["text"] for alert in report["alerts"])


def test_what_cant_be_held_is_refused_by_name(tmp_path: Path) -> None:
    said = typed(f"convert {stateful(tmp_path)} --no-state --no-bench --out out", tmp_path, 2)
    assert "keeps state (total)" in said.err and "Leave --no-state out" in said.err
    file = File()
    graph = file.graph()
    x, last = graph.tensor("x", (1, 2)), graph.tensor("last", (1, 2), variable=True)
    y = graph.add(x, last, (1, 2), "y")
    graph.interface([x], [y])
    (tmp_path / "v.tflite").write_bytes(file.content())
    said = typed("convert v.tflite --no-state --no-bench --out out", tmp_path, 3)
    assert "last" in said.err and "can't stay as it is stored" in said.err
    assert "leave --no-state out" in said.err
