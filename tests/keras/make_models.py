"""Writes the Keras files that the tests read; run as a script, in a process that has Keras.

``python -m tests.keras.make_models FOLDER MARKER``: FOLDER gets the files; MARKER is the file that
code in them would write.
"""

import json
import sys
import zipfile
from pathlib import Path
from typing import Any

import h5py
import keras
import numpy as np
from keras import layers


@keras.saving.register_keras_serializable(package="tests")
class Scale(layers.Layer):
    """A layer whose code is here and nowhere else."""

    def call(self, x: Any) -> Any:
        return x * 2.0


@keras.saving.register_keras_serializable(package="tests")
class Shift(layers.Layer):
    """Another."""

    def call(self, x: Any) -> Any:
        return x + 1.0


def _save(model: Any, folder: Path, name: str) -> None:
    model.save(folder / f"{name}.keras")
    model.save(folder / f"{name}.h5")


def _keep(model: Any, folder: Path, name: str, sample: Any) -> None:
    """An input and Keras' output for it."""
    np.savez(folder / f"{name}-in.npz", image=sample.astype(np.float32))
    np.savez(folder / f"{name}-out.npz", scores=model(sample.astype(np.float32)).numpy())


def _mixed(folder: Path) -> None:
    """Preprocessing, a convolution, an LSTM, attention and GELU, in every form."""
    image = keras.Input((20, 24, 3), name="image")
    x = layers.Resizing(16, 16)(image)
    x = layers.Rescaling(1 / 127.5, -1.0)(x)
    x = layers.Normalization(mean=[0.1, 0.0, -0.1], variance=[1.0, 0.5, 2.0])(x)
    x = layers.Conv2D(8, 3, strides=2, padding="same", activation="gelu")(x)
    x = layers.LSTM(12, return_sequences=True)(layers.Reshape((64, 8))(x))
    x = layers.LayerNormalization()(layers.MultiHeadAttention(2, 6)(x, x))
    x = layers.Dense(10, activation="gelu")(layers.GlobalAveragePooling1D()(x))
    model = keras.Model(image, layers.Dense(4, activation="softmax", name="scores")(x))
    _save(model, folder, "mixed")
    model.export(folder / "mixed", verbose=False)
    _keep(model, folder, "mixed", np.random.default_rng(0).uniform(0, 255, (3, 20, 24, 3)))


def _dense(*between: Any) -> Any:
    model = keras.Sequential([keras.Input((4,), name="x"), layers.Dense(3, name="dense"), *between])
    model.build()
    return model


def _refused(folder: Path, marker: str) -> None:
    """Weights alone, custom layers, code, strings and state."""
    _dense().save_weights(folder / "only.weights.h5")
    _save(_dense(Scale(name="twice"), Shift(name="more")), folder, "custom")
    code = f"lambda x: (open({marker!r}, 'a').close(), x)[1]"
    _save(_dense(layers.Lambda(eval(code), name="trap")), folder, "lambda")
    word = keras.Input((1,), dtype="string", name="word")
    number = keras.Input((1,), dtype="int64", name="number")
    found = layers.StringLookup(vocabulary=["a", "b"], name="words")(word)
    hashed = layers.Hashing(7, name="hashed")(number)
    text = layers.TextVectorization(vocabulary=["c", "d"], name="text")(word)
    keras.Model([word, number], [found, hashed, text]).save(folder / "strings.keras")
    sound = keras.Input(batch_shape=(1, 5, 4), name="sound")
    memory = layers.LSTM(3, stateful=True, name="memory")(sound)
    keras.Model(sound, memory).save(folder / "stateful.keras")


def _structured(folder: Path) -> None:
    """A dict in, a dict out; one output is an input, two are one tensor."""
    left, right = keras.Input((4,), name="l"), keras.Input((4,), name="r")
    total = layers.Add(name="total")([left, right])
    outputs = {"sum": total, "again": total, "same": left}
    keras.Model({"left": left, "right": right}, outputs).save(folder / "structured.keras")


def _aged(folder: Path) -> None:
    """A model whose configuration is turned into what Keras 2.15 writes for it."""
    image = keras.Input((8, 8, 3), name="image")
    x = layers.DepthwiseConv2D(3)(image)
    x = layers.ReLU(6.0)(layers.BatchNormalization()(x))
    x = layers.GlobalAveragePooling2D()(layers.SeparableConv2D(4, 3)(x))
    model = keras.Model(image, layers.Dense(3, name="scores")(x))
    model.save(folder / "new.keras")
    _keep(model, folder, "aged", np.random.default_rng(0).normal(size=(3, 8, 8, 3)))
    model.save(folder / "aged.h5")
    with h5py.File(folder / "aged.h5", "r+") as file:
        file.attrs["model_config"] = json.dumps(_as_keras_2(json.loads(file.attrs["model_config"])))
    with zipfile.ZipFile(folder / "new.keras") as new:
        contents = {name: new.read(name) for name in new.namelist()}
    contents["config.json"] = json.dumps(_as_keras_2(json.loads(contents["config.json"]))).encode()
    with zipfile.ZipFile(folder / "aged.keras", "w") as aged:
        for name, data in contents.items():
            aged.writestr(name, data)


def _as_keras_2(model: dict[str, Any]) -> dict[str, Any]:
    if "module" in model:
        model["module"] = "keras.src.engine.functional"
    for layer in model["config"]["layers"]:
        name, config = layer["class_name"], layer["config"]
        if name == "InputLayer":
            config["batch_input_shape"] = config.pop("batch_shape")
        if name in ("DepthwiseConv2D", "SeparableConv2D"):
            config["groups"] = 1
        if name == "SeparableConv2D":
            config["kernel_initializer"] = config["depthwise_initializer"]
        if name == "BatchNormalization":
            config["axis"] = [3]
    return model


if __name__ == "__main__":
    keras.utils.set_random_seed(0)
    _mixed(Path(sys.argv[1]))
    _refused(Path(sys.argv[1]), sys.argv[2])
    _structured(Path(sys.argv[1]))
    _aged(Path(sys.argv[1]))
