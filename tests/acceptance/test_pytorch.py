"""PyTorch models as engineers have them, through the command line to a checked ONNX file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from converter.ort import OrtSession
from tests.acceptance.cli import Said, modelyard

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


def convert(folder: Path, *args: str | Path) -> Said:
    return modelyard("convert", *args, "--no-bench", "--out", "out", "--json", cwd=folder)


def converted(folder: Path, *args: str | Path) -> tuple[OrtSession, dict[str, Any]]:
    """The ONNX file that a conversion made, and its report."""
    said = convert(folder, *args)
    assert said.code == 0, said.err
    report = said.json["report"]
    assert report["verdict"] == "passed"
    return OrtSession(folder / "out/onnx/fp32/model.onnx"), report


def alerts(report: dict[str, Any]) -> str:
    return " ".join(alert["text"] for alert in report["alerts"])


def test_several_keyword_only_and_optional_inputs(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(
        """
import torch

class Net(torch.nn.Module):
    def forward(self, a, b, *, scale, bias=None):
        return {"sum": (a + b) * scale, "pair": torch.cat([a, b], 1)}
"""
    )
    inputs = ["a:batchx3", "b:batchx3", "scale:batchx1"]
    session, _ = converted(
        tmp_path, "net.py:Net", *[i for text in inputs for i in ("--input", text)]
    )
    assert [spec.name for spec in session.inputs] == ["a", "b", "scale"]
    assert [spec.name for spec in session.outputs] == ["sum", "pair"]
    a, b = np.ones((5, 3), np.float32), np.full((5, 3), 2, np.float32)
    out = session.run({"a": a, "b": b, "scale": np.full((5, 1), 3, np.float32)})
    np.testing.assert_allclose(out["sum"], 9)
    assert out["pair"].shape == (5, 6)


def test_a_dict_input_and_a_tuple_output(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(
        """
import torch

class Net(torch.nn.Module):
    def forward(self, batch: dict):
        return batch["ids"] * 2, batch["mask"].float().sum(1)
