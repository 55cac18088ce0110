"""Calls from Python as a user's script makes them, each script a process of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from converter.cli.keywords import keywords_module
from tests.acceptance.cli import on_a_terminal, small_cnn

ROOT = Path(__file__).resolve().parents[1]

NET = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4)
        self.fc = torch.nn.Linear(4, 5)

    def forward(self, image):
        return self.fc(torch.relu(self.norm(self.conv(image))).mean((2, 3)))
"""


def script(text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs a script of ``text`` in ``folder``."""
    (folder / "script.py").write_text(text)
    how: dict[str, Any] = {"capture_output": True, "text": True, "timeout": 300}
    env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    return subprocess.run([sys.executable, "script.py"], cwd=folder, env=env, **how)


def told(text: str, folder: Path) -> Any:
    """The JSON that a script prints as its last line; it has to end well."""
    done = script(text, folder)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_the_typed_keywords_are_those_of_the_request() -> None:
    assert (ROOT / "converter" / "options" / "keywords.py").read_text() == keywords_module()


@pytest.mark.slow
def test_type_checkers_see_keywords_and_results(tmp_path: Path) -> None:
    (tmp_path / "typed.py").write_text(
        "from pathlib import Path\n"
        "import modelyard\n"
        'made = modelyard.convert(Path("a.onnx"), to="tflite", precision=["int8"])\n'
        'reveal_type(made.artifacts["tflite:int8"].path)\n'
        'modelyard.convert("a.onnx", to=3)\n'
        'modelyard.inspect("a.onnx", dimms={"n": 1})\n'
    )
    line = [sys.executable, "-m", "mypy", "--follow-imports=silent", "typed.py"]
    env = {**os.environ, "MYPYPATH": str(ROOT)}
    said = subprocess.run(line, cwd=tmp_path, env=env, capture_output=True, text=True).stdout
    assert 'Revealed type is "pathlib.Path"' in said
    assert 'Argument "to" to "convert" has incompatible type "int"' in said
    assert 'Unexpected keyword argument "dimms"' in said
    assert "Found 2 errors" in said


@pytest.mark.slow
def test_paths_a_proto_and_single_values(tmp_path: Path) -> None:
    small_cnn(tmp_path / "model.onnx")
    text = """
import json, onnx, modelyard
from pathlib import Path
kept = dict(to="onnx,tflite", bench=False, batch=2)
one = modelyard.convert(Path("model.onnx"), out=Path("one"), **kept)
proto = onnx.load("model.onnx")
before = proto.SerializeToString()
two = modelyard.convert(proto, out="two", **kept)
file = two.artifacts["tflite:fp32"].path
print(json.dumps({
    "same": file.read_bytes() == one.artifacts["tflite:fp32"].path.read_bytes(),
    "untouched": proto.SerializeToString() == before,
    "gates": [gate.status for gate in modelyard.check(file, proto, batch=2).gates],
    "against": [gate.status for gate in modelyard.check(file, against=proto, batch=2).gates],
    "part": modelyard.diff(proto, "model.onnx").difference.first,
    "repr": repr(two), "html": two._repr_html_(), "manifest": Path("two/manifest.json").read_text(),
}))
"""
    found = told(text, tmp_path)
    assert found["same"] and found["untouched"] and found["part"] is None
    assert set(found["gates"]) == {"passed"}
    assert found["repr"] == "<Converted cnn: passed, onnx:fp32, tflite:fp32, in two>"
    assert "<td>tflite fp32</td><td>passed</td>" in found["html"]
    assert '"source": "ModelProto"' in found["manifest"]


@pytest.mark.slow
def test_a_live_torch_module_is_read_anew_and_put_back(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(NET)
    text = """
import gc, json, random, sys
import numpy as np, torch, modelyard, onnxruntime
from net import Net

torch.manual_seed(1)
net = Net().train()
net.conv.eval()
net.fc.weight.requires_grad_(False)
image = np.random.default_rng(0).random((6, 3, 8, 8), dtype=np.float32)
def state():
    return [
        [part.training for part in net.modules()], [p.requires_grad for p in net.parameters()],
        torch.random.get_rng_state().tolist(), str(np.random.get_state()), random.getstate()[1],
        torch.is_grad_enabled(), gc.isenabled(), gc.get_freeze_count(), sys.path,
        torch.get_num_threads(), [v.tolist() for v in net.state_dict().values()],
    ]
def outputs(out):
    made = modelyard.convert(net, samples={"image": image}, bench_seconds=0.1, out=out)
    session = onnxruntime.InferenceSession(made.artifacts["onnx:fp32"].path)
    net_was = [part.training for part in net.modules()]
    got = session.run(None, {"image": image})[0]
    with torch.no_grad():
        wanted = net.eval()(torch.from_numpy(image)).numpy()
    for part, was in zip(net.modules(), net_was): part.training = was
    return np.abs(got - wanted).max(), made
before = state()
first, made = outputs("one")
same = state() == before
with torch.no_grad():
    net.fc.weight.mul_(3)
second, _ = outputs("two")
print(json.dumps({
    "first": float(first), "second": float(second), "same": same, "name": made.name,
    "on": made.report.checked_on,
}))
"""
    found = told(text, tmp_path)
    assert found["same"]
    assert found["first"] < 1e-5 and found["second"] < 1e-5
    assert found["name"] == "net"
    assert found["on"].startswith("Checked on 6 samples (arrays.npz, unlabelled) against")


@pytest.mark.slow
def test_a_live_keras_model_with_a_layer_of_the_users(tmp_path: Path) -> None:
    text = """
import json, os
os.environ["KERAS_BACKEND"] = "tensorflow"
import keras, modelyard, numpy as np

class Twice(keras.layers.Layer):
    def call(self, x):
        return 2.0 * x

image = keras.Input((8, 8, 3), name="image")
hidden = Twice()(keras.layers.Conv2D(4, 3)(image))
scores = keras.layers.Dense(3, name="scores")(keras.layers.Flatten()(hidden))
tiny = keras.Model(image, scores, name="tiny")

class Own(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(2)
    def call(self, x):
        return self.dense(x)

image = np.random.default_rng(0).random((5, 8, 8, 3), dtype=np.float32)
made = modelyard.convert(tiny, samples=image, to="tflite", bench=False, out="tiny")
own = modelyard.convert(Own(), inputs="x:batchx4", bench=False, out="own")
try:
    modelyard.convert(Own(), bench=False)
except modelyard.UsageError as error:
    refused = str(error)
print(json.dumps([repr(made), repr(own), refused, os.environ.get("CUDA_VISIBLE_DEVICES")]))
"""
    found = told(text, tmp_path)
    made, own, refused, devices = found
    assert made == "<Converted tiny: passed, tflite:fp32, in tiny>"
    assert own.startswith("<Converted own: passed, onnx:fp32")
    assert "Own doesn't declare its inputs: give inputs=" in refused
    assert devices is None


REFUSED = {
    "convert(3)": "Modelyard can't read a builtins.int as a model",
    "convert(net.Net)": "net.Net is a class, not an instance of it",
    "convert(net.Net(), weights='w.pth')": "weights= is for a class",
    "convert(net.Net(), python='python3')": "python= is only for files",
    "convert(net.Net(), bench=False)": "Net needs inputs=, because PyTorch code doesn't declare",
    "convert('model.onnx', too='tflite')": "too: no such key; did you mean to?",
    "convert('model.onnx', samples={'image': [object()]})": "samples['image']: a list can't",
    "check({}, 'model.onnx')": "a dict isn't a file: give the path of an artifact",
}


@pytest.mark.slow
def test_what_cant_be_taken_says_what_can(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(NET)
    small_cnn(tmp_path / "model.onnx")
    text = f"""
import json, modelyard, net
said = {{}}
for call in {list(REFUSED)!r}:
    try:
        eval(f"modelyard.{{call}}")
    except modelyard.UsageError as error:
        said[call] = str(error)
print(json.dumps(said))
"""
    found = told(text, tmp_path)
    for call, said in REFUSED.items():
        assert said in found[call]


@pytest.mark.slow
def test_a_script_that_calls_while_it_is_read_is_told(tmp_path: Path) -> None:
    text = NET + '\nimport modelyard\nmodelyard.convert("script.py:Net", inputs="image:1x3x8x8")\n'
    done = script(text, tmp_path)
    assert done.returncode != 0
    assert "the file of the model's code called modelyard" in done.stderr


_SHOWN = """
import modelyard
modelyard.convert("model.onnx", bench=False, out="{}"{})
"""


@pytest.mark.slow
def test_progress_is_shown_on_terminals_and_where_asked_for(tmp_path: Path) -> None:
    small_cnn(tmp_path / "model.onnx")
    assert script(_SHOWN.format("a", ""), tmp_path).stderr == ""
    assert "simplifying" in script(_SHOWN.format("b", ", progress=True"), tmp_path).stderr
    notebook = "import sys, types\nsys.modules['ipykernel'] = types.ModuleType('ipykernel')\n"
    assert "simplifying" in script(notebook + _SHOWN.format("c", ""), tmp_path).stderr

    (tmp_path / "e.py").write_text(_SHOWN.format("e", ", progress=False"))
    (tmp_path / "d.py").write_text(_SHOWN.format("d", ""))
    assert "simplifying" in on_a_terminal([sys.executable, "d.py"], tmp_path, TERM="xterm")
    assert "simplifying" not in on_a_terminal([sys.executable, "e.py"], tmp_path, TERM="xterm")
