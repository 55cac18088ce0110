"""Keras' model files: ``.keras`` archives, and HDF5 files of Keras 2 and 3.

What a file names is read and judged before Keras sees it (`keras_config`, `keras_archive`).
"""

# zip() knows no strict= before Python 3.10.
# ruff: noqa: B905

from __future__ import annotations

import importlib
import inspect
import os
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ...tensorflow.child.model import Opened, TensorInfo
from ...worker.errors import WorkerError, from_user_code
from ...worker.packages import require
from . import archive as keras_archive
from . import config as keras_config
from . import kept_layers, pictures
from . import patches as keras_patches
from . import upgrade as keras_upgrade

_KERAS_PLACES = (
    "layers",
    "models",
    "activations",
    "initializers",
    "regularizers",
    "constraints",
    "dtype_policies",
    "losses",
    "metrics",
    "optimizers",
    "quantizers",
)


def open_file(path: str, trust: bool, search_paths: Sequence[str]) -> Opened:
    """A model ready to be called; weights are loaded, nothing is compiled.

    Args:
        path: The file, whatever its name.
        trust: Python code in the file may run.
        search_paths: Not used: a Keras file doesn't say which module a custom class is from.

    Raises:
        WorkerError: untrusted, with everything in the file that is code; unsupported, with every
            layer that isn't Keras' own or works on strings; usage for a file that holds no model;
            source where Keras can't read it.
    """
    file = Path(path)
    content = keras_archive.read(file)
    # What names code stays as it is: a Keras 2, which gets the file itself, is safe as well.
    content.config, content.upgraded = keras_upgrade.upgraded(content.config)
    found = keras_config.examine(content.config)
    if found.code and not trust:
        raise WorkerError(
            "untrusted",
            f"{file.name} would run Python code, or read files, when it is loaded",
            [*found.code, *found.unsupported, *found.custom],
        )
    keras = _import_keras()
    custom = _custom(keras, found)
    _refuse(file, found.unsupported, custom)
    model = _load(keras, file, content, trust)
    return as_opened(keras, model, keras_config.layout(found))


def _refuse(file: Path, unsupported: Sequence[str], custom: Sequence[str]) -> None:
    reasons = [*unsupported, *(f"{name}: it isn't one of Keras' own layers" for name in custom)]
    if not reasons:
        return
    hint = ""
    if custom:
        hint = (
            ". A custom class's code isn't in the file: export the model where its code is, "
            "model.export(FOLDER), and convert that SavedModel"
        )
    raise WorkerError(
        "unsupported", f"{file.name} holds layers that can't be converted{hint}", reasons
    )


def _import_keras() -> Any:
    """Keras 3 on TensorFlow, or the Keras 2 that an older TensorFlow brings."""
    os.environ["KERAS_BACKEND"] = "tensorflow"
    require("tensorflow", "tensorflow", "to run the model")
    keras = require("keras", "keras", "to load the model")
    if keras.__version__.startswith("2."):
        import tensorflow as tf

        return tf.keras
    return keras


def _custom(keras: Any, found: keras_config.Findings) -> list[str]:
    """Classes and functions that aren't Keras' own, with the layers that use them."""
    custom = list(found.custom)
    custom += [f"{n} ({place})" for n, m, place in found.classes if not _is_class(keras, n, m)]
    custom += [
        f"the function {name} ({place})"
        for name, place in found.functions
        if not _is_function(keras, name)
    ]
    return list(dict.fromkeys(custom))


def _is_class(keras: Any, name: str, module: str) -> bool:
    """Whether Keras has a class of that name: in that module, or anywhere if there is none."""
    if not module:
        places = [getattr(keras, place, None) for place in _KERAS_PLACES]
        return name in ("Functional", "Model", "Sequential") or any(
            isinstance(getattr(place, name, None), type) for place in places
        )
    try:
        found = importlib.import_module(module)
    # A module of another version of Keras: that one says itself what it lacks.
    except ImportError:
        return True
    return isinstance(getattr(found, name, None), type)


def _is_function(keras: Any, name: str) -> bool:
    """Whether Keras has an activation (a loss, an initializer) of that name."""
    places = ("activations", "ops", "initializers", "regularizers", "constraints")
    return any(
        callable(getattr(getattr(keras, p, None), name, None))
        for p in (*places, "losses", "metrics")
    )


def _for_keras(file: Path, content: keras_archive.Content, folder: Path, keras: Any) -> Path:
    """The file in the form that this Keras takes, under a suffix that it takes."""
    if content.upgraded and hasattr(keras, "ops"):
        return keras_upgrade.write(file, content.kind, content.config, folder)
    suffixes = (".keras",) if content.kind == "keras" else (".h5", ".hdf5")
    if file.suffix in suffixes:
        return file
    link = folder / f"model{suffixes[0]}"
    link.symlink_to(file.resolve())
    return link


def _load(keras: Any, file: Path, content: keras_archive.Content, trust: bool) -> Any:
    options = {"compile": False}
    if "safe_mode" in inspect.signature(keras.models.load_model).parameters:
        options["safe_mode"] = not trust
    try:
        with tempfile.TemporaryDirectory() as folder:
            name = _for_keras(file, content, Path(folder), keras)
            return keras.models.load_model(str(name), **options)
    # Keras raises whatever its layers raise.
    except Exception as error:
        doing = f"loading {file.name} in Keras {getattr(keras, '__version__', '2')}"
        raise from_user_code(error, doing) from error


