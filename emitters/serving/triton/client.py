"""The two files for people in a Triton model folder: ``client.py`` and ``README.md``.

Triton looks at neither: in a model's folder it reads ``config.pbtxt``, the files that this
names, and folders.
"""

from __future__ import annotations

import json
import pprint
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from converter.check.shipping import Shipped
from converter.text.markup import shown
from emitters.packaging.photos import Preparation
from emitters.packaging.texts import code_of, texts_of
from emitters.serving.triton.config import MODEL_FILE, Port
from emitters.serving.triton.releases import LAST_WITH, MATRIX, NEWEST, releases_with
from emitters.serving.triton.warmup import FOLDER, Tensor
from emitters.templates import render

RELEASES = {20: ("24.04", "1.17"), 21: ("24.05", "1.18")}
"""By opset: the oldest Triton release in the table "ONNX Runtime Versions" of Triton's
``docs/introduction/compatibility.md`` (its first row is 24.04, with ONNX Runtime 1.17.3) whose
ONNX Runtime takes it, and that ONNX Runtime (its compatibility page, "ONNX opset support")."""

_LITERT = (
    NEWEST,
    "any release with the Python backend works if its Python has LiteRT and a numpy that the "
    "backend takes: run `pip install ai-edge-litert 'numpy<2'` in an image made from it.",
)

_FRAMEWORKS = {
    "pytorch": (
        NEWEST,
        "any release with the pytorch backend works if its PyTorch reads the file: it shouldn't be "
        "much older than the PyTorch that wrote the file.",
    ),
    "tensorflow": (
        LAST_WITH["tensorflow"],
        "one with the tensorflow backend, which newer releases don't have, and with a "
        "TensorFlow that reads the folder.",
    ),
}

CACHE_NOTE = "loads the model too, but computes every answer anew."

_ALONE = {"sequence_id": 1, "sequence_start": True, "sequence_end": True}
"""A sequence of a single request."""

_CURL_VALUES = 32  # as many as still fit into a line for a shell
_NO_JSON = ("TYPE_FP16", "TYPE_BF16")  # Triton takes these as raw bytes only


@dataclass(frozen=True)
class Facts:
    """What the two files say.

    Attributes:
        example: The first warm-up request; empty where there is none.
        decisions: What was chosen and why, a line each.
        model_file: What the version's folder holds: an ONNX file or an engine.
        deferred: Whether an engine is still to be built there.
        tensorrt: Version of the TensorRT that built the engine; empty for an ONNX file.
        verified: Whether the script can compare the engine with the source's outputs.
        shipped: The samples that go along; None outside of a run.
        litert: Whether the Python backend runs a TFLite file.
        steps: The first sequence's, where requests belong to sequences.
        state_files: Whether states start at what files hold.
        framework: What a framework's own file is: ``TorchScript file``; empty for others.
        backend: The backend that runs the model.
        photo: How a photo becomes the only input, where one does.
    """

    name: str
    version: int
    opset: int
    weights: str | None
    max_batch: int
    inputs: Sequence[Port]
    outputs: Sequence[Port]
    example: Sequence[Tensor]
    warmups: int
    gpu: bool
    cache: bool
    decisions: Sequence[str]
    model_file: str = MODEL_FILE
    deferred: bool = False
    tensorrt: str = ""
    verified: bool = False
    shipped: Shipped | None = None
    litert: bool = False
    steps: Sequence[Sequence[Tensor]] = ()
    state_files: bool = False
    framework: str = ""
    backend: str = ""
    photo: Preparation | None = None

    @property
    def texts(self) -> dict[str, Any]:
        """How a text becomes the inputs, where one does."""
        shipped = self.shipped.texts if self.shipped else {}
        return texts_of([port.spec for port in self.inputs], shipped) if shipped else {}


def write_files(folder: Path, facts: Facts) -> None:
    """Writes ``client.py`` and ``README.md`` into the model's folder."""
    (folder / "client.py").write_text(_client(facts), encoding="utf-8")
    (folder / "README.md").write_text(_readme(facts), encoding="utf-8")


def kserve_type(triton_type: str) -> str:
    """The name in requests of a type in configurations: ``TYPE_STRING`` is ``BYTES`` there."""
    return triton_type.removeprefix("TYPE_").replace("STRING", "BYTES")


def _client(facts: Facts) -> str:
    examples = {tensor.port.spec.name: tensor for tensor in facts.example}
    inputs = [_input_entry(port, examples.get(port.spec.name)) for port in facts.inputs]
    outputs = [
        {
            "name": port.spec.name,
            "datatype": kserve_type(port.type),
            "labels": port.label_file,
            **({"activation": port.spec.activation} if _scored(port) else {}),
        }
        for port in facts.outputs
    ]
    values = {
        "name": facts.name,
        "name_literal": json.dumps(facts.name),
        "max_batch": facts.max_batch,
        "scored": any(map(_scored, facts.outputs)),
        "labelled": any(port.label_file for port in facts.outputs),
        "photo": facts.photo.python("The input").rstrip() + "\n" if facts.photo else "",
        "texts": facts.texts,
        "text_code": code_of(facts.texts).rstrip() + "\n",
        "text_inputs": pprint.pformat(facts.texts.get("inputs"), width=100, sort_dicts=False),
        "inputs": pprint.pformat(inputs, width=100, sort_dicts=False),
        "outputs": pprint.pformat(outputs, width=100, sort_dicts=False),
        "steps": pprint.pformat(list(map(_step, facts.steps)), width=100) if facts.steps else "",
    }
    return render("emitters.serving.triton", "client.py.j2", values, trim=False)


