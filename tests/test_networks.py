"""Whole networks, exported by PyTorch as it does today: LiteRT, and Core ML's packages as they are
read back, against ONNX Runtime."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnx_ir
import pytest

from converter import plugins
from converter.ir.model import Model
from converter.passes.order import IMPORT_PASSES, SIMPLIFY_PASSES
from tests.coreml_emitter import running as coreml
from tests.sweep import asked
from tests.tflite_emitter import running as tflite

pytestmark = pytest.mark.slow

NAMES = [
    "t5", "deberta", "llama", "gpt2", "siglip", "dinov2", "detr", "efficientnet", "swin", "vitpose",
    "segmenter", "stylizer", "vocoder", "keypoints", "recognizer", "pooled", "boxes",
]  # fmt: skip
"""All of tests/networks.py, which needs PyTorch: coremltools is not to see it in this process."""

IN_CHILDREN = {"onnxsim", "onnxslim", "ort-basic"}
"""Passes that take seconds, and simplify further: what is left must convert without them, too."""


@pytest.fixture(scope="module")
def files(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with those that are asked for, and with feeds."""
    folder, names = tmp_path_factory.mktemp("networks"), asked(request, "name")
    some = names if len(names) < len(NAMES) else []  # without names all that there are are written
    command = [sys.executable, "-m", "tests.networks", str(folder), *some]
    subprocess.run(command, cwd=Path(__file__).parents[1], check=True, timeout=400)
    assert {path.stem for path in folder.glob("*.onnx")} == set(names)
    return folder


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("target", ["tflite", "coreml"])
def test_a_network_gives_what_it_gave(files: Path, target: str, name: str, tmp_path: Path) -> None:
    feeds = [dict(np.load(files / f"{name}.{number}.npz")) for number in (0, 1)]
    if target == "coreml":
        coreml.agree(onnx.load(files / f"{name}.onnx"), feeds, tmp_path, rtol=1e-3, atol=1e-4)
        return
    model = Model.wrap(onnx_ir.load(files / f"{name}.onnx"))
    for step in ("normalize", *IMPORT_PASSES, *SIMPLIFY_PASSES):
        if step not in IN_CHILDREN:
            model.graph = plugins.load("passes", step)(model.graph).model
    for fed in feeds:
        tflite.agree(model, fed, tmp_path, rtol=2e-4, atol=2e-5)
