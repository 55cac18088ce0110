"""Packages an artifact as a model folder for the Triton Inference Server.

What goes where in the folder is the server's ``docs/user_guide/model_repository.md``; what the
configuration says is made in :mod:`emitters.serving.triton_config`.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from converter.errors import InternalError, UsageError, from_os_error
from converter.ir import Model, TensorSpec
from converter.ort import OrtSession
from converter.plugins import Artifact, Packaged
from converter.request import Request
from converter.samples import Samples
from emitters.serving.triton_batching import choose_max_batch
from emitters.serving.triton_client import Facts, write_files
from emitters.serving.triton_config import (
    CONFIG_NAME,
    MODEL_FILE,
    build_config,
    make_ports,
    model_parameters,
    require_ports,
    require_types,
    with_labels,
    write_config,
)
from emitters.serving.triton_labels import choose_labels, name_files, write_file
from emitters.serving.triton_repository import publish_model
from emitters.serving.triton_validate import validate_folder, version_numbers
from emitters.serving.triton_warmup import Tensor, batch_sizes, collect, fill_config
from emitters.serving.triton_warmup import write_files as write_warmup

_NAME = re.compile(r"[^A-Za-z0-9_.-]+")


class TritonServer:
    """Model folders for Triton: configuration, model, labels, warm-up, client."""

    name = "triton"
    extra: str | None = None
    accepts: Sequence[str] = ("onnx",)

    def package(
        self, artifact: Artifact, model: Model, samples: Samples, request: Request, folder: Path
    ) -> Packaged:
        """Writes ``<folder>/<name>/{config.pbtxt, <version>/model.onnx, ...}`` and reads it back.

        The bytes written depend on the arguments alone.

        Raises:
            UsageError: A serving option doesn't fit the model, a sample doesn't fit it, or the
                folder is in the way.
            UnsupportedError: Inputs or outputs that Triton can't take; all of them.
            ModelError: ONNX Runtime refuses the artifact.
            InternalError: What was written doesn't pass :func:`validate_folder`.
            MachineError: The disk is full.
        """
        package = _Package(artifact, model, samples, request)
        try:
            path = package.write(folder)
        except OSError as error:
            raise from_os_error(error, "writing the Triton model folder") from error
        problems = validate_folder(path)
        if problems:
            raise InternalError("the Triton model folder is not as it should be", details=problems)
        return Packaged(self.name, path, package.details(), list(package.decisions))

    def check(self, model: Model, request: Request) -> None:
        """Refuses what can be known before anything is converted.

        Raises:
            UsageError: A serving option is wrong in itself, or contradicts another.
            UnsupportedError: Inputs or outputs that Triton can't take; all of them.
        """
        require_types(model.inputs, model.outputs)
        sizes = [size for size in (request.max_batch, *request.preferred_batch) if size is not None]
        build_config("any", (), (), max([8, *sizes]), request)

    def publish(self, packaged: Packaged, repository: Path) -> Path:
        """Adds the package to a repository, at its next version; gives the version's folder.

        What was decided on the way is added to ``packaged.decisions``.

        Raises:
            UsageError: The repository holds a model of this name that has no configuration or
                another interface, or it can't be written.
            MachineError: The disk is full.
        """
        (version,) = version_numbers(packaged.path)
        path, notes = publish_model(packaged.path, version, repository)
        packaged.decisions += notes
        return path


class _Package:
    """One model folder: everything is decided first, then written."""

    def __init__(
        self, artifact: Artifact, model: Model, samples: Samples, request: Request
    ) -> None:
        if artifact.target not in TritonServer.accepts:
            raise UsageError(
                f"Triton can't serve a {artifact.target} artifact",
                hint=f"It serves: {', '.join(TritonServer.accepts)}.",
            )
        if request.version < 1:
            raise UsageError(f"--version {request.version}: versions start at 1")
        self.decisions: list[str] = []
        self.artifact = artifact
        self.opset = artifact.details.get("opset", model.opset)
        self.request = request
        self.name = self._choose_name()
        self._choose_interface(model, samples)
        self._choose_warmup(samples)
        self.config = build_config(self.name, self.inputs, self.outputs, self.max_batch, request)
        self.sizes = batch_sizes(self.max_batch, request.preferred_batch) or [1]
        fill_config(self.config, self.warmups, self.sizes)
        self.decisions += _option_notes(self.config, request)

    def _choose_name(self) -> str:
        wanted = self.request.name or Path(self.request.source).stem
        name = _NAME.sub("_", wanted).strip("._-")
        if not name:
            raise UsageError(
                f"{wanted!r} is no name for a Triton model",
                hint="Give one of letters, digits, '_', '.' and '-' with --name.",
            )
        if name != wanted:
            self.decisions.append(
                f"name {name}: {wanted!r} holds what a folder, or a URL, of Triton's can't"
            )
        return name

    def _choose_interface(self, model: Model, samples: Samples) -> None:
        """Inputs and outputs with ONNX Runtime's shapes and the model's meanings."""
        require_types(model.inputs, model.outputs)
        session = OrtSession(self.artifact.path, threads=self.request.threads, prepack=False)
        inputs = [_with_meaning(spec, model.inputs) for spec in session.inputs]
        outputs = [_with_meaning(spec, model.outputs) for spec in session.outputs]
        require_ports(inputs, outputs)
        self.max_batch, why = choose_max_batch(model, session, samples, self.request)
        session.close()
        self.decisions.append(why)
        batched = self.max_batch > 0
        self.labels, notes = choose_labels(outputs, samples.label_names, batched=batched)
        self.decisions += notes
        files = name_files(self.labels)
        self.inputs = make_ports(inputs, batched=batched)
        self.outputs = [
            with_labels(port, files.get(port.spec.name))
            for port in make_ports(outputs, batched=batched)
        ]

    def _choose_warmup(self, samples: Samples) -> None:
        count = self.request.warmup
        batched = self.max_batch > 0
        self.warmups: list[list[Tensor]] = collect(self.inputs, samples, count, batched=batched)
        if not self.warmups:
            why = "asked for by --warmup 0" if count == 0 else "there are no samples"
            self.decisions.append(f"no warm-up: {why}")
        elif samples.random:
            self.decisions.append(f"warm-up with made-up data: {samples.origin}")
        if 0 < len(self.warmups) < count:
            self.decisions.append(f"warm-up with {len(self.warmups)} samples: there are no more")

    def write(self, folder: Path) -> Path:
        """Writes the model's folder; gives its path."""
        path = folder / self.name
        if path.exists():
            raise UsageError(
                f"{path.name} is in the way: the folder to package into holds it already",
                hint="Serve one precision at a time, or choose another --name.",
            )
        version = path / str(self.request.version)
        version.mkdir(parents=True)
        for file in self.artifact.files:
            main = file == self.artifact.path
            _link_or_copy(file, version / (MODEL_FILE if main else file.name))
        for port in self.outputs:
            if port.label_file:
                write_file(path / port.label_file, self.labels[port.spec.name])
        write_warmup(path, self.warmups)
        write_files(path, self._facts())
        (path / CONFIG_NAME).write_text(write_config(self.config), encoding="utf-8")
        return path

    def _facts(self) -> Facts:
        weights = [file.name for file in self.artifact.files if file != self.artifact.path]
        return Facts(
            name=self.name,
            version=self.request.version,
            opset=self.opset,
            weights=weights[0] if weights else None,
            max_batch=self.max_batch,
            inputs=self.inputs,
            outputs=self.outputs,
            example=self.warmups[0] if self.warmups else [],
            warmups=len(self.config.model_warmup),
            gpu=self.request.instance_kind != "cpu",
            cache=self.request.response_cache,
            decisions=self.decisions,
        )

    def details(self) -> dict[str, Any]:
        """For the report."""
        return {
            "model": self.name,
            "backend": self.config.backend,
            "version": self.request.version,
            "max_batch": self.max_batch,
            "dynamic_batching": self.config.HasField("dynamic_batching"),
            "instances": self.request.instances,
            "instance_kind": self.request.instance_kind,
            "warmups": [entry.name for entry in self.config.model_warmup],
            "labels": {name: len(labels) for name, labels in self.labels.items()},
        }


