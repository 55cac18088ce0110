"""Packages for ModelBox: flow units and graphs, and a program that runs them by its SDK.

NAME/flowunit/NAME_infer/   the model, and the unit's TOML
NAME/graph/NAME.toml        inputs, model, outputs, for the SDK
NAME/graph/NAME_http.toml   a picture's file to an answer in JSON, where the input is a picture
"""

from __future__ import annotations

import pprint
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from converter.errors import Unsupported, UnsupportedError
from converter.ir.model import Model
from converter.options.request import Request
from emitters.packaging import Device, Readme
from emitters.packaging.photos import Preparation, preparation_of
from emitters.serving.batching import fixed_batch
from emitters.serving.files import place_artifact
from emitters.serving.modelbox import SPECS
from emitters.serving.modelbox.files import APPLICATION, Graph, Port, Unit
from emitters.serving.python.served import Served
from emitters.serving.versioned import VersionedServer
from emitters.templates import render

_TYPES = {"float32": "float", "int32": "int", "float16": "float16", "int8": "int8",
          "uint8": "uint8", "bool": "bool"}  # fmt: skip
"""ModelBox's names of types that engines have."""


@dataclass(frozen=True)
class Engine:
    """What of ModelBox's runs a target's artifacts.

    Attributes:
        virtual_type, device: As units name them.
        types: Those that it takes, by those that models have.
    """

    virtual_type: str
    device: str
    types: Mapping[str, str]


_ENGINES = {
    "mindspore": Engine(
        "mindspore",
        "cpu",
        {
            **{name: name for name in ("float32", "int32", "uint8", "bool")},
            "int64": "int32",
            "float64": "float32",
            "float16": "float32",
        },
    ),
    "onnx": Engine(
        "tensorrt", "cuda", {name: name for name in ("float32", "float16", "int8", "int32")}
    ),
}

_NOT_RUN = "ModelBox was not run; its files were read by parsers of TOML and of graphviz"
_DORMANT = (
    "ModelBox has had no commit since March 2024: for a new project, take --serve triton, whose "
    "ensembles are graphs too"
)
_RESIZES = (
    "the graph of pictures resizes by OpenCV, without antialiasing, and doesn't crop: answers "
    "may differ from those of samples that Pillow prepared"
)
_QUEUE = 16
_ENDPOINT = "http://127.0.0.1:8190/v1/"

_INSTALL = """ModelBox comes in its images, `modelbox/modelbox-develop-...` and
`modelbox-runtime-...`. No package index has it. For CPUs, take one with MindSpore Lite; for GPUs,
one with TensorRT.

`selftest.py` runs the model without ModelBox. For a MindIR, `--python` names a Python 3.7 with
mindspore-lite 2.0.0."""

_START = """With the SDK, in a process of your own:
```
python3 use.py
```
Modelyard has not run ModelBox. `use.py` compares its answers with the source model's."""

_HTTP = """
As a service that takes a picture's file and answers in JSON:
```
sed "s#{application}#$PWD#" graph/{unit}_http.toml > /tmp/{unit}_http.toml
modelbox-tool flow -run /tmp/{unit}_http.toml
curl --fail --data-binary @photo.jpg {endpoint}{unit}
```"""

_LOAD = """A graph names its units. It looks for them in `flowunit/` of the folder that replaces
`{application}`."""

_SCALE = """In a graph, `batch_size` is the number of buffers that a unit gets at once, `queue_size`
the number of buffers that wait for it, and `deviceid` the number of the device."""

_TLS = """Set `cert`, `key`, `passwd` and `key_pass` of the unit `httpserver_sync_receive`."""


