"""What a Keras model says of pictures: layers that scale pixels, names of keras.applications."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import modelyard
from converter.pipeline.declaring import UNSAID

MAKE = """
import os, sys
os.environ["CUDA_VISIBLE_DEVICES"] = ""
import keras, numpy as np
keras.utils.set_random_seed(0)
net = keras.Sequential([keras.Input((16, 16, 3)), keras.layers.Rescaling(1 / 255),
                        keras.layers.GlobalAveragePooling2D()])
net.save(sys.argv[1] + "/rescaling.keras")
image = keras.Input((16, 16, 3))
found = keras.layers.GlobalAveragePooling2D()(image)
keras.Model(image, found, name="resnet50").save(sys.argv[1] + "/named.keras")
keras.Model(image, found, name="mine").save(sys.argv[1] + "/mine.keras")
pixels = np.full((1, 16, 16, 3), (200.0, 100.0, 50.0), "float32")
np.save(sys.argv[1] + "/caffe.npy", keras.applications.resnet50.preprocess_input(pixels))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("keras")
    subprocess.run([sys.executable, "-c", MAKE, str(made)], check=True, capture_output=True)
    Image.new("RGB", (16, 16), (200, 100, 50)).save(made / "a.png")
    return made


@pytest.mark.slow
@pytest.mark.parametrize(("name", "origin"), [
    ("rescaling", "its layer rescaling, which scales pixels"),
    ("named", "its name, resnet50: keras.applications' preprocess_input"),
    ("mine", None),
])  # fmt: skip
def test_pixels_come_to_a_model_as_it_wants_them(
    folder: Path, tmp_path: Path, name: str, origin: str | None
) -> None:
    modelyard.convert(folder / f"{name}.keras", samples=folder / "a.png", bench=False,
                      out=tmp_path / "out")  # fmt: skip
    declared = json.loads((tmp_path / "out/manifest.json").read_text())["declared"]
    assert declared["notes"] == [f"prepare (picture): from {origin}" if origin else UNSAID]
    right = np.array([200, 100, 50]) / 255
    if name == "named":
        right = np.load(folder / "caffe.npy")[0, 0, 0]
    with modelyard.load(tmp_path / "out") as net:
        (found,) = net(folder / "a.png").values()
    np.testing.assert_allclose(found[0], right, rtol=1e-4)