def _with_meaning(spec: TensorSpec, known: Sequence[TensorSpec]) -> TensorSpec:
    for item in known:
        if item.name == spec.name:
            return replace(item, dtype=spec.dtype, shape=spec.shape)
    return spec


def _option_notes(config: Any, request: Request) -> list[str]:
    """What the configuration says of the options, and why, where it isn't plain."""
    notes = []
    if config.HasField("dynamic_batching"):
        sizes = ", ".join(map(str, config.dynamic_batching.preferred_batch_size))
        which = f"sizes {sizes} preferred" if sizes else "no size preferred (as Triton advises)"
        notes.append(f"dynamic batching: {which}, waiting at most {request.queue_delay} us")
    elif request.dynamic_batching:
        notes.append("no dynamic batching: max_batch_size is below 2")
    if request.response_cache:
        notes.append("response cache: the server has to be started with --cache-config")
    if request.threads and "intra_op_thread_count" not in request.parameters:
        count = model_parameters(request)["intra_op_thread_count"]
        notes.append(f"intra_op_thread_count {count}: from --threads, as latency was measured")
    return notes


def _link_or_copy(source: Path, target: Path) -> None:
    """A hard link where the file system has them, which saves the weights' space."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


__all__ = ["TritonServer", "validate_folder"]
