"""What a PyTorch model says of pictures: torchvision's transforms and weights, timm's settings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import modelyard
from tests.acceptance.cli import typed

NET = """
import torch
from torchvision import transforms as t

class Net(torch.nn.Module):
    def __init__(self, more=False):
        super().__init__()
        steps = [t.Resize((20, 24), "bicubic"), t.CenterCrop(16), t.ToTensor()]
        steps += [t.Normalize([0.5, 0.4, 0.3], [0.2])]
        self.transforms = t.Compose([t.RandomHorizontalFlip(), *steps] if more else steps)
    def forward(self, image):
        return image.mean((2, 3))
"""
STAND_INS = """
class Compose:
    def __init__(self, transforms): self.transforms = transforms
class Resize:
    def __init__(self, size, interpolation):
        self.size, self.interpolation, self.max_size = size, interpolation, None
class CenterCrop:
    def __init__(self, size): self.size = size, size
class ToTensor: pass
class RandomHorizontalFlip: pass
class Normalize:
    def __init__(self, mean, std): self.mean, self.std = mean, std
"""
"""Classes of torchvision's names and attributes, for where it isn't installed."""


def declared(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "manifest.json").read_text())["declared"]
    return found


def photo(path: Path) -> Path:
    ramp = np.linspace(0, 255, 300 * 240 * 3).reshape(240, 300, 3)
    noise = np.random.default_rng(0).integers(-20, 20, ramp.shape)
    Image.fromarray(np.clip(ramp + noise, 0, 255).astype(np.uint8)).save(path)
    return path


def test_a_compose_is_walked(tmp_path: Path) -> None:
    place = tmp_path / "torchvision/transforms"
    place.mkdir(parents=True)
    (place / "__init__.py").write_text(STAND_INS)
    (place.parent / "__init__.py").touch()
    (tmp_path / "net.py").write_text(NET)
    line = "convert net.py:Net --input image:batchx3x16x16 --no-bench"
    said = typed(f"{line} --image-mean 0.1 --out out", tmp_path)
    assert "its transforms says" in " ".join((said.out + said.err).split())
    (picture,) = declared(tmp_path / "out")["prepare"]
    assert picture["resize"] == [20, 24] and (picture["height"], picture["width"]) == (16, 16)
    assert picture["interpolation"] == "bicubic" and picture["scale"] == 1 / 255
    assert picture["mean"] == [0.1] * 3 and picture["std"] == [0.2] * 3  # an option says more
    assert "prepare (picture): from its transforms" in declared(tmp_path / "out")["notes"]
    typed(f"{line} --arg more=true --image-size 16x16 --out other", tmp_path)
    note = "its transforms: no option says RandomHorizontalFlip"
    assert note in declared(tmp_path / "other")["notes"]


def test_weights_say_what_classes_there_are(tmp_path: Path) -> None:
    """torchvision's own: a photo's class is the one that its weights' transforms lead to."""
    models = pytest.importorskip("torchvision.models")
    import torch

    torch.manual_seed(0)
    net, weights = models.resnet18().eval(), models.ResNet18_Weights.IMAGENET1K_V1
    torch.save(net.state_dict(), tmp_path / "resnet18-f37072fd.pth")
    typed("convert torchvision.models:resnet18 --weights resnet18-f37072fd.pth --no-bench "
          "--input x:batchx3x224x224 --out out", tmp_path)  # fmt: skip
    file = photo(tmp_path / "a.png")
    with torch.no_grad():
        right = net(weights.transforms()(Image.open(file))[None]).softmax(-1)[0]
    with modelyard.load(tmp_path / "out") as loaded:
        best = loaded(file).classes[0]
    assert best.label == weights.meta["categories"][int(right.argmax())]
    assert best.score == pytest.approx(float(right.max()), abs=1e-5)
    (note, _) = declared(tmp_path / "out")["notes"]
    assert note == "prepare (picture): from ResNet18_Weights.IMAGENET1K_V1"


def test_timm_says_how_its_own_are_prepared(tmp_path: Path) -> None:
    timm = pytest.importorskip("timm")
    import torch

    net = timm.create_model("resnet18").eval()
    modelyard.convert(net, inputs=["x:batchx3x224x224"], bench=False, out=tmp_path / "out")
    config = timm.data.resolve_data_config({}, model=net)
    file = photo(tmp_path / "a.png")
    with torch.no_grad():
        right = net(timm.data.create_transform(**config)(Image.open(file))[None]).numpy()
    with modelyard.load(tmp_path / "out") as loaded:
        answer = loaded(file)
    np.testing.assert_allclose(next(iter(answer.values())), right, atol=1e-5)
    assert answer.classes[0].index == right.argmax()
