"""Code that trains on: layers that training needs are there from every source, and training comes
to what the source's framework comes to."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests import sweep
from tests.acceptance.cli import command
from tests.pytorch_emitter import training
from tests.pytorch_emitter.models import loaded, reference

torch = pytest.importorskip("torch", reason="torch isn't installed")

CASES = [(kind, seed) for kind in ("keras", "tflite") for seed in range(3)]
"""Three seeds of each source; where sweeps are a share, one case, another with each commit."""

CHOSEN = CASES if sweep.SHARE == 1 else [CASES[int(sweep.seed()[:8] or "0", 16) % len(CASES)]]

MOST = 0.02
"""How far accuracies may lie apart: two points."""

NET = """
from torch import nn


class Net(nn.Sequential):
    def __init__(self):
        super().__init__(
            nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4, momentum=0.2), nn.ReLU(), nn.Dropout(0.3),
            nn.Flatten(), nn.Linear(144, 6), nn.BatchNorm1d(6),
        )
"""


def _code(source: Path | str, out: Path, *options: Any) -> Path:
    line = ("convert", source, "--to", "pytorch", "--trainable", "--no-bench", "--no-check")
    command(*line, "--out", out, *options, code=0)
    return out / "pytorch" / "fp32"


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "seed"), CHOSEN)
def test_training_on_comes_to_the_same(kind: str, seed: int, tmp_path: Path) -> None:
    """Digits: outputs and the first loss are the source's; the same batches in the same order come
    to an accuracy within two points of Keras'; the code is a source again."""
    pytest.importorskip("tensorflow", reason="tensorflow isn't installed")
    line = [sys.executable, training.__file__, kind, str(seed), str(tmp_path)]
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    theirs = json.loads(done.stdout.splitlines()[-1])
    folder = _code(tmp_path / f"net.{kind}", tmp_path / "out")
    data, net = np.load(tmp_path / "data.npz"), loaded(folder)
    arrays = {name: torch.from_numpy(data[name]) for name in data.files}
    with torch.no_grad():
        scores = net(arrays["test_x"])
    loss = torch.nn.functional.cross_entropy
    wanted = np.load(tmp_path / "scores.npy")
    np.testing.assert_allclose(scores.numpy(), wanted, rtol=1e-5, atol=1e-5)
    assert float(loss(scores, arrays["test_y"])) == pytest.approx(theirs["loss"], rel=1e-5)
    back = tmp_path / "back"
    source = (f"{folder / 'model.py'}:Model", "--weights", folder / "model.safetensors")
    line = ["convert", *source, "--input", "image:batchx8x8x1", "--no-bench", "--no-check"]
    command(*line, "--out", back, code=0)
    again = onnx.load(back / "onnx" / "fp32" / "model.onnx")
    (found,) = reference(again, {"image": data["test_x"]})
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    kinds = [type(module).__name__ for module in net.modules()]
    layers = (4, 1) if kind == "keras" else (0, 0)
    assert (kinds.count("BatchNorm2d"), kinds.count("Dropout")) == layers
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    optimizer = torch.optim.Adam(net.parameters(), training.RATE, eps=training.EPSILON)
    net.train()
    for order in arrays["order"]:
        for batch in order.split(training.BATCH):
            optimizer.zero_grad()
            loss(net(arrays["more_x"][batch]), arrays["more_y"][batch]).backward()
            optimizer.step()
    with torch.no_grad():
        right = net.eval()(arrays["test_x"]).argmax(1) == arrays["test_y"]
    ours = float(right.float().mean())
    print(f"{kind}, seed {seed}: {ours:.4f}, Keras {theirs['accuracy']:.4f}")
    assert abs(ours - theirs["accuracy"]) <= MOST


@pytest.mark.slow
def test_torchs_own_layers_stay(tmp_path: Path) -> None:
    """What its exporter folds without --trainable: BatchNorm behind Conv and Linear, Dropout."""
    (tmp_path / "net.py").write_text(NET)
    given = ("--input", "image:batchx1x8x8")
    net = loaded(_code(f"{tmp_path / 'net.py'}:Net", tmp_path / "out", *given))
    kinds = [type(module).__name__ for module in net.modules()]
    assert [kinds.count(kind) for kind in ("BatchNorm2d", "BatchNorm1d", "Dropout")] == [1, 1, 1]
    found = [m.momentum for m in net.modules() if type(m).__name__ == "BatchNorm2d"]
    assert found == [pytest.approx(0.2)]


@pytest.mark.slow
def test_mmconvert_writes_code_that_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As MMdnn's users type it, of a network with a BatchNorm behind Conv and Dense, and a
    Dropout."""
    pytest.importorskip("tensorflow", reason="tensorflow isn't installed")
    monkeypatch.chdir(tmp_path)
    made = """
import keras
from keras import layers as of

layers = [of.Input((8, 8, 1), name="image"), of.Conv2D(4, 3, use_bias=False, name="find")]
layers += [of.BatchNormalization(name="norm", momentum=0.8), of.ReLU(), of.Dropout(0.3)]
layers += [of.Flatten(), of.Dense(6), of.BatchNormalization(scale=False)]
keras.Sequential(layers).save("net.h5")
"""
    subprocess.run([sys.executable, "-c", made], check=True, capture_output=True)
    line = ["-sf", "keras", "-iw", "net.h5", "-df", "pytorch", "-om", "net"]
    tool = "from converter.cli.mmconvert import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", tool, *line], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and "model:  net.py, model.safetensors" in done.stdout, done.stderr
    use = "import net, torch; model = net.load('model.safetensors'); print(model);"
    use += "model.train(); model(torch.rand(5, 8, 8, 1)).square().sum().backward()"
    said = subprocess.run([sys.executable, "-c", use], check=True, capture_output=True, text=True)
    assert said.stdout.count("BatchNorm") == 2 and "Dropout(p=0.3" in said.stdout
    assert "(find): Conv2d" in said.stdout and "momentum=0.2" in said.stdout
