"""Keras 2 configurations, as Keras 3 takes them.

Keras 3 reads what Keras 2 wrote, except for a few arguments that it no longer knows and modules
that it moved; it refuses a whole file for one of these.
"""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

_MOVED = {
    "functional": ("keras.src.models.functional", "Functional"),
    "sequential": ("keras", "Sequential"),
    "training": ("keras", "Model"),
    "input_layer": ("keras.layers", "InputLayer"),
}
# What the layer's inputs tell anyway.
_SHAPES = ("query_shape", "key_shape", "value_shape")
# For training, and of a kernel that is kept as two.
_WHOLE_KERNEL = ("kernel_initializer", "kernel_regularizer", "kernel_constraint")
_ONE_GROUP = ("Depthwise", "Separable")


def upgraded(config: Any) -> tuple[Any, bool]:
    """A configuration in Keras 3's terms, and whether anything had to change."""
    made = _item(config)
    return made, made != config


def _item(value: Any) -> Any:
    if isinstance(value, list):
        return [_item(v) for v in value]
    if not isinstance(value, dict):
        return value
    made = {key: _item(item) for key, item in value.items()}
    if isinstance(made.get("module"), str):
        made.update(_place(made["module"], made.get("class_name")))
    if made.get("class_name") == "Policy":
        made.update(module="keras", class_name="DTypePolicy", registered_name=None)
    if made.get("class_name") == "MultiHeadAttention" and "query_shape" in made.get("config", {}):
        # It is built when it is called; what is written here is for Keras 2's own build().
        made.pop("build_config", None)
    if isinstance(made.get("config"), dict) and isinstance(made.get("class_name"), str):
        made["config"] = _arguments(made["class_name"], made["config"])
    return made


def _place(module: str, name: Any) -> dict[str, str]:
    """Where a class of Keras 2 is now."""
    parts = module.split(".")
    if parts[0] not in ("keras", "tf_keras"):
        return {}
    if "engine" in parts[:-1] and parts[-1] in _MOVED:
        place, known = _MOVED[parts[-1]]
        return {"module": place} if name == known else {}
    return {"module": ".".join(["keras", *parts[1:]])}


def _arguments(name: str, config: dict[str, Any]) -> dict[str, Any]:
    """A layer's arguments without those that only Keras 2 had, where they say nothing."""
    made = dict(config)
    if name == "InputLayer" and "batch_input_shape" in made:
        made["batch_shape"] = made.pop("batch_input_shape")
    if made.get("groups") == 1 and (name.startswith(_ONE_GROUP) or name.endswith("Transpose")):
        del made["groups"]
    for key in ("time_major", "softmax_robust_masking"):
        if made.get(key) is False:
            del made[key]
    if name.startswith("Separable"):
        for key in _WHOLE_KERNEL:
            made.pop(key, None)
    if name == "MultiHeadAttention":
        for key in _SHAPES:
            made.pop(key, None)
    axis = made.get("axis")
    if name == "BatchNormalization" and isinstance(axis, list) and len(axis) == 1:
        made["axis"] = axis[0]
    if isinstance(made.get("layers"), list):
        made["layers"] = _without_shapes(made["layers"])
    return made


def _without_shapes(layers: list[Any]) -> list[Any]:
    """Layers that say their input's shape although an InputLayer stands before them."""
    if not layers or not isinstance(layers[0], dict) or layers[0].get("class_name") != "InputLayer":
        return layers
    return [layers[0], *(_without_shape(layer) for layer in layers[1:])]


def _without_shape(layer: Any) -> Any:
    config: Any | None = layer.get("config") if isinstance(layer, dict) else None
    if not isinstance(config, dict) or layer.get("class_name") == "InputLayer":
        return layer
    kept = {key: value for key, value in config.items() if key != "batch_input_shape"}
    return {**layer, "config": kept}


def write(file: Path, kind: str, config: Any, folder: Path) -> Path:
    """A copy of a file with another configuration.

    Args:
        file: The file.
        kind: `keras` for an archive, else HDF5.
        config: The configuration.
        folder: Where the copy goes.
    """
    if kind == "keras":
        return _write_archive(file, config, folder / "model.keras")
    import h5py

    copy = folder / "model.h5"
    shutil.copyfile(file, copy)
    with h5py.File(copy, "r+") as opened:
        opened.attrs["model_config"] = json.dumps(config)
    return copy


def _write_archive(file: Path, config: Any, copy: Path) -> Path:
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(copy, "w") as new:
        for info in old.infolist():
            if info.filename == "config.json":
                new.writestr("config.json", json.dumps(config))
                continue
            with old.open(info) as source, new.open(info, "w") as target:
                shutil.copyfileobj(source, target, 1 << 20)
    return copy
