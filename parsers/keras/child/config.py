"""What a Keras model's configuration names, judged before Keras reads it. Standard library only.

A configuration is JSON in which ``{"class_name": ..., "config": ...}`` stands for an object to be
made: Keras looks the class up by ``module``, and a Lambda layer brings Python bytecode. So every
such object is looked at first (CVE-2024-3660, CVE-2025-1550, CVE-2025-8747, CVE-2025-9905,
CVE-2025-9906: each found another way past Keras' own check).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

# Where classes that a model is made of live; everything else in Keras (files, downloads,
# settings) has no place in a model.
_PLACES = (
    "activations",
    "constraints",
    "dtype_policies",
    "initializers",
    "layers",
    "losses",
    "metrics",
    "mixed_precision",
    "models",
    "ops",
    "optimizers",
    "quantizers",
    "random",
    "regularizers",
)
_FUNCTIONS = (
    *("activations", "constraints", "initializers", "losses", "metrics", "ops", "regularizers"),
)
_ROOTS = (
    "keras.src.engine",
    "keras.src",
    "keras.engine",
    "keras.api",
    "tensorflow.keras",
    "tensorflow.python.keras",
    "tf_keras.src",
    "tf_keras",
    "keras",
)
_TOP = {
    "Model",
    "Sequential",
    "Functional",
    "InputLayer",
    "Input",
    "DTypePolicy",
    "FloatDTypePolicy",
}
_TOP |= {"KerasTensor", "SeedGenerator", "Variable", "StatelessScope", "Operation", "Layer"}

# Layers that Keras' own applications define beside themselves.
_APPLICATIONS = {
    "keras.src.applications.convnext": ("LayerScale", "StochasticDepth"),
    "keras.src.applications.inception_resnet_v2": ("CustomScaleLayer",),
}

# Values that Keras writes in this form; none of them makes an object of a class that is named.
_VALUES = {
    *("__keras_tensor__", "__tensor__", "__numpy__", "__bytes__", "__ellipsis__", "__slice__"),
    *("__tuple__", "__typespec__", "TensorShape", "Dtype"),
}

_CODE = {
    "Lambda": "it holds Python code",
    "__lambda__": "it holds Python code",
    "TorchModuleWrapper": "it holds a pickle, which may hold code",
    "TFSMLayer": "it loads another model from a path",
    "JaxLayer": "it holds Python code",
    "FlaxLayer": "it holds Python code",
}

_STRINGS = "ONNX has no such operator; do it before the model"
_UNSUPPORTED = {
    "StringLookup": f"it looks strings up; {_STRINGS}",
    "TextVectorization": f"it splits and looks strings up; {_STRINGS}",
    "IntegerLookup": f"it is a lookup table; {_STRINGS}",
    "IndexLookup": f"it is a lookup table; {_STRINGS}",
    "Hashing": f"it hashes its input; {_STRINGS}",
    "HashedCrossing": f"it hashes its inputs; {_STRINGS}",
}
_PATHS = ("vocabulary", "idf_weights")
_DEPTH = 200


@dataclass
class Findings:
    """What a configuration holds.

    `code` and `unsupported` are reasons, a line each; `classes` are (class, module, place) of all
    objects, `functions` names of functions (an activation) with their place; `layouts` are the
    data formats of the layers.
    """

    code: list[str] = field(default_factory=list)
    unsupported: list[str] = field(default_factory=list)
    classes: list[tuple[str, str, str]] = field(default_factory=list)
    functions: list[tuple[str, str]] = field(default_factory=list)
    custom: list[str] = field(default_factory=list)
    layouts: set[str] = field(default_factory=set)


def examine(config: Mapping[str, Any]) -> Findings:
    """Everything that a model's configuration names.

    Its own compile_config isn't read (compile=False); those of models inside it are.
    """
    found = Findings()
    read = {key: value for key, value in config.items() if key != "compile_config"}
    for place, item in _objects(read, "the model", 0):
        _judge(found, place, item)
    return found


def _objects(value: Any, place: str, depth: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every dict that is inside, with the name of the layer that it belongs to."""
    if depth > _DEPTH:
        yield place, {"class_name": "__too_deep__"}
    elif isinstance(value, dict):
        name = _name(value)
        inside = name or place
        yield inside, value
        for item in value.values():
            yield from _objects(item, inside, depth + 1)
    elif isinstance(value, list):
        for item in value:
            yield from _objects(item, place, depth + 1)


