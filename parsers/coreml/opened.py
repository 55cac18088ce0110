"""A Core ML file that was opened: its protobuf, and what kind of model it holds.

Read are ML programs, neural networks, and pipelines of these and of :data:`SMALL`. The other kinds
(``Model.proto`` lists them) are no graphs of tensors.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from converter.errors import ModelError, Unsupported, UnsupportedError, UsageError, from_os_error
from modelyard.containers.coreml import Package, coremltools, find_parts

PROGRAM = "mlProgram"
NETWORKS = ("neuralNetwork", "neuralNetworkClassifier", "neuralNetworkRegressor")

PIPELINES = ("pipeline", "pipelineClassifier", "pipelineRegressor")
SMALL = ("nonMaximumSuppression", "scaler", "featureVectorizer", "arrayFeatureExtractor",
         "glmRegressor", "glmClassifier", "treeEnsembleRegressor",
         "treeEnsembleClassifier")  # fmt: skip
"""The kinds that are read besides graphs of tensors, each as a pipeline of one."""

_READ = (PROGRAM, *NETWORKS, *PIPELINES, *SMALL)
_APART = "Convert the models around it one by one."
_NOT_TENSORS = "Read are ML programs, neural networks, linear models, trees, and pipelines of them."


@dataclass(frozen=True)
class Opened:
    """A file's contents.

    Attributes:
        name: The file's, or the package's.
        parts: Where its parts lie.
        spec: The ``Model`` message.
        kind: Which of the kinds it holds, as ``Model.proto`` calls it.
    """

    name: str
    parts: Package
    spec: Any
    kind: str

    @property
    def network(self) -> Any:
        """The message of a neural network, whichever of the three kinds it is."""
        return getattr(self.spec, self.kind)

    @property
    def stages(self) -> list[Opened]:
        """The models of a pipeline, in order; itself of what is no graph; none of another."""
        if self.kind not in PIPELINES:
            return [self] if self.kind in SMALL else []
        content = getattr(self.spec, self.kind)
        pipeline = content if self.kind == "pipeline" else content.pipeline
        names = [*pipeline.names, *map(str, range(len(pipeline.names), len(pipeline.models)))]
        return [
            Opened(name, self.parts, spec, spec.WhichOneof("Type") or "nothing")
            for name, spec in zip(names, pipeline.models, strict=False)
        ]

    @property
    def functions(self) -> Sequence[str]:
        """The functions of a program, by name; none of a neural network."""
        return sorted(self.spec.mlProgram.functions) if self.kind == PROGRAM else []

    def function(self, wanted: str | None) -> str:
        """The program's function that is wanted, or the one that is used unless told.

        Raises:
            UsageError: It has no such function, or several and none is wanted.
        """
        names = self.functions
        default = self.spec.description.defaultFunctionName or "main"
        found = wanted or (names[0] if len(names) == 1 else default)
        if found in names:
            return found
        raise UsageError(
            f"{self.name} has no function {found}"
            if wanted
            else f"{self.name} has {len(names)} functions, and none of them is the default",
            code="choose-one",
            hint="Choose one: --signature NAME.",
            details=names,
        )

    def description(self, function: str | None) -> Any:
        """What it says of its inputs and outputs: of a function where it has several."""
        told = self.spec.description
        for candidate in told.functions:
            if candidate.name == function:
                return candidate
        return told


def open_file(path: Path) -> Opened:
    """Opens a package or an ``.mlmodel``.

    Raises:
        UsageError: It isn't there or can't be read.
        ModelError: It is damaged, encrypted or compiled.
        UnsupportedError: It is of a kind that isn't read.
    """
    _refuse_compiled(path)
    parts = find_parts(path)
    spec = _decoded(parts, path.name)
    kind = spec.WhichOneof("Type")
    if kind is None:
        raise _unreadable(parts, path.name)
    if kind not in _READ:
        item = Unsupported(
            "", words(kind), "Modelyard doesn't read this kind of model", _NOT_TENSORS
        )
        raise UnsupportedError(f"{path.name} holds {_article(words(kind))}", [item])
    opened = Opened(path.name, parts, spec, kind)
    _require_stages(opened)
    return opened


def refuse_garbage(path: Path) -> None:
    """Refuses what a look tells is no model, without the library.

    Raises:
        UsageError: It isn't there or can't be read.
        ModelError: It is compiled, damaged, or doesn't begin with its format's version, as what
            every protobuf library writes does.
    """
    _refuse_compiled(path)
    parts = find_parts(path)
    try:
        with parts.model.open("rb") as file:
            if file.read(1) != b"\x08":
                raise _unreadable(parts, path.name)
    except OSError as error:
        raise from_os_error(error, f"reading {path.name}") from error


def _refuse_compiled(path: Path) -> None:
    if path.suffix == ".mlmodelc" or (path / "coremldata.bin").is_file():
        encrypted = (path / "encryptionInfo").exists()
        raise ModelError(
            f"{path.name} is a compiled model" + (", and encrypted" if encrypted else ""),
            code="unknown-format",
            hint="Name the .mlpackage or .mlmodel that it was compiled from.",
        )


def _decoded(parts: Package, name: str) -> Any:
    coremltools()
    from coremltools.proto import Model_pb2
    from google.protobuf.message import DecodeError

    try:
        return Model_pb2.Model.FromString(parts.model.read_bytes())
    except OSError as error:
        raise from_os_error(error, f"reading {name}") from error
    except DecodeError as error:
        raise _unreadable(parts, name) from error


def _unreadable(parts: Package, name: str) -> ModelError:
    return ModelError(
        f"{name} is damaged, encrypted, or not a Core ML model: {parts.model.name} can't be "
        "decoded",
        code="model-damaged",
        hint="Only Apple's systems can read an encrypted model, for the team that it was made for.",
    )


def _require_stages(opened: Opened) -> None:
    """Refuses a pipeline with models that aren't read, each of them by its name."""
    if opened.kind not in PIPELINES:
        return
    stages, able = opened.stages, (PROGRAM, *NETWORKS, *SMALL)
    items = [
        Unsupported(stage.name, words(stage.kind), f"model {index} of a pipeline", _APART)
        for index, stage in enumerate(stages, 1)
        if stage.kind not in able
    ]
    if not stages:
        items = [Unsupported("", "pipeline", "it is empty")]
    if items:
        said = f"{opened.name} holds a pipeline of {len(stages)} models, not all of which are read"
        raise UnsupportedError(said, items)


def words(kind: str) -> str:
    """``treeEnsembleClassifier`` as ``tree ensemble classifier``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", kind).lower().replace("glm", "linear")


def _article(words: str) -> str:
    return f"an {words}" if words[0] in "aeiou" else f"a {words}"