# -- the model -------------------------------------------------------------------------


def as_opened(keras: Any, model: Any, layout: str) -> Opened:
    """A model as a function of flat tensors.

    Args:
        keras: The module.
        model: What it loaded.
        layout: `channels_last` or `channels_first`; empty where layers differ, or none says.

    Raises:
        WorkerError: ``unsupported`` for what can't be one.
    """
    _require_inputs(model)
    _refuse_state(model)
    keras_patches.apply(layers_of(model))
    call, inputs, outputs = _flat(keras, model)
    return Opened(
        kind="keras",
        function=call,
        inputs=inputs,
        outputs=outputs,
        parameters=int(model.count_params()),
        layout=layout,
        pictures=pictures.found(str(model.name), layers_of(model)),
        kept=partial(kept_layers.kept, layers_of(model)),
        keep=model,
    )


def _require_inputs(model: Any) -> None:
    if not getattr(model, "inputs", None) or not getattr(model, "outputs", None):
        raise WorkerError(
            "unsupported",
            f"the {type(model).__name__} {model.name} doesn't declare its inputs",
            [
                f"{type(model).__name__} ({model.name}): it has no Input layer; add one, or "
                "call the model once on real data before you save it"
            ],
        )
    kinds = [(t, k) for t in model.inputs for k in ("sparse", "ragged") if getattr(t, k, False)]
    strings = [(t, "string") for t in model.inputs if _dtype(t) == "string"]
    if kinds or strings:
        raise WorkerError(
            "unsupported",
            "the model takes inputs for which ONNX has no tensors",
            [f"input {t.name}: {kind}" for t, kind in (*kinds, *strings)],
        )


def _refuse_state(model: Any) -> None:
    """Refuse layers that keep a state between calls: an exported model has none."""
    found = [
        f"{type(layer).__name__} ({layer.name}): stateful=True; save it with stateful=False, "
        "return_state=True and the state as an input"
        for layer in layers_of(model)
        if getattr(layer, "stateful", False) is True
        and (hasattr(layer, "reset_states") or hasattr(layer, "reset_state"))
    ]
    if found:
        raise WorkerError("unsupported", "the model keeps a state between calls", found)


def layers_of(model: Any) -> list[Any]:
    """Its layers, and those within them."""
    flatten = getattr(model, "_flatten_layers", None)
    return list(flatten(include_self=False)) if flatten else list(model.layers)


def _dtype(tensor: Any) -> str:
    dtype = tensor.dtype
    return dtype if isinstance(dtype, str) else str(dtype.name)


def _info(name: str, tensor: Any) -> TensorInfo:
    shape = tensor.shape
    rank = getattr(shape, "rank", 0)
    dims = None if rank is None else tuple(None if d is None else int(d) for d in shape)
    return TensorInfo(name, _dtype(tensor), dims)


def _flat(
    keras: Any, model: Any
) -> tuple[Callable[..., Sequence[Any]], list[TensorInfo], list[TensorInfo]]:
    """The model as a function of flat tensors, and what these are called."""
    import tensorflow as tf

    tree = getattr(keras, "tree", None) or tf.nest
    functional = getattr(model, "_functional", None) or model
    takes = _structure(functional, "inputs")
    gives = _structure(functional, "outputs")
    inputs = _named(tree, takes, model.inputs, _layer_names(model, "input"))
    outputs = _named(tree, gives, model.outputs, _layer_names(model, "output"))

    def call(*tensors: Any) -> Sequence[Any]:
        packed = tree.pack_sequence_as(takes, list(tensors))
        return list(tree.flatten(model(packed, training=False)))

    return call, inputs, outputs


def _structure(model: Any, side: str) -> Any:
    """The nest of tensors that a model takes or gives: Keras 3's name for it, or Keras 2's."""
    for name in (f"_{side}_struct", f"_nested_{side}"):
        found = getattr(model, name, None)
        if found is not None:
            return found
    tensors = getattr(model, side)
    return tensors[0] if len(tensors) == 1 else tensors


def _layer_names(model: Any, side: str) -> list[str]:
    """Names of the layers that inputs or outputs belong to, in order."""
    tensors = getattr(model, f"{side}s")
    names: list[str] | None = None
    if all(hasattr(t, "_keras_history") for t in tensors):
        names = [getattr(t._keras_history[0], "name", "") for t in tensors]
    return names or list(getattr(model, f"{side}_names"))


def _named(
    tree: Any, structure: Any, tensors: Sequence[Any], layers: Sequence[str]
) -> list[TensorInfo]:
    """Tensors by name: a dict's key, else the layer's name, numbered where that comes again."""
    infos: list[TensorInfo] = []
    taken: list[str] = []
    for path, tensor, layer in zip(_paths(structure), tensors, layers):
        base = path or layer
        number, name = 1, base
        while name in taken:
            name = f"{base}_{number}"
            number += 1
        taken.append(name)
        infos.append(_info(name, tensor))
    return infos


def _paths(structure: Any) -> list[str]:
    """For each tensor the dict keys that lead to it, joined; empty where there are none.

    Dicts come in the order of their sorted keys, as in Keras' own flattening.
    """
    if isinstance(structure, dict):
        return [
            f"{key}_{inner}" if inner else str(key)
            for key in sorted(structure)
            for inner in _paths(structure[key])
        ]
    if isinstance(structure, (list, tuple)):
        return [path for item in structure for path in _paths(item)]
    return [""]