def _name(item: Mapping[str, Any]) -> str:
    """The layer's name, where this is a layer or model."""
    config = item.get("config")
    if "class_name" in item and isinstance(config, dict) and "name" in config:
        value = config["name"]
        return value if isinstance(value, str) else ""
    return ""


def _judge(found: Findings, place: str, item: Mapping[str, Any]) -> None:
    if isinstance(item.get("data_format"), str):
        found.layouts.add(item["data_format"])
    for key in ("activation", "recurrent_activation"):
        if isinstance(item.get(key), str):
            found.functions.append((item[key], place))
    for key in _PATHS:
        if isinstance(item.get(key), str):
            found.code.append(f"{place}: its {key} is a file that would be read: {item[key]!r}")
    name = item.get("class_name")
    if name is None:
        return
    if not isinstance(name, str):
        found.code.append(f"{place}: the class_name {name!r} isn't a name"[:200])
    elif name == "__too_deep__":
        found.code.append(f"{place}: nested deeper than {_DEPTH} levels")
    elif name in _CODE:
        found.code.append(f"{name} ({place}): {_CODE[name]}")
    elif name not in _VALUES:
        _judge_class(found, place, name, item)


def _judge_class(found: Findings, place: str, name: str, item: Mapping[str, Any]) -> None:
    module = item.get("module")
    config = item.get("config")
    if name in ("function", "__function__") or item.get("class_name") == "function":
        _judge_function(found, place, module, config)
        return
    if isinstance(config, dict) and _brings_code(config):
        found.code.append(f"{name} ({place}): it holds Python code")
    elif name in _UNSUPPORTED:
        found.unsupported.append(f"{name} ({place}): {_UNSUPPORTED[name]}")
    elif not isinstance(module, str):
        # A Keras class in the old form, or a registered class of the user's.
        layer = "inbound_nodes" in item and name not in _TOP
        found.classes.append((name, "keras.layers" if layer else "", place))
    elif not _of_keras(module):
        found.custom.append(f"{module}.{name} ({place})")
    elif _allowed(module, name):
        found.classes.append((name, module, place))
    else:
        found.code.append(f"{module}.{name} ({place}): that is nothing that a model is made of")


def _judge_function(found: Findings, place: str, module: Any, config: Any) -> None:
    if not isinstance(config, str):
        found.code.append(f"a function ({place}): it isn't named: {config!r}"[:200])
    elif module in (None, "builtins") or (isinstance(module, str) and _place(module) in _FUNCTIONS):
        found.functions.append((config, place))
    else:
        found.code.append(f"{module}.{config} ({place}): a function that isn't a Keras activation")


def _brings_code(config: Mapping[str, Any]) -> bool:
    """Bytecode as Keras 2 wrote it: ``function: [code, defaults, closure]``."""
    kind = config.get("function_type") or config.get("output_shape_type")
    return kind in ("lambda", "function") or isinstance(config.get("function"), list)


def _of_keras(module: str) -> bool:
    return any(module == root or module.startswith(f"{root}.") for root in _ROOTS)


def _allowed(module: str, name: str) -> bool:
    """Whether a class of this module may be part of a model."""
    if name in _APPLICATIONS.get(module, ()):
        return True
    return name in _TOP if module in _ROOTS else _place(module) in _PLACES


def _place(module: str) -> str:
    """The part of Keras that a module belongs to: ``layers``; empty where it's none of Keras'."""
    for root in _ROOTS:
        if module.startswith(f"{root}."):
            return module[len(root) + 1 :].partition(".")[0]
    return ""


def layout(found: Findings) -> str:
    """``channels_last`` or ``channels_first`` where all layers agree, else an empty text."""
    formats = found.layouts & {"channels_last", "channels_first"}
    return next(iter(formats)) if len(formats) == 1 else ""


def kind_of(attributes: Mapping[str, Any], groups: set[str]) -> str | None:
    """What an HDF5 file without a model's configuration is, as far as its names tell."""
    if "layer_names" in attributes or groups & {"_layer_checkpoint_dependencies", "layers", "vars"}:
        return "weights"
    if "MATLAB_class" in attributes or "#refs#" in groups or "#subsystem#" in groups:
        return "a MATLAB file"
    if "PYTABLES_FORMAT_VERSION" in attributes or "TITLE" in attributes:
        return "a pandas or PyTables file"
    if "_NCProperties" in attributes:
        return "a NetCDF file"
    return None
