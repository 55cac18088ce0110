"""One Triton model folder: everything is decided first, then written."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from converter.check.feeding import Fed, takes_integers
from converter.check.reference import ReferenceOutputs
from converter.check.shipping import Item, Shipped
from converter.errors import UsageError
from converter.ir.model import Model, TensorSpec
from converter.protocols.emitter import Artifact, Later
from converter.runtime.ort import OrtSession
from converter.runtime.session import Session
from converter.samples import Sample, Samples
from emitters.packaging.photos import Preparation, preparation_of
from emitters.serving.batching import choose_max_batch
from emitters.serving.files import link_or_copy
from emitters.serving.labels import choose_labels, name_files, write_file
from emitters.serving.triton import as_is, litert
from emitters.serving.triton.client import Facts, write_files
from emitters.serving.triton.config import (
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
from emitters.serving.triton.deferred import Deferral, later_of, write_deferral
from emitters.serving.triton.engine import PLAN_FILE, Engine, require_servable
from emitters.serving.triton.packing import first_shipped, pack
from emitters.serving.triton.profiles import describe_profiles, fill_warmup, require_batches
from emitters.serving.triton.ragged import ragged_of
from emitters.serving.triton.releases import describe
from emitters.serving.triton.request import TritonRequest, choose_name, wanted_name
from emitters.serving.triton.scheduling import kind_of
from emitters.serving.triton.scheduling import notes as scheduling_notes
from emitters.serving.triton.sequences import Sequences, sequences_of
from emitters.serving.triton.steps import items_of, with_steps
from emitters.serving.triton.warmup import Tensor, batch_sizes, collect, fill_config
from emitters.serving.triton.warmup import write_files as write_warmup
from emitters.tensorrt.deferred import model_files
from emitters.tensorrt.engine_script.lock import LOCK_NAME

SERVED = ("onnx", "tensorrt", litert.TARGET)


class Folder:
    """One model folder: everything is decided first, then written.

    Args:
        artifact: What is served: an ONNX or TFLite file, an engine, or what an engine is built
            from.
        model: What it was made of.
        samples: What batches are proven on; the warm-up's too.
        request: What was asked for.
        reference: The source's outputs on the samples, for an engine that is still to be built.
        shipped: Samples that go along; None without.
        source: Opens the source, which answers the steps of sequences.
    """

    def __init__(
        self,
        artifact: Artifact,
        model: Model,
        samples: Samples,
        request: TritonRequest,
        reference: ReferenceOutputs | None = None,
        shipped: Shipped | None = None,
        source: Callable[[], Session] | None = None,
    ) -> None:
        self.engine = Engine.of(artifact)
        if artifact.target not in (*SERVED, *as_is.BACKENDS):
            raise UsageError(
                f"Triton can't serve a {artifact.target} artifact",
                code="server-cannot-serve",
                hint=f"It serves: {', '.join((*SERVED, *as_is.BACKENDS))}.",
            )
        if request.version < 1:
            raise UsageError(
                f"--version {request.version}: versions start at 1", code="option-value"
            )
        self.litert = artifact.target == litert.TARGET
        if self.litert:
            litert.require_options(request)
        if self.engine:
            require_servable(model, request)
            request = self.engine.asked(request)
        self.decisions: list[str] = []
        self.warmups: list[list[Tensor]] = []
        self.steps: list[Item] = []
        self.artifact = artifact
        self.model = model
        self.samples = samples
        self.reference = reference
        self.shipped = shipped
        self.source = source
        self.opset = artifact.details.get("opset", model.opset)
        self.request = request
        self.name = self._choose_name()
        self._choose_interface(model, samples)
        self._choose_warmup(samples)
        self.config = self._make_config()
        self.decisions += _option_notes(self.config, request)

    def _make_config(self) -> Any:
        """The configuration of what is served now: the ONNX file, or the engine."""
        engine = self.engine
        if engine is None:
            ports = (self.inputs, self.outputs)
            config = build_config(self.name, *ports, self.max_batch, self.request)
            if self.litert:
                config.backend = litert.BACKEND
            if self.sequences is None:
                fill_config(config, self.warmups, self.sizes)
            return self._completed(config)
        self.request = replace(
            self.request, preferred_batch=engine.preferred(self.request, self.max_batch)
        )
        self.decisions += describe_profiles(engine.profiles)
        if not engine.deferred:
            self._note_releases()
            config, notes = self._engine_config()
            self.decisions += notes
            return config
        config = build_config(self.name, self.inputs, self.outputs, self.max_batch, self.request)
        self.decisions += engine.add_accelerator(config, self.model)
        self.decisions += self._fill_warmup(config, engine)
        return self._completed(config)

    def _fill_warmup(self, config: Any, engine: Engine) -> list[str]:
        if self.sequences is not None:
            return []
        return fill_warmup(config, engine.profiles, self.warmups, self.inputs)

    def _completed(self, config: Any) -> Any:
        """The configuration with the states that the server keeps."""
        if self.sequences is not None:
            self.sequences.fill(config)
        if self.ragged is not None:
            self.ragged.fill(config)
        return config

    def _engine_config(self) -> tuple[Any, list[str]]:
        """The configuration of the engine, built or still to be; what was decided on the way."""
        assert self.engine is not None
        asked = self.engine.for_plan(self.request)
        config = build_config(self.name, self.inputs, self.outputs, self.max_batch, asked)
        self.engine.make_plan_config(config)
        notes = self._fill_warmup(config, self.engine)
        return self._completed(config), notes

    def _note_releases(self) -> None:
        assert self.engine is not None
        self.decisions.append(describe(self.engine.library))
        if self.engine.options.get("version_compatible"):
            self.decisions.append(
                "a version-compatible plan: start the server with "
                "--backend-config=tensorrt,version-compatible=true"
            )

    def _choose_name(self) -> str:
        wanted, name = wanted_name(self.request), choose_name(self.request)
        if name != wanted:
            self.decisions.append(
                f"name {name}: {wanted!r} holds what a folder, or a URL, of Triton's can't"
            )
        return name

    def own_name(self, served: str) -> str:
        """The model's own name of an input or output."""
        return served

    def _choose_interface(self, model: Model, samples: Samples) -> None:
        """Inputs and outputs with ONNX Runtime's shapes and the model's meanings."""
        require_types(model.inputs, model.outputs)
        session = self._open()
        inputs = [_with_meaning(spec, model.inputs) for spec in session.inputs]
        outputs = [_with_meaning(spec, model.outputs) for spec in session.outputs]
        require_ports(inputs, outputs)
        largest = self.engine.largest_batch if self.engine else None
        real = takes_integers(self.request, self.artifact.precision)
        fed = Fed(session, real=real)
        self.ragged = ragged_of(inputs, outputs, self.request)
        if self.ragged is not None:
            self._require_onnx("--ragged")
            self.max_batch, why = self.ragged.largest_batch(fed, samples, self.request)
        else:
            self.max_batch, why = choose_max_batch(model, fed, samples, self.request, largest)
        self.decisions.append(why)
        batched = self.max_batch > 0
        self.whole = (inputs, outputs)
        self.sequences = sequences_of(model, self.whole, samples, self.request, self.max_batch)
        if self.sequences is not None:
            self._choose_steps(self.sequences, samples, fed)
            inputs, outputs = (self.sequences.served(specs) for specs in self.whole)
        if self.ragged is not None:
            inputs = self.ragged.served(inputs)
            self.decisions += self.ragged.notes()
        session.close()
        if self.engine:
            require_batches(self.engine.profiles, self.max_batch)
        self.labels, notes = choose_labels(outputs, samples.label_names, batched=batched)
        self.decisions += notes
        files = name_files(self.labels)
        self.inputs = make_ports(inputs, batched=batched)
        self.outputs = [
            with_labels(port, files.get(port.spec.name))
            for port in make_ports(outputs, batched=batched)
        ]

    def _require_onnx(self, option: str) -> None:
        if self.artifact.target != "onnx":
            raise UsageError(
                f"{option}: Modelyard can't write it for {self.artifact.target} artifacts",
                code="option-not-applicable",
                hint="Serve the ONNX file: --to onnx.",
            )

    def _choose_steps(self, sequences: Sequences, samples: Samples, artifact: Session) -> None:
        """Steps of sequences in the place of samples."""
        source = self.source() if self.source else None
        self.steps, notes = items_of(samples, sequences, self.shipped, source, artifact)
        self.decisions += sequences.notes()
        if self.shipped is not None:
            self.shipped = with_steps(self.shipped, self.steps, notes)

    def _open(self) -> Session:
        """What runs the artifact here, to try batches with; of an engine, its graph."""
        if self.litert:
            return litert.open_session(self.artifact, self.request)
        plan = self.engine is not None and not self.engine.deferred
        graph = self.model.graph if plan else self.artifact.path
        return OrtSession(graph, threads=self.request.threads, prepack=False)

    def _choose_warmup(self, samples: Samples) -> None:
        if self.sequences is not None:
            steps = [Sample(item.name, item.feeds) for item in self.steps]
            self.warmups = collect(self.inputs, steps, len(steps), batched=self.max_batch > 0)
            return
        count = self.request.warmup
        batched = self.max_batch > 0
        self.sizes = batch_sizes(self.max_batch, self.request.preferred_batch) or [1]
        ordered: Iterable[Sample] = first_shipped(samples, self.shipped)
        if self.ragged is not None:
            ordered = map(self.ragged.request, ordered)
            self.shipped = self.ragged.shipped(self.shipped)
        self.warmups = collect(self.inputs, ordered, count, batched=batched)
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
                f"{path.name} is in the way: the package folder already holds it",
                code="output-in-the-way",
                hint="Serve one precision at a time, or choose another --name.",
            )
        version = path / str(self.request.version)
        version.mkdir(parents=True)
        self._put(version)
        for port in self.outputs:
            if port.label_file:
                write_file(path / port.label_file, self.labels[port.spec.name])
        write_warmup(path, self.warmups)
        if self.sequences is not None:
            self.sequences.write(path)
        self.decisions += pack(
            path,
            self.artifact,
            f"{self.request.version}/{self._file_name}",
            (self.inputs, self.outputs),
            self.shipped,
            self.request,
        )
        write_files(path, self._facts())
        (path / CONFIG_NAME).write_text(self._config_text(), encoding="utf-8")
        if self.engine and self.engine.deferred:
            write_deferral(version, self._deferral())
        return path

    def _put(self, version: Path) -> None:
        """What the backend reads, in the version's folder."""
        for file in self._files():
            main = file == self.artifact.path
            if main:
                link_or_copy(file, version / self._file_name)
            else:  # weights beside a model: onnx refuses a file of several names there
                shutil.copyfile(file, version / file.name)
        if self.litert:
            (version / litert.CODE).write_text(litert.code(), encoding="utf-8")

    def _framework(self) -> str:
        """What a framework's own file is, where the artifact is one."""
        return ""

    @property
    def _file_name(self) -> str:
        if self.litert:
            return litert.MODEL_FILE
        return PLAN_FILE if self.engine and not self.engine.deferred else MODEL_FILE

    def _files(self) -> list[Path]:
        if self.engine is None:
            return self.artifact.files
        if self.engine.deferred:
            return model_files(self.artifact)
        return [self.artifact.path]

    def _config_text(self) -> str:
        return write_config(self.config)

    def _deferral(self) -> Deferral:
        return Deferral(
            lock=self.artifact.path.with_name(LOCK_NAME),
            request=self.request,
            config_text=self._config_text(),
            engine_config=write_config(self._engine_config()[0]),
            samples=self.samples,
            reference=self.reference,
            inputs=self.whole[0],
            outputs=self.whole[1],
        )

    def _facts(self) -> Facts:
        weights = [file.name for file in self._files() if file != self.artifact.path]
        framework = self._framework()
        return Facts(
            name=self.name,
            version=self.request.version,
            opset=self.opset,
            weights=weights[0] if weights and not framework else None,
            max_batch=self.max_batch,
            inputs=self.inputs,
            outputs=self.outputs,
            example=self.warmups[0] if self.warmups else [],
            warmups=len(self.config.model_warmup),
            gpu=any(kind_of(group) != "KIND_CPU" for group in self.config.instance_group),
            model_file=self._file_name,
            deferred=bool(self.engine and self.engine.deferred),
            tensorrt=self.engine.library if self.engine else "",
            litert=self.litert,
            framework=framework,
            backend=self.config.backend,
            verified=self.reference is not None,
            cache=self.request.response_cache,
            decisions=self.decisions,
            shipped=self.shipped,
            photo=self._photo(),
            steps=self._first_sequence(),
            state_files=any(
                start.data_file
                for state in self.config.sequence_batching.state
                for start in state.initial_state
            ),
        )

    def _photo(self) -> Preparation | None:
        """How a photo becomes the only input, where one does."""
        one = len(self.inputs) == 1 and self.shipped is not None and self.shipped.of_images
        return preparation_of(self.inputs[0].spec, self.request) if one else None

    def _first_sequence(self) -> list[list[Tensor]]:
        """The steps of the first of the sequences that go along."""
        if self.sequences is None:
            return []
        pairs = zip(self.steps, self.warmups, strict=True)
        return [tensors for item, tensors in pairs if item.sequence["id"] == 1]

    def later(self, path: Path) -> Later:
        """What the scripts in the written folder do: see :func:`later_of`."""
        if not self.engine or not self.engine.deferred:
            return Later()
        return later_of(path / str(self.request.version), model_files(self.artifact))

    def details(self) -> dict[str, Any]:
        return {
            "model": self.name,
            "backend": self.config.backend,
            "version": self.request.version,
            "max_batch": self.max_batch,
            "dynamic_batching": self.config.HasField("dynamic_batching"),
            "instances": sum(group.count for group in self.config.instance_group),
            "instance_kind": "+".join(
                dict.fromkeys(
                    kind_of(group).removeprefix("KIND_").lower()
                    for group in self.config.instance_group
                )
            ),
            "warmups": [entry.name for entry in self.config.model_warmup],
            "labels": {name: len(labels) for name, labels in self.labels.items()},
        }


