"""Packages for OpenVINO Model Server, run as its configuration says by the server's engine.

The server itself is no package of Python's, and isn't run.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.acceptance.cli import command, written

pytest.importorskip("openvino", reason="openvino isn't installed")

from emitters.openvino.engine import SETTINGS, core

NET = """net (float[batch, 4] x, float[batch, 4] z) => (float[batch, 3] y, float[batch, 4] s) {
    s = Add(x, z) y = MatMul(s, w) }"""


def test_its_engine_runs_what_the_configuration_names(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    path = written(tmp_path / "m.onnx", NET, w=rng.standard_normal((4, 3)).astype(np.float32))
    line = ["convert", path, "--to", "openvino", "--serve", "ovms", "--no-bench", "--version", "3"]
    command(*line, "--instances", "2", "--name", "sums", "--out", tmp_path / "out", code=0)
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert "was not run" in json.dumps(report)
    folder = tmp_path / "out" / "serving" / "ovms" / "sums"
    ((config,),) = [
        [item["config"] for item in json.loads((folder / "config.json").read_text())[key]]
        for key in ["model_config_list"]
    ]
    assert config["name"] == "sums"
    assert config["model_version_policy"] == {"specific": {"versions": [3]}}
    model = folder / config["base_path"] / "3" / "model.xml"
    settings = config["plugin_config"]
    assert SETTINGS.items() <= settings.items()
    compiled = core().compile_model(model, config["target_device"], settings)
    assert compiled.get_property("NUM_STREAMS") == 2
    facts = json.loads((folder / "modelyard.json").read_text())
    assert facts["wire"]["path"] == "/v2/models/sums/infer"
    for sample in facts["samples"]:
        feeds = {name: np.load(folder / item["file"]) for name, item in sample["feeds"].items()}
        found = compiled(feeds)
        for name, item in sample["expected"].items():
            wanted = np.load(folder / item["file"])
            np.testing.assert_allclose(found[name], wanted, rtol=1e-5, atol=1e-5)
    said = command("convert", path, "--serve", "ovms", "--out", tmp_path / "no", code=2)
    assert "openvino" in said.err