def _scored(port: Port) -> bool:
    """Whether the values of an element are scores of which probabilities can be made."""
    return bool(port.spec.activation and port.label_file and port.spec.is_float)


def _step(tensors: Sequence[Tensor]) -> dict[str, Any]:
    return {
        tensor.port.spec.name: {"file": f"{FOLDER}/{tensor.file}", "shape": list(tensor.dims)}
        for tensor in tensors
    }


def _input_entry(port: Port, example: Tensor | None) -> dict[str, Any]:
    found = None
    if example:
        found = {"file": f"{FOLDER}/{example.file}", "shape": list(example.dims)}
    return {
        "name": port.spec.name,
        "datatype": kserve_type(port.type),
        "shape": list(port.dims),
        "example": found,
    }


def _readme(facts: Facts) -> str:
    release, why = _engine_release(facts) if facts.tensorrt else _release(facts.opset)
    if facts.litert:
        release, why = _LITERT
    elif facts.framework:
        release, why = _FRAMEWORKS[facts.backend]
    ports = [("input", port) for port in facts.inputs]
    ports += [("output", port) for port in facts.outputs]
    values = {
        **vars(facts),
        "starts": facts.state_files,
        "label_files": sorted({port.label_file for port in facts.outputs if port.label_file}),
        "release": release,
        "release_why": why,
        "cache_note": CACHE_NOTE,
        "curl": _curl(facts),
        "gates": facts.shipped.gates if facts.shipped else {},
        "sent": _sent(facts),
        "texts": bool(facts.texts),
        "photos": facts.photo is not None,
        "first_input": shlex.quote(facts.inputs[0].spec.name) if facts.inputs else "NAME",
        "table": [
            (kind, port.spec.name.replace("|", "\\|"), port.type, _shape(port, facts.max_batch))
            for kind, port in ports
        ],
    }
    return render("emitters.serving.triton", "readme.md.j2", values, trim=False, finalize=shown)


def _engine_release(facts: Facts) -> tuple[str, str]:
    """A plan loads in the very version of TensorRT that built it."""
    known = releases_with(facts.tensorrt)
    if known:
        return known[0].release, (
            f"the engine was built by TensorRT {facts.tensorrt}, and this release has the same "
            f"({known[0].source})."
        )
    return f"the one with TensorRT {facts.tensorrt}", (
        f"the engine was built by TensorRT {facts.tensorrt}, and only loads in that version. "
        f"{MATRIX} lists the versions of each release."
    )


def _release(opset: int) -> tuple[str, str]:
    known = [(name, runtime) for newest, (name, runtime) in RELEASES.items() if opset <= newest]
    if not known:
        return "the newest", f"its ONNX Runtime has to take opset {opset}."
    name, runtime = known[0]
    return NEWEST, (
        f"this model needs ONNX Runtime {runtime} or newer, which releases from {name} on have, by "
        "the table of ONNX Runtime versions in Triton's `docs/introduction/compatibility.md`; its "
        f"newest is {NEWEST}. Its makers say that newer ones refuse requests that end older ones."
    )


def _shape(port: Port, max_batch: int) -> str:
    dims = [str(dim) if dim > 0 else "any" for dim in port.dims]
    if max_batch:
        dims.insert(0, f"1..{max_batch}")
    return "[" + ", ".join(dims) + "]"


def _curl(facts: Facts) -> str:
    """A request by hand where it fits into a line: few values, all of types that JSON has."""
    sizes = [[1 if dim < 0 else dim for dim in port.dims] for port in facts.inputs]
    counts = [_product(size) for size in sizes]
    if sum(counts) > _CURL_VALUES or any(port.type in _NO_JSON for port in facts.inputs):
        return ""
    inputs = [
        {
            "name": port.spec.name,
            "shape": [1, *size] if facts.max_batch else size,
            "datatype": kserve_type(port.type),
            "data": [_zero(port.type)] * count,
        }
        for port, size, count in zip(facts.inputs, sizes, counts, strict=True)
    ]
    said = {"parameters": _ALONE} if facts.steps else {}
    body = json.dumps({"inputs": inputs, **said}).replace("'", "'\\''")
    return f"curl localhost:8000/v2/models/{facts.name}/infer -d '{body}'"


def _sent(facts: Facts) -> str:
    """The file of the first sample where its bytes are a whole request."""
    alone = len(facts.example) == 1 and not facts.steps
    return f"{FOLDER}/{facts.example[0].file}" if alone else ""


def _product(size: Sequence[int]) -> int:
    total = 1
    for dim in size:
        total *= dim
    return total


def _zero(triton_type: str) -> object:
    if triton_type == "TYPE_BOOL":
        return False
    if triton_type == "TYPE_STRING":
        return ""
    return 0.0 if triton_type.startswith("TYPE_FP") else 0