"""
    )
    session, _ = converted(
        tmp_path, "net.py:Net", "--input", "batch.ids:int64:batchxtokens",
        "--input", "batch.mask:bool:batchxtokens", "--dim", "tokens=7", "--output", "twice",
        "--output", "length",
    )  # fmt: skip
    assert [spec.name for spec in session.inputs] == ["batch.ids", "batch.mask"]
    assert [spec.name for spec in session.outputs] == ["twice", "length"]
    assert session.inputs[0].shape == ("batch", "tokens")
    ids = np.arange(6).reshape(2, 3)
    out = session.run({"batch.ids": ids, "batch.mask": ids > 2})
    np.testing.assert_array_equal(out["twice"], ids * 2)
    np.testing.assert_array_equal(out["length"], [0, 3])


@pytest.mark.parametrize("kind", ["plain", "wrapped", "prefixed", "safetensors"])
def test_weights_of_every_kind(tmp_path: Path, kind: str) -> None:
    (tmp_path / "net.py").write_text(PLAIN)
    state = {"line.weight": torch.arange(15.0).reshape(5, 3), "line.bias": torch.ones(5)}
    path = tmp_path / ("net.safetensors" if kind == "safetensors" else "net.pth")
    if kind == "safetensors":
        from safetensors.torch import save_file

        save_file(state, path)
    elif kind == "wrapped":
        torch.save({"epoch": 3, "state_dict": state, "optimizer": {"lr": 0.1}}, path)
    elif kind == "prefixed":
        torch.save({f"module.{name}": value for name, value in state.items()}, path)
    else:
        torch.save(state, path)
    session, report = converted(
        tmp_path, "net.py:Net", "--weights", path.name, "--arg", "width=5", "--input", "x:Nx3"
    )
    out = session.run({"x": np.ones((2, 3), np.float32)})
    np.testing.assert_allclose(next(iter(out.values()))[0], [4, 13, 22, 31, 40])
    assert "NO WEIGHTS" not in alerts(report)


def test_no_weights_is_said_loudly(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(PLAIN)
    session, report = converted(tmp_path, "net.py:Net", "--input", "x:batchx3")
    assert "NO WEIGHTS WERE LOADED" in alerts(report)
    assert "NO WEIGHTS WERE LOADED" in (tmp_path / "out/report.html").read_text()
    assert session.inputs[0].shape == ("batch", 3)


def test_weights_that_do_not_fit_are_all_listed(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(PLAIN)
    torch.save({"line.weight": torch.ones(7, 3), "other": torch.ones(1)}, tmp_path / "net.pth")
    said = convert(tmp_path, "net.py:Net", "--weights", "net.pth", "--input", "x:1x3")
    assert said.no_traceback().code == 2
    for name in ("line.weight", "line.bias", "other"):
        assert name in said.err


@pytest.mark.parametrize("name", ["converter", "zoo", "torch_utils", "parsers"])
def test_modules_of_the_user_s_with_names_of_ours(tmp_path: Path, name: str) -> None:
    (tmp_path / f"{name}.py").write_text("def double(x):\n    return x * 2\n")
    (tmp_path / "net.py").write_text(
        f"import torch\nfrom {name} import double\n"
        "class Net(torch.nn.Module):\n    def forward(self, x):\n        return double(x)\n"
    )
    session, _ = converted(tmp_path, "net.py:Net", "--input", "x:batchx3")
    np.testing.assert_allclose(*session.run({"x": np.ones((2, 3), np.float32)}).values(), 2)


def test_relative_imports(tmp_path: Path) -> None:
    package = tmp_path / "nets" / "big"
    package.mkdir(parents=True)
    (tmp_path / "nets" / "__init__.py").touch()
    (package / "__init__.py").touch()
    (tmp_path / "nets" / "parts.py").write_text("FACTOR = 3\n")
    (package / "net.py").write_text(
        "import torch\nfrom ..parts import FACTOR\n"
        "class Net(torch.nn.Module):\n    def forward(self, x):\n        return x * FACTOR\n"
    )
    session, _ = converted(tmp_path, "nets/big/net.py:Net", "--input", "x:batchx3")
    np.testing.assert_allclose(*session.run({"x": np.ones((2, 3), np.float32)}).values(), 3)


def test_a_factory_in_an_installed_package(tmp_path: Path) -> None:
    session, report = converted(
        tmp_path, "torch.nn:Linear", "--arg", "3", "--arg", "out_features=2", "--input", "x:batchx3"
    )
    assert session.run({"x": np.zeros((4, 3), np.float32)})
    assert report["source"]["format"] == "pytorch"


def test_a_batch_that_the_code_fixes(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(
        """
import torch

class Net(torch.nn.Module):
    def forward(self, x):
        assert x.shape[0] == 1
        return x.reshape(3).cumsum(0)
