"""A ``.keras`` archive, written without Keras: a configuration in JSON, and HDF5 with the weights.

Source of the format: what ``keras.saving.save_model`` of Keras 3 writes. A layer's tensors lie in
``<attributes on the way to it>/vars``, numbered, those that train first; a layer in a list is
called after its class there.
"""

from __future__ import annotations

import json
import re
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from emitters.code.bodies import names_in
from emitters.code.keras.interface import Interface
from emitters.code.program import Program
from emitters.code.steps import Step, Unit, Weight
from emitters.code.tree import Group, Item

VERSION = "3.15.1"
"""The Keras that the format was read of."""

WEIGHTS = "model.weights.h5"


def write(path: Path, program: Program, interface: Interface) -> None:
    """Writes the archive.

    Args:
        path: The archive; a hidden file beside it holds the weights meanwhile.
        program: The classes and their weights.
        interface: What the model takes and gives.

    Raises:
        OSError: The file can't be written.
    """
    import h5py

    apart = path.with_name(f".{path.name}.h5")
    try:
        with h5py.File(apart, "w") as file:
            for place, found in tensors_of(program):
                group = file.create_group(f"{place}/vars")
                for at, weight in enumerate(found):
                    _store(group, str(at), weight)
        with zipfile.ZipFile(path, "w") as archive:
            told = {"keras_version": VERSION, "date_saved": "1980-01-01@00:00:00"}
            archive.writestr(zipfile.ZipInfo("metadata.json"), json.dumps(told))
            config = json.dumps(config_of(interface))
            archive.writestr(zipfile.ZipInfo("config.json"), config)
            weights = archive.open(zipfile.ZipInfo(WEIGHTS), "w", force_zip64=True)
            with weights, apart.open("rb") as stored:
                shutil.copyfileobj(stored, weights)
    finally:
        apart.unlink(missing_ok=True)


def _store(group: Any, name: str, weight: Weight) -> None:
    data = group.create_dataset(name, data=weight.make())
    if weight.dtype.name == "bfloat16":
        data.attrs["dtype"] = "bfloat16"


# -- the tensors ---------------------------------------------------------------------------


def tensors_of(program: Program) -> Iterator[tuple[str, list[Weight]]]:
    """Each layer's place in the file, and its tensors in Keras' order."""
    assert program.root is not None
    classes = {path: made.name for made in program.classes for path in made.members}
    yield from _of_group(program.root, "layers/network", "", classes)


def _of_group(
    group: Group, place: str, path: str, classes: dict[str, str]
) -> Iterator[tuple[str, list[Weight]]]:
    own: dict[str, Weight] = {}
    seen: set[int] = set()
    for item, name, inner in _children(group, place, path, classes):
        if isinstance(item, Group):
            yield from _of_group(item, inner, f"{path}.{item.name}" if path else item.name, classes)
            continue
        unit = item.unit
        assert unit is not None
        if id(unit) in seen:
            continue
        seen.add(id(unit))
        if item.is_tensor:
            own[name] = unit.weights[""]
        else:
            yield from _of_unit(unit, inner)
    if own:
        trains = [trains_in(weight) for weight in own.values()]
        order = sorted(range(len(own)), key=lambda at: not trains[at])
        yield place, [list(own.values())[at] for at in order]


def trains_in(weight: Weight) -> bool:
    """Whether a tensor of a layer's own trains."""
    return bool(weight.trains and weight.shape and "float" in weight.dtype.name)


def _of_unit(unit: Unit, place: str) -> Iterator[tuple[str, list[Weight]]]:
    """A layer's tensors; ``cell.kernel`` is of a layer in it."""
    found: dict[str, list[Weight]] = {}
    for name, weight in unit.weights.items():
        inner = name.rpartition(".")[0].replace(".", "/")
        found.setdefault(f"{place}/{inner}".rstrip("/"), []).append(weight)
    yield from found.items()


def _children(
    group: Group, place: str, path: str, classes: dict[str, str]
) -> Iterator[tuple[Item, str, str]]:
    names = names_in(group)
    if not group.listed:
        for item, name in names.items():
            yield item, name, f"{place}/{name}"
        return
    by_number = {int(name): item for item, name in names.items()}
    count: dict[str, int] = {}
    for number in range(max(by_number) + 1):
        found = by_number.get(number)
        kind = _kind(found, path, classes)
        at = count[kind] = count.get(kind, -1) + 1
        if found is not None:
            yield found, str(number), f"{place}/{kind}_{at}" if at else f"{place}/{kind}"


def _kind(item: Item | None, path: str, classes: dict[str, str]) -> str:
    """What Keras calls a layer in a list."""
    if item is None:
        return "identity"
    if isinstance(item, Group):
        if item.listed:
            return "container"
        return _snake(classes[f"{path}.{item.name}" if path else item.name])
    assert isinstance(item, Step) and item.unit is not None
    return _snake(item.unit.kind.rpartition(".")[2])


def _snake(name: str) -> str:
    """As Keras' ``to_snake_case``."""
    name = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower()


# -- the configuration ---------------------------------------------------------------------


def config_of(interface: Interface) -> dict[str, Any]:
    """What Keras makes the model of: inputs, and one layer."""
    layers = [
        _input(interface.input_name(s), interface.shape(s), s.dtype) for s in interface.inputs
    ]
    tensors = [
        {
            "class_name": "__keras_tensor__",
            "config": {
                "shape": interface.shape(spec),
                "dtype": spec.dtype,
                "keras_history": [interface.input_name(spec), 0, 0],
            },
        }
        for spec in interface.inputs
    ]
    layers.append({
        "module": None,
        "class_name": "Network",
        "config": {"name": interface.layer},
        "registered_name": f"{interface.name}>Network",
        "name": interface.layer,
        "inbound_nodes": [{"args": tensors, "kwargs": {}}],
    })  # fmt: skip
    takes = {spec.name: [interface.input_name(spec), 0, 0] for spec in interface.inputs}
    gives = {spec.name: [interface.layer, 0, at] for at, spec in enumerate(interface.outputs)}
    return {
        "module": "keras.src.models.functional",
        "class_name": "Functional",
        "config": {
            "name": interface.name,
            "trainable": True,
            "layers": layers,
            "input_layers": _one(takes) if interface.plain_inputs else takes,
            "output_layers": _one(gives) if interface.plain_outputs else gives,
        },
        "registered_name": "Functional",
    }


def _one(places: dict[str, list[Any]]) -> list[Any]:
    """A tensor's place that stands alone."""
    (only,) = places.values()
    return only


def _input(name: str, shape: list[int | None], dtype: str) -> dict[str, Any]:
    return {
        "module": "keras.layers",
        "class_name": "InputLayer",
        "config": {"batch_shape": shape, "dtype": dtype, "sparse": False, "name": name},
        "registered_name": None,
        "name": name,
        "inbound_nodes": [],
    }
