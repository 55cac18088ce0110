"""Keras' half of the proof that converted code trains on: run as a program, without torch.

``python training.py keras|tflite SEED FOLDER`` trains a net like MobileNet on part of the digits
that scikit-learn has, saves it (``net.keras``, with BatchNorm and Dropout; ``net.tflite``, of a net
without, for TFLite folds them), trains on by batches in an order that it writes down, and says what
came of it.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import numpy as np

EPOCHS, BATCH, RATE, EPSILON = 12, 32, 3e-3, 1e-7
"""Of both trainings: Keras' here, PyTorch's in the test."""


def digits(seed: int) -> dict[str, np.ndarray]:
    """Images and digits: to train first, to train on (``more``), and to test."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    images, digit = load_digits(return_X_y=True)
    images = (images / 16).astype(np.float32).reshape(-1, 8, 8, 1)
    told = {"random_state": seed}
    rest, test, of_rest, of_test = train_test_split(
        images, digit, test_size=600, stratify=digit, **told
    )
    first, more, of_first, of_more = train_test_split(
        rest, of_rest, test_size=0.7, stratify=of_rest, **told
    )
    rng = np.random.default_rng(seed)
    order = np.stack([rng.permutation(len(more)) for _ in range(EPOCHS)])
    pairs = {"first": (first, of_first), "more": (more, of_more), "test": (test, of_test)}
    parts = {f"{n}_{k}": v for n, pair in pairs.items() for k, v in zip("xy", pair, strict=True)}
    return {**parts, "order": order}


def main(kind: str, seed: int, folder: Path) -> None:
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import keras
    from keras import layers as of

    data = digits(seed)
    np.savez(folder / "data.npz", **data)
    keras.utils.set_random_seed(seed)
    normed = kind == "keras"
    image = value = of.Input((8, 8, 1), name="image")
    for width in (16, 32):
        for layer in (
            of.Conv2D(width, 3, padding="same", use_bias=not normed),
            of.DepthwiseConv2D(3, strides=2, padding="same", use_bias=not normed),
        ):
            value = layer(value)
            value = of.BatchNormalization(momentum=0.9)(value) if normed else value
            value = of.ReLU(6.0)(value)
    value = of.GlobalAveragePooling2D()(value)
    value = of.Dropout(0.1)(value) if normed else value
    net = keras.Model(image, of.Dense(10, name="scores")(value))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    net.compile(keras.optimizers.Adam(RATE), loss, metrics=["accuracy"])
    net.fit(data["first_x"], data["first_y"], epochs=12, batch_size=BATCH, verbose=0)
    _save(net, kind, folder)
    before, _ = net.evaluate(data["test_x"], data["test_y"], verbose=0)
    np.save(folder / "scores.npy", net.predict(data["test_x"], verbose=0))
    net.compile(keras.optimizers.Adam(RATE, epsilon=EPSILON), loss, metrics=["accuracy"])
    for order in data["order"]:
        taken = data["more_x"][order], data["more_y"][order]
        net.fit(*taken, batch_size=BATCH, shuffle=False, verbose=0)
    _, accuracy = net.evaluate(data["test_x"], data["test_y"], verbose=0)
    print(json.dumps({"loss": before, "accuracy": accuracy}))


def _save(net: object, kind: str, folder: Path) -> None:
    if kind == "keras":
        net.save(folder / "net.keras")  # type: ignore[attr-defined]
        return
    import tensorflow as tf

    made = tf.lite.TFLiteConverter.from_keras_model(net).convert()
    (folder / "net.tflite").write_bytes(made)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
