"""The model that takes users' files in Triton, in front of the one that takes tensors.

With ``--prepare server`` a package is two model folders beside each other: ``NAME_model`` is what
is written without it, and ``NAME``, which this module writes, a model of Triton's Python backend
(:mod:`emitters.serving.triton.front_model`) that prepares a file, asks ``NAME_model`` inside the
server (its "business logic scripting") and answers in JSON. An ensemble of a stage before the
model and one behind it was measured beside it, and came out lower: docs/serving.md.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from tritonclient.grpc import model_config_pb2 as schema

from converter.check.shipping import Shipped
from converter.errors import UsageError
from converter.preparation.declared import Declaration
from converter.preparation.inputs import file_kind
from converter.protocols.server import Packaged
from converter.text.markup import shown
from emitters.packaging.stages import (
    needs_of,
    require_declared,
    stages_facts,
    write_stages,
)
from emitters.serving.triton.config import CONFIG_NAME, Port, write_config
from emitters.serving.triton.folder import Folder
from emitters.serving.triton.front_files import BACKEND, CALLS, CODE
from emitters.serving.triton.request import TritonRequest, choose_name
from emitters.templates import render

SUFFIX = "_model"
DOCKERFILE = "Dockerfile"
_BF16 = "TYPE_BF16"
_EXAMPLES = {"picture": "cat.jpg", "sound": "talk.wav", "text": "sentence.txt", "row": "rows.csv"}


@dataclass(frozen=True)
class Front:
    """The model in front.

    Attributes:
        name: What users call it.
        declared: How files become inputs, and outputs answers.
        request: What was asked for.
    """

    name: str
    declared: Declaration
    request: TritonRequest

    @classmethod
    def of(cls, request: TritonRequest, shipped: Shipped | None) -> Front | None:
        """The one that is asked for; None without ``--prepare server``.

        Raises:
            UsageError: Nothing says how files become the model's inputs.
        """
        if request.prepare != "server":
            return None
        declared = require_declared(shipped.declared if shipped else None)
        return cls(choose_name(request), declared, request)

    @property
    def inner(self) -> TritonRequest:
        """What is asked of the model behind it."""
        return replace(self.request, name=self.name + SUFFIX)

    def write(self, folder: Path, package: Folder, image: str) -> Path:
        """Writes ``<folder>/<name>`` beside the model that it asks; gives its path.

        Args:
            folder: The repository.
            package: What was written there: the model behind.
            image: The container that has what the model behind needs; empty where none is known.

        Raises:
            UsageError: The folder is in the way, or the model takes or gives bfloat16.
            OSError: It can't be written.
        """
        path = folder / self.name
        if path.exists():
            raise UsageError(
                f"{path.name} is in the way: the package folder already holds it",
                code="output-in-the-way",
                hint="Serve one precision at a time, or choose another --name.",
            )
        _require_types(package)
        version = path / str(self.request.version)
        version.mkdir(parents=True)
        ports = ([*package.inputs], [*package.outputs])
        named = [[replace(p.spec, name=package.own_name(p.spec.name)) for p in of] for of in ports]
        facts = stages_facts(self.declared, *named)
        write_stages(version, {**facts, "model": _called(package)})
        code = files(__package__).joinpath("front_model.py").read_text(encoding="utf-8")
        (version / CODE).write_text(code, encoding="utf-8")
        needed = needs_of(self.declared)
        if needed and image:
            lines = f"FROM {image}\nRUN pip install --no-cache-dir {shlex.join(needed)}\n"
            (path / DOCKERFILE).write_text(lines, encoding="utf-8")
        (path / "README.md").write_text(self._readme(package, needed, image), encoding="utf-8")
        (path / CONFIG_NAME).write_text(write_config(self._config()), encoding="utf-8")
        return path

    def describe(self, packaged: Packaged, behind: Path) -> Packaged:
        """A package with what is known of this model, and of the one behind it."""
        version = packaged.path / str(self.request.version)
        packaged.details = {**packaged.details, "model": self.name, "asks": behind.name}
        packaged.decisions += [
            f"{self.name} takes files, prepares them, and asks {behind.name}, which takes tensors: "
            "serve both folders"
        ]
        packaged.assets = [behind, version]
        return packaged

    def _config(self) -> Any:
        config = schema.ModelConfig(name=self.name, backend=BACKEND)
        for entry, name in ((config.input.add(), "file"), (config.output.add(), "answer")):
            entry.name, entry.data_type = name, schema.DataType.TYPE_STRING
            entry.dims.append(1)
        config.version_policy.latest.num_versions = 1
        kind = schema.ModelInstanceGroup.Kind.KIND_CPU
        config.instance_group.add(count=self.request.instances, kind=kind)
        config.parameters[CALLS].string_value = self.name + SUFFIX
        return config

    def _readme(self, package: Folder, needed: Sequence[str], image: str) -> str:
        kind = next(kind for kind in map(file_kind, self.declared.prepare) if kind in _EXAMPLES)
        values = {
            "name": self.name,
            "model": package.name,
            "version": self.request.version,
            "kinds": [kind for kind in map(file_kind, self.declared.prepare) if kind in _EXAMPLES],
            "answers": [item.kind for item in self.declared.answer],
            "file": _EXAMPLES[kind],
            "text": kind == "text",
            "needs": needed,
            "image": image or "nvcr.io/nvidia/tritonserver:RELEASE-py3",
            "dockerfile": bool(needed and image),
        }
        return render("emitters.serving.triton", "front.md.j2", values, finalize=shown)


def _called(package: Folder) -> dict[str, Any]:
    """What ``stages.json`` says of the model behind: its name, how many rows it takes at once (None
    for any), and its inputs and outputs by the model's own names."""
    first = ((package.inputs[0].spec.shape or ()) + (None,))[0]
    return {
        "name": package.name,
        "batched": package.max_batch > 1,
        "rows": package.max_batch or (first if isinstance(first, int) else None),
        "inputs": {package.own_name(p.spec.name): _port(p) for p in package.inputs},
        "outputs": {package.own_name(p.spec.name): _port(p) for p in package.outputs},
    }


def _port(port: Port) -> dict[str, Any]:
    return {"name": port.spec.name, "rank": len(port.spec.shape or ()), "scalar": port.scalar}


def require(request: TritonRequest) -> None:
    """Refuses what a model in front can't go with.

    Raises:
        UsageError: The server is to keep states, or to join what isn't padded.
    """
    named = {"--sequence, --state": request.sequence or request.states, "--ragged": request.ragged}
    for option, given in named.items():
        if given and request.prepare == "server":
            raise UsageError(
                f"{option} can't be used with --prepare server, which sends whole batches",
                code="option-conflict",
                hint="Leave one of them out.",
            )


def _require_types(package: Folder) -> None:
    bad = [port.spec.name for port in (*package.inputs, *package.outputs) if port.type == _BF16]
    if bad:
        raise UsageError(
            f"--prepare server: {', '.join(bad)} is bfloat16, which NumPy doesn't have",
            code="option-not-applicable",
            hint="Change the type of inputs and outputs: --io-dtype float32.",
        )
