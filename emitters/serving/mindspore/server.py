"""Packages for MindSpore Serving: ``servable_config.py``, ``serving_server.py``, ``1/``.

As its API documentation has them (``register.declare_model``, ``register.add_stage``,
``server.ServableStartConfig``, ``client.Client``).
"""

from __future__ import annotations

import keyword
import pprint
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from converter.ir.model import Model, TensorSpec
from emitters.packaging import Device, Readme
from emitters.packaging.photos import Preparation, preparation_of
from emitters.serving.batching import fixed_batch
from emitters.serving.files import place_artifact
from emitters.serving.mindspore import SPECS
from emitters.serving.python.served import Served
from emitters.serving.versioned import VersionedServer
from emitters.templates import render

FILES = {
    "servable_config.py": "the model, and the stages of its methods",
    "serving_server.py": "starts the server",
    "serving_client.py": "a client by gRPC",
}

_SEEN = (
    "Modelyard's tests run MindSpore Serving 2.0.2 on a CPU, with MindSpore Lite 2.0.0; no other "
    "device was tried"
)
_DORMANT = (
    "MindSpore Serving had no release since 2.0.2 (October 2023): for a new project take --to "
    "onnx --serve triton, or --to openvino --serve ovms"
)

_TYPES = {"int64": "int32", "float64": "float32", "float16": "float32"}
"""What MindSpore Lite's CPU takes in the place of some types."""

_INSTALL = """Python 3.7, with the server and the model's runtime:
```
python3.7 -m venv ms
ms/bin/pip install mindspore-serving==2.0.2 mindspore-lite==2.0.0 numpy==1.21.6 \\
    protobuf==3.20.3 packaging==23.2{more}
```
`python selftest.py --python ms/bin/python` runs the model without the server."""

_START = """In this folder (don't rename it):
```
ms/bin/python serving_server.py
ms/bin/python serving_client.py
```
`serving_client.py` sends the samples, and prints how far the answers are from the source's outputs.
`--device-type GPU --device-ids 0 1` starts a copy of the model on each device.

Over REST, `POST http://127.0.0.1:1500/model/{name}:predict` takes `{{"instances": [{{...}}]}}`, an
object of inputs by name for each."""

_LOAD = """A folder `2/` with another `model.mindir` is served by `version_number=2` in
`serving_server.py`; 0 is the largest number."""

_SCALE = """`--workers` are the processes, each with the model and its stages. The model's batch is
fixed."""

_TLS = """`server.SSLConfig` in `start_grpc_server` and `start_restful_server`."""


class MindSporeServing(VersionedServer, spec=SPECS["mindspore-serving"]):
    """MindSpore Serving, with MindSpore Lite as its backend."""

    name, title = "mindspore-serving", "MindSpore Serving"

    def file(self, served: Served) -> str:
        return served.file

    def write(self, served: Served, path: Path, model: Model) -> None:
        place_artifact(served.artifact, path / str(served.request.version))
        values = _values(served)
        for name in FILES:
            text = render(__package__, f"{name}.j2", values, literal=_literal)
            (path / name).write_text(text, encoding="utf-8")

    def wire(self, served: Served) -> Device:
        return Device("on_mindspore")

    def decided(self, served: Served) -> list[str]:
        return [_SEEN, _DORMANT]

    def readme(self, served: Served, model: Model) -> Readme:
        start, files = _START.format(name=served.name), [*FILES.items()]
        install = _INSTALL.format(more=" pillow==9.5.0" * (_pictured(served) is not None))
        files.append(
            (f"{served.request.version}/", "the model, and a script that runs it by itself")
        )
        return Readme(install, start, _LOAD, "", _SCALE, _TLS, files)


def _values(served: Served) -> dict[str, Any]:
    named = arguments_of(served.inputs)
    arguments = [*named.values()]
    batch = fixed_batch((*served.inputs, *served.outputs), served.request)
    types = zip(arguments, served.inputs, strict=True)
    photo = _pictured(served)
    return {
        "name": served.name,
        "version": served.request.version,
        "workers": served.request.instances,
        "file": served.file,
        "batch": batch,
        "named": named,
        "arguments": arguments,
        "typed": [
            f'np.asarray({argument}, "{_TYPES.get(spec.dtype, spec.dtype)}")'
            for argument, spec in types
        ],
        "outputs": [spec.name for spec in served.outputs],
        "photo": photo.python("The input") if photo else "",
        "labels": list(served.outputs[0].labels or ()),
    }


def _pictured(served: Served) -> Preparation | None:
    """How a picture's file becomes the only input of a model of one output."""
    if len(served.inputs) > 1 or len(served.outputs) > 1:
        return None
    return preparation_of(served.inputs[0], served.request)


def arguments_of(inputs: Sequence[TensorSpec]) -> dict[str, str]:
    """What Python calls each input: methods name their inputs by arguments."""
    found: dict[str, str] = {}
    for spec in inputs:
        name = re.sub(r"\W", "_", spec.name)
        name = f"_{name}" if keyword.iskeyword(name) or name[:1].isdigit() else name
        while name in found.values():
            name += "_"
        found[spec.name] = name
    return found


def _literal(value: Any) -> str:
    return pprint.pformat(value, width=96, sort_dicts=False)
