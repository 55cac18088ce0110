"""What changed since the last run is seen, and what didn't isn't made twice."""

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from converter.options.request import Request
from converter.pipeline.work import find_parser
from converter.runtime.ort import OrtSession
from tests.acceptance.cli import Said, command, small_cnn

FACTORY = """
import json
from pathlib import Path
import torch

HERE = Path(__file__).parent

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.line = torch.nn.Linear(3, 2)
        self.gain = json.loads((HERE / "cfg.json").read_text())["gain"]

    def forward(self, x):
        return self.line(x) * self.gain

def build():
    net = Net()
    state = json.loads((HERE / "weights.json").read_text())
    net.load_state_dict({name: torch.tensor(value) for name, value in state.items()})
    return net
"""


def train(folder: Path, weight: float, gain: float) -> None:
    """Writes what the factory reads by itself."""
    state = {"line.weight": [[weight] * 3] * 2, "line.bias": [0.0, 0.0]}
    (folder / "weights.json").write_text(json.dumps(state))
    (folder / "cfg.json").write_text(json.dumps({"gain": gain}))


def convert(folder: Path, *args: str | Path, env: dict[str, str] | None = None) -> Said:
    cache = {"MODELYARD_CACHE": str(folder / "cache")}
    return command(
        "convert", *args, "--no-bench", "--out", "out", "--overwrite", cwd=folder, env=env or cache,
        code=0,
    )  # fmt: skip


def report_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "out/report.json").read_text())
    return found


def cached(folder: Path) -> set[str]:
    return {item["step"] for item in report_of(folder)["timings"] if item["cached"]}


@pytest.mark.slow
def test_what_a_factory_reads_by_itself_is_read_in_every_run(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(FACTORY)

    def value(weight: float, gain: float, *args: str) -> tuple[float, Said]:
        train(tmp_path, weight, gain)
        said = convert(tmp_path, "net.py:build", "--input", "x:batchx3", *args)
        session = OrtSession(tmp_path / "out/onnx/fp32/model.onnx")
        (out,) = session.run({"x": np.ones((1, 3), np.float32)}).values()
        return float(out[0, 0]), said

    assert value(1, 1)[0] == 3
    assert value(2, 1)[0] == 6
    assert not cached(tmp_path)
    found, said = value(3, 4, "--reuse-source")
    assert found == 6  # as asked for
    assert cached(tmp_path) == {"parse", "simplify", "reference"}
    assert "! THE SOURCE WAS NOT READ AGAIN (--reuse-source)" in said.out
    assert any("NOT READ AGAIN" in item["text"] for item in report_of(tmp_path)["alerts"])
    assert value(2, 4)[0] == 24
    found, said = value(2, 1)
    assert found == 6
    assert cached(tmp_path) == {"simplify"}  # the exported model is one that was there
    assert "from the cache: simplify\n" in said.out
    kept = list((tmp_path / "cache").rglob("outputs.json"))
    assert len(kept) == 1  # those of earlier readings are gone


@pytest.mark.slow
def test_a_source_that_is_data_is_known_by_its_contents(model: Path, tmp_path: Path) -> None:
    convert(tmp_path, model.name)
    assert not cached(tmp_path)
    said = convert(tmp_path, model.name)
    assert cached(tmp_path) == {"simplify", "reference"}
    assert "from the cache: reference, simplify\n" in said.out
    assert not report_of(tmp_path)["alerts"]
    small_cnn(model, channels=4)
    convert(tmp_path, model.name, "--reuse-source")
    assert not cached(tmp_path)


def test_which_sources_run_code(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(FACTORY)
    with zipfile.ZipFile(tmp_path / "model.keras", "w") as archive:
        archive.writestr("config.json", "{}")
    small_cnn(tmp_path / "model.onnx")

    def runs_code(name: str, *, trust: bool) -> bool:
        request = Request(str(tmp_path / name), trust_source=trust)
        return find_parser(request)[1].runs_code

    assert runs_code("net.py:build", trust=False)
    assert not runs_code("model.onnx", trust=True)
    assert not runs_code("model.keras", trust=False)
    assert runs_code("model.keras", trust=True)


def test_a_cache_that_cannot_be_written_to_is_a_warning(model: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    said = convert(tmp_path, model.name, env={"MODELYARD_CACHE": str(tmp_path / "file")})
    assert said.out.count("THE CACHE CAN'T BE WRITTEN: Not a directory") == 1
    alerts = [item["text"] for item in report_of(tmp_path)["alerts"]]
    assert sum("CACHE" in text for text in alerts) == 1