class ModelBoxServer(VersionedServer, spec=SPECS["modelbox"]):
    """ModelBox."""

    name, title, batches = "modelbox", "ModelBox", True

    def check(self, model: Model, request: Request) -> None:
        """And types that its engine lacks.

        Raises:
            UsageError, UnsupportedError: As of :class:`VersionedServer`.
        """
        super().check(model, request)
        engine = _ENGINES[next(name for name in self.accepts if name in request.to)]
        odd = [
            Unsupported(spec.name, "type", f"{engine.virtual_type} has no {spec.dtype}")
            for spec in (*model.inputs, *model.outputs)
            if spec.dtype not in engine.types
        ]
        if odd:
            raise UnsupportedError("modelbox can't run this model", odd)

    def place(self, served: Served, path: Path) -> Path:
        return path / "flowunit" / f"{_unit(served)}_infer"

    def file(self, served: Served) -> str:
        return served.file

    def write(self, served: Served, path: Path, model: Model) -> None:
        place_artifact(served.artifact, self.place(served, path))
        for file, text in texts_of(served).items():
            (path / file).parent.mkdir(parents=True, exist_ok=True)
            (path / file).write_text(text, encoding="utf-8")

    def wire(self, served: Served) -> Device:
        return Device(
            {"mindspore": "on_mindspore", "onnx": "on_onnxruntime"}[served.artifact.target]
        )

    def more(self, served: Served, model: Model) -> dict[str, Any]:
        """What the self-test needs."""
        return {"requires": ["numpy"] + ["onnxruntime"] * (served.artifact.target == "onnx")}

    def decided(self, served: Served) -> list[str]:
        resizes = [_RESIZES] if _pictured(served) else []
        return [*served.decisions, *resizes, _NOT_RUN, _DORMANT]

    def readme(self, served: Served, model: Model) -> Readme:
        unit, files = _unit(served), [("use.py", "a program that runs the graph by the SDK")]
        files += [("flowunit/", "the model and its unit"), (f"graph/{unit}.toml", "the graph")]
        start = _START
        if _pictured(served):
            start += _HTTP.format(application=APPLICATION, unit=unit, endpoint=_ENDPOINT)
            files.append((f"graph/{unit}_http.toml", "the graph that serves pictures"))
        load = _LOAD.format(application=APPLICATION)
        return Readme(_INSTALL, start, load, "", _SCALE, _TLS, files)


def texts_of(served: Served) -> dict[str, str]:
    """The text of each file, by its path in the package."""
    unit, photo = _unit(served), _pictured(served)
    inputs = {spec.name: f"input{at}" for at, spec in enumerate(served.inputs, start=1)}
    outputs = {spec.name: f"output{at}" for at, spec in enumerate(served.outputs, start=1)}
    values = {
        "name": served.name,
        "graph": f"{unit}.toml",
        "application": APPLICATION,
        "inputs": inputs,
        "outputs": outputs,
        "types": {spec.name: _engine(served).types[spec.dtype] for spec in served.inputs},
        "rows": _rows(served) > 0,
    }
    infer = _inference(served)
    texts = {
        "use.py": _filled("use.py", values),
        f"graph/{unit}.toml": _by_the_sdk(served, inputs, outputs).toml(),
        f"flowunit/{infer.name}/{infer.name}.toml": infer.toml(),
    }
    if photo is None:
        return texts
    labels = {spec.name: list(spec.labels) for spec in served.outputs if spec.labels}
    names = [spec.name for spec in served.outputs]
    own = {"tensor": ([Port("values")], [Port("tensor")])}
    own["finish"] = ([*map(Port, names)], [Port("reply")])
    given = {"channels_first": photo.channels_first, "outputs": names, "labels": labels}
    for kind, (takes, gives) in own.items():
        name = f"{unit}_{kind}"
        made = _python_unit(name, kind.title(), takes, gives)
        texts[f"flowunit/{name}/{name}.toml"] = made.toml()
        texts[f"flowunit/{name}/{name}.py"] = _filled(f"{kind}.py", given)
    texts[f"graph/{unit}_http.toml"] = _of_pictures(served, photo).toml()
    return texts


def _inference(served: Served) -> Unit:
    """The unit that runs the model."""
    engine, rows = _engine(served), _rows(served)
    config: dict[str, Any] = {"multi_batch_in_buffer": not rows}
    if engine.virtual_type == "tensorrt":
        config = {"onnx_opt_batch_size": max(rows, 1), "onnx_max_batch_size": max(rows, 1)}
    base = {
        "device": engine.device,
        "version": f"{served.request.version}.0.0",
        "description": f"runs {served.name}",
        "entry": f"./{served.file}",
        "type": "inference",
        "virtual_type": engine.virtual_type,
        "group_type": "Inference",
    }
    inputs, outputs = (
        [Port(spec.name, _TYPES[engine.types[spec.dtype]]) for spec in specs]
        for specs in (served.inputs, served.outputs)
    )
    return Unit(f"{_unit(served)}_infer", base, inputs, outputs, config)