"""
    )
    said = convert(tmp_path, "net.py:Net", "--input", "x:batchx3", "--serve", "triton")
    assert said.code == 0, said.err
    report = said.json["report"]
    assert "THE BATCH IS FIXED" in alerts(report)
    assert report["packages"][0]["details"]["max_batch"] == 0
    refused = modelyard(
        "convert",
        "net.py:Net",
        "--input",
        "x:1x3",
        "--batch",
        "dynamic",
        "--out",
        "b",
        cwd=tmp_path,
    )
    assert refused.no_traceback().code == 3, refused.err


def test_a_first_dimension_that_is_no_batch_keeps_its_size(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(
        "import torch\nclass Net(torch.nn.Module):\n"
        "    def forward(self, x):\n        return x @ torch.ones(4, 4) @ x\n"
    )
    session, report = converted(tmp_path, "net.py:Net", "--input", "x:4x4")
    assert session.inputs[0].shape == (4, 4)
    assert "batch" not in alerts(report).lower()


def test_input_that_is_missing_names_what_forward_takes(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(PLAIN)
    said = convert(tmp_path, "net.py:Net")
    assert said.no_traceback().code == 2
    assert "takes (x)" in said.err


def test_the_user_s_own_error_is_shown_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(PLAIN.replace("return self.line(x)", "return self.lime(x)"))
    said = convert(tmp_path, "net.py:Net", "--input", "x:1x3")
    assert said.no_traceback().code == 3, said.err
    assert "lime" in said.err
    assert "net.py" in said.err


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


def test_the_source_file_is_part_of_the_record(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(PLAIN)
    converted(tmp_path, "net.py:Net", "--input", "x:1x3")
    manifest = json.loads((tmp_path / "out/manifest.json").read_text())
    assert [item["path"] for item in manifest["source_files"]] == ["net.py"]
    assert manifest["request"]["source"] == "net.py:Net"


def test_a_detector_and_how_it_came_here(tmp_path: Path) -> None:
    source = Path(__file__).parents[1] / "worker" / "models" / "detector.py"
    session, report = converted(tmp_path, f"{source}:Detector", "--input", "images:3x40x48")
    assert report["source"]["name"] == "detector"
    assert [spec.name for spec in session.outputs] == ["boxes", "labels", "scores"]
    loud = [alert["text"] for alert in report["alerts"] if alert["loud"]]
    (said,) = [text for text in loud if text.startswith("EXPORTED BY TORCHSCRIPT: ")]
    assert "other inputs gave what the model itself gives" in said
    assert "in ONNX Runtime" in said


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
    checked = modelyard("check", "out", "--against", "net.py:Finder", cwd=tmp_path)
    assert checked.code == 0, checked.err


def test_layers_keep_their_names_and_a_factory_s_name_is_the_model_s(tmp_path: Path) -> None:
    (tmp_path / "tv.py").write_text(
        """
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8)

    def forward(self, x):
        return self.bn1(self.conv1(x)).relu() + x

def resnet18():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.Sequential(Block(), Block()), nn.Conv2d(8, 4, 1))
"""
    )
    said = convert(
        tmp_path, "tv.py:resnet18", "--input", "x:batchx3x16x16", "--precision", "int8",
        "--keep-float", "1.*", "--calibration-samples", "random:8",
    )  # fmt: skip
    assert said.code == 0, said.err
    report = said.json["report"]
    assert report["source"]["name"] == "resnet18"
    kept = json.dumps(report["artifacts"][0])
    assert "1.0.conv1" in kept and "1.1.conv1" in kept
    costs = modelyard(
        "sensitivity", "tv.py:resnet18", "--input", "x:batchx3x16x16", "--precision", "int8",
        "--calibration-samples", "random:8", "--json", cwd=tmp_path,
    )  # fmt: skip
    assert costs.code == 0, costs.err
    assert {"0", "1.0.conv1", "1.1.conv1", "2"} <= set(names_in(costs.json))


def names_in(found: Any) -> list[str]:
    """Every text under the key ``name``, or in a list of names."""
    if isinstance(found, dict):
        return [n for value in found.values() for n in names_in(value)]
    if isinstance(found, list):
        return [n for value in found for n in names_in(value)]
    return [found] if isinstance(found, str) else []


def test_a_detector_of_two_stages_and_pictures_with_nothing_in_them(tmp_path: Path) -> None:
    model = Path(__file__).parents[1] / "worker/models/two_stage.py"
    images = np.random.default_rng(0).random((4, 3, 40, 48), np.float32)
    images[1] = 0
    np.savez(tmp_path / "images.npz", images=images)
    inputs = ("--input", "images:3x40x48", "--samples", "images.npz")
    session, report = converted(tmp_path, f"{model}:TwoStage", *inputs)
    assert "EXPORTED BY TORCHSCRIPT" in alerts(report)
    rows = [{len(array) for array in session.run({"images": each}).values()} for each in images]
    assert all(len(counts) == 1 for counts in rows)
    assert rows[1] == {0} and max(rows[0]) > 2
    session.close()