def _with_meaning(spec: TensorSpec, known: Sequence[TensorSpec]) -> TensorSpec:
    for item in known:
        if item.name == spec.name:
            stored = item if spec.scale is None else spec
            item = replace(item, scale=stored.scale, zero_point=stored.zero_point)
            return replace(item, dtype=spec.dtype, shape=spec.shape)
    return spec


def _option_notes(config: Any, request: TritonRequest) -> list[str]:
    """What the configuration says of the options, and why, where it isn't plain."""
    notes = []
    if config.HasField("dynamic_batching"):
        sizes = ", ".join(map(str, config.dynamic_batching.preferred_batch_size))
        which = f"sizes {sizes} preferred" if sizes else "no size preferred (as Triton advises)"
        notes.append(f"dynamic batching: {which}, waiting at most {request.queue_delay} us")
    elif config.HasField("sequence_batching"):
        pass  # which has said its own
    elif request.dynamic_batching:
        notes.append("no dynamic batching: max_batch_size is below 2")
    notes += scheduling_notes(config)
    if request.response_cache:
        notes.append("response cache: the server has to be started with --cache-config")
    if request.threads and "intra_op_thread_count" not in request.parameters:
        count = model_parameters(request)["intra_op_thread_count"]
        notes.append(f"intra_op_thread_count {count}: from --threads, as latency was measured")
    return notes