def _python_unit(name: str, of: str, inputs: list[Port], outputs: list[Port]) -> Unit:
    """A unit in Python, which gets buffers with errors too."""
    kinds = dict.fromkeys(("stream", "condition", "collapse", "collapse_all", "expand"), False)
    base = {"device": "cpu", "version": "1.0.0", "description": name, "entry": f"{name}@{of}"}
    return Unit(
        name, {**base, "type": "python", **kinds, "exception_visible": True}, inputs, outputs
    )


def _by_the_sdk(served: Served, inputs: dict[str, str], outputs: dict[str, str]) -> Graph:
    """Inputs, the model, outputs."""
    graph = Graph(served.name, f"{served.name}, by the SDK")
    infer = f"{_unit(served)}_infer"
    for node in inputs.values():
        graph.node(node, type="input")
    _infers(graph, served)
    for node in outputs.values():
        graph.node(node, type="output")
    for name, node in inputs.items():
        graph.edge((node,), (infer, name))
    for name, node in outputs.items():
        graph.edge((infer, name), (node,))
    return graph


def _of_pictures(served: Served, photo: Preparation) -> Graph:
    """From a request, which is a picture's file, to its answer."""
    unit, (height, width) = _unit(served), photo.size
    graph = Graph(f"{served.name}_http", f"{served.name}, of pictures over HTTP")
    pairs = [*zip(photo.mean, photo.std, strict=True)]
    milliseconds = served.request.request_timeout * 1000
    graph.unit(
        "httpserver_sync_receive", endpoint=_ENDPOINT + unit, max_requests=100,
        time_out_ms=milliseconds,
    )  # fmt: skip
    graph.unit("image_decoder", pix_fmt=photo.color)
    way = {"nearest": "inter_nearest", "bicubic": "inter_cubic"}.get(photo.interpolation)
    graph.unit(
        "resize", image_width=width, image_height=height, interpolation=way or "inter_linear"
    )
    graph.unit("packed_planar_transpose")
    graph.unit("mean", mean=_listed(mean / photo.scale for mean, _ in pairs))
    graph.unit("normalize", standard_deviation_inverse=_listed(photo.scale / s for _, s in pairs))
    graph.unit(f"{unit}_tensor")
    _infers(graph, served)
    graph.unit(f"{unit}_finish")
    graph.unit("httpserver_sync_reply", content_type="json")
    graph.chain("httpserver_sync_receive", "image_decoder", "resize", "packed_planar_transpose")
    graph.chain("packed_planar_transpose", "mean", "normalize")
    graph.edge(("normalize", "out_data"), (f"{unit}_tensor", "values"))
    graph.edge((f"{unit}_tensor", "tensor"), (f"{unit}_infer", served.inputs[0].name))
    for spec in served.outputs:
        graph.edge((f"{unit}_infer", spec.name), (f"{unit}_finish", spec.name))
    graph.edge((f"{unit}_finish", "reply"), ("httpserver_sync_reply", "in_reply_info"))
    return graph


def _infers(graph: Graph, served: Served) -> None:
    """The node that runs the model."""
    batch = max(_rows(served), 1)
    device = _engine(served).device
    queue = max(_QUEUE, 2 * batch)
    graph.unit(f"{_unit(served)}_infer", device, batch_size=batch, queue_size=queue)


def _engine(served: Served) -> Engine:
    return _ENGINES[served.artifact.target]


def _rows(served: Served) -> int:
    """How many buffers are a batch, each a row of it; 0 where a buffer is a whole input."""
    return served.max_batch or fixed_batch((*served.inputs, *served.outputs), served.request)


def _pictured(served: Served) -> Preparation | None:
    """How a picture's file becomes the only input by ModelBox's units, which have three colours."""
    if len(served.inputs) != 1:
        return None
    photo = preparation_of(served.inputs[0], served.request)
    return photo if photo is not None and photo.color != "gray" else None


def _unit(served: Served) -> str:
    """The model's name as files of Python and URLs have it."""
    return re.sub(r"\W", "_", served.name, flags=re.ASCII)


def _listed(numbers: Any) -> str:
    return ", ".join(f"{number:.8g}" for number in numbers)


def _filled(name: str, values: Mapping[str, Any]) -> str:
    return render(__package__, f"{name}.j2", values, literal=_literal)


def _literal(value: Any) -> str:
    return pprint.pformat(value, width=96, sort_dicts=False)
