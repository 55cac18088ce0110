"""PyTorch models as engineers have them, classes and single files, to a checked ONNX file."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from converter.runtime.ort import OrtSession
from tests.acceptance.cli import Said, command, refused

pytestmark = pytest.mark.slow

PLAIN = """
import torch

class Net(torch.nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.line = torch.nn.Linear(3, width)

    def forward(self, x):
        return self.line(x).relu()
"""


def net(folder: Path, forward: str) -> None:
    """``net.py`` with a ``Net`` of this ``forward``, which is the rest of its ``def`` line."""
    head = "import torch\n\nclass Net(torch.nn.Module):\n    def forward"
    (folder / "net.py").write_text(f"{head}{forward}\n")


def convert(folder: Path, *args: str | Path, code: int = 0) -> Said:
    line = ("convert", *args, "--no-bench", "--out", "out", "--json")
    return command(*line, cwd=folder, code=code)


def converted(folder: Path, *args: str | Path) -> tuple[OrtSession, dict[str, Any]]:
    """The ONNX file that a conversion made, and its report."""
    report = convert(folder, *args).json["report"]
    assert report["verdict"] == "passed"
    return OrtSession(folder / "out/onnx/fp32/model.onnx"), report


def alerts(report: dict[str, Any]) -> str:
    return " ".join(alert["text"] for alert in report["alerts"])


def test_weights_and_arguments(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(PLAIN)
    state = {"line.weight": torch.arange(15.0).reshape(5, 3), "line.bias": torch.ones(5)}
    save_file(state, tmp_path / "net.safetensors")
    weights = ("--weights", "net.safetensors", "--arg", "width=5")
    session, report = converted(tmp_path, "net.py:Net", *weights, "--input", "x:Nx3")
    out = session.run({"x": np.ones((2, 3), np.float32)})
    np.testing.assert_allclose(next(iter(out.values()))[0], [4, 13, 22, 31, 40])
    assert "NO WEIGHTS" not in alerts(report)


def test_no_weights_is_said_loudly(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(PLAIN)
    session, report = converted(tmp_path, "net.py:Net", "--input", "x:batchx3")
    assert "NO WEIGHTS WERE LOADED" in alerts(report)
    assert "NO WEIGHTS WERE LOADED" in (tmp_path / "out/report.html").read_text()
    manifest = json.loads((tmp_path / "out/manifest.json").read_text())
    assert [item["path"] for item in manifest["source_files"]] == ["net.py"]
    assert manifest["request"]["source"] == "net.py:Net"
    assert session.inputs[0].shape == ("batch", 3)


def test_a_batch_that_the_code_fixes(tmp_path: Path) -> None:
    net(
        tmp_path,
        "(self, x):\n        assert x.shape[0] == 1\n        return x.reshape(3).cumsum(0)",
    )
    said = convert(tmp_path, "net.py:Net", "--input", "x:batchx3", "--serve", "triton")
    report = said.json["report"]
    assert "THE BATCH IS FIXED" in alerts(report)
    assert report["packages"][0]["details"]["max_batch"] == 0
    args = ("--input", "x:1x3", "--batch", "dynamic", "--out", "b")
    command("convert", "net.py:Net", *args, cwd=tmp_path, code=3)


def test_a_first_dimension_that_is_no_batch_keeps_its_size(tmp_path: Path) -> None:
    net(tmp_path, "(self, x):\n        return x @ torch.ones(4, 4) @ x")
    session, report = converted(tmp_path, "net.py:Net", "--input", "x:4x4")
    assert session.inputs[0].shape == (4, 4)
    assert "batch" not in alerts(report).lower()


def test_labelled_samples_of_a_function_and_a_metric_of_one_s_own(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(PLAIN)
    (tmp_path / "data.py").write_text(
        "import numpy as np\n"
        "def samples():\n"
        "    for i in range(6):\n"
        "        yield {'x': np.full((1, 3), i, np.float32)}, i\n"
    )
    (tmp_path / "score.py").write_text(
        "def largest(outputs, label):\n    return float(outputs['output'].max() >= 0)\n"
    )
    _, report = converted(
        tmp_path, "net.py:Net", "--input", "x:1x3", "--samples", "data.py:samples",
        "--metric", "score.py:largest",
    )  # fmt: skip
    (metric,) = report["artifacts"][0]["metrics"]
    assert (metric["samples"], metric["candidate"]) == (6, 100.0)
    assert report["samples"]["random"] is False


def test_a_detector_and_how_it_came_here(tmp_path: Path) -> None:
    source = Path(__file__).parents[1] / "worker" / "models" / "detector.py"
    session, report = converted(tmp_path, f"{source}:Detector", "--input", "images:3x40x48")
    assert report["source"]["name"] == "detector"
    assert [spec.name for spec in session.outputs] == ["boxes", "labels", "scores"]
    loud = [alert["text"] for alert in report["alerts"] if alert["loud"]]
    (said,) = [text for text in loud if text.startswith("EXPORTED BY TORCHSCRIPT: ")]
    assert "other inputs gave the same as the model itself" in said
    assert "in ONNX Runtime" in said


def test_what_values_decided_is_told_and_strict_misses_a_gate_for_it(tmp_path: Path) -> None:
    net(tmp_path, "(self, x):\n        return x + 1 if x.max() > 1e6 else x - 1")
    asked = ("net.py:Net", "--input", "x:batchx4")
    _, report = converted(tmp_path, *asked)
    assert "DECIDED BY VALUES: alike for all inputs" in alerts(report)
    said = convert(tmp_path, *asked, "--strict", "--overwrite", code=4)
    assert (
        "judged: the tried inputs decided values that the file now has for every input" in said.err
    )


FINDER = """
import torch
from torch import nn

class Finder(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.score, self.box = nn.Linear(8, 6), nn.Linear(8, 24 * 4)

    def forward(self, x):
        scores = self.score(x).sigmoid().repeat(1, 4)
        best, at = torch.topk(scores, 8)
        boxes = self.box(x).reshape(-1, 24, 4).gather(1, at[:, :, None].expand(-1, -1, 4))
        return {"boxes": boxes, "labels": at, "scores": best}
"""


def test_equal_scores_that_the_runtimes_order_otherwise(tmp_path: Path) -> None:
    """PyTorch's topk gives equal scores in no order, ONNX Runtime the first of them first."""
    (tmp_path / "net.py").write_text(FINDER)
    _, report = converted(tmp_path, "net.py:Finder", "--input", "x:batchx8")
    gates = {gate["name"]: gate for gate in report["artifacts"][0]["gates"]}
    assert gates["agreement"]["status"] == gates["cosine"]["status"] == "passed"
    assert "of 64 rows stand elsewhere among equal scores" in gates["agreement"]["why"]
    command("check", "out", "--against", "net.py:Finder", cwd=tmp_path, code=0)


# -- models that one file holds ---------------------------------------------------------


class Sum(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Linear(3, 4)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.line(x).relu() + y
        return result


def program(folder: Path) -> Path:
    batch = torch.export.Dim("batch")
    arguments = (torch.ones(2, 3), torch.ones(2, 4))
    made = torch.export.export(Sum(), arguments, dynamic_shapes=({0: batch}, {0: batch}))
    torch.export.save(made, folder / "net.pt2")
    return folder / "net.pt2"


def test_an_exported_program_needs_no_input(tmp_path: Path) -> None:
    renamed = program(tmp_path).rename(tmp_path / "Small-Net.bin")
    session, report = converted(tmp_path, renamed.name, "--trust-source")
    assert [spec.shape for spec in session.inputs] == [("batch", 3), ("batch", 4)]
    assert report["source"]["format"] == "pytorch"
    feeds: dict[str, Any] = {"x": np.ones((5, 3), np.float32), "y": np.ones((5, 4), np.float32)}
    (out,) = session.run(feeds).values()
    assert out.shape == (5, 4)


def test_what_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    path = program(tmp_path)
    (tmp_path / "net.py").write_text(PLAIN)
    torch.save(nn.Linear(3, 4).state_dict(), tmp_path / "net.pth")
    refused(3, "can run code", tmp_path, path.name)
    refused(2, "--weights", tmp_path, path.name, "--trust-source", "--weights", "net.pth")
    refused(2, "--arg", tmp_path, path.name, "--trust-source", "--arg", "3")
    refused(2, "holds weights, not a model", tmp_path, "net.pth", "--trust-source")
    path.write_bytes(path.read_bytes()[:-100])
    refused(3, "cut short", tmp_path, path.name, "--trust-source")
