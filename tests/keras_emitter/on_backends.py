"""``python on_backends.py FOLDER...``: runs models as Keras computes by KERAS_BACKEND.

Each folder has model.py, model.keras, and arrays in and out in feeds.npz and right.npz; the last
model is trained for an epoch. Says what came out as JSON.
"""

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np


def loaded(folder: Path) -> Any:
    """The model with its weights, as its user loads it."""
    spec = importlib.util.spec_from_file_location("model", folder / "model.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.load(str(folder / "model.keras"))


def furthest(model: Any, folder: Path) -> float:
    """How far the outputs are from what is right, the largest distance."""
    feeds, right = (dict(np.load(folder / name)) for name in ("feeds.npz", "right.npz"))
    found = model(feeds if isinstance(model.input, dict) else next(iter(feeds.values())))
    found = found if isinstance(found, dict) else {next(iter(right)): found}
    assert list(found) == list(right), (list(found), list(right))
    arrays = {name: keras.ops.convert_to_numpy(item) for name, item in found.items()}
    return max(float(np.abs(arrays[name] - item).max()) for name, item in right.items())


def trained(model: Any, folder: Path) -> dict[str, Any]:
    """What an epoch changes: all that trains, and what BatchNormalization has counted."""
    (image,) = dict(np.load(folder / "feeds.npz")).values()
    labels = np.arange(len(image)) % model.output.shape[-1]
    before = {v.path: keras.ops.convert_to_numpy(v) for v in model.weights}
    keras.utils.set_random_seed(0)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.1), loss)
    losses = model.fit(image, labels, epochs=6, verbose=0).history["loss"]
    same = [v.path for v in model.weights if np.array_equal(before[v.path], v)]
    return {"losses": losses, "unchanged": [path for path in same if "seed" not in path]}


if __name__ == "__main__":
    folders = [Path(argument) for argument in sys.argv[1:]]
    models = [loaded(folder) for folder in folders]
    distances = [furthest(model, folder) for model, folder in zip(models, folders, strict=True)]
    told = {"backend": keras.backend.backend(), "distances": distances}
    print(json.dumps({**told, **trained(models[-1], folders[-1])}))
