"""A model as the Python servers have it: everything is decided here, then written."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from converter import plugins
from converter.check.feeding import Fed
from converter.check.shipping import Shipped
from converter.errors import Unsupported, UnsupportedError, UsageError
from converter.ir.model import Model, TensorSpec
from converter.preparation.declared import Declaration
from converter.protocols.emitter import Artifact
from converter.samples import Samples
from emitters.serving.batching import choose_max_batch
from emitters.serving.labels import choose_labels
from emitters.serving.python.joining import FLOW, NOTES, Joined
from emitters.serving.request import ServingRequest

RUNTIMES = {
    "onnx": "onnxruntime==1.31.1",
    "tflite": "ai-edge-litert==2.3.0",
    "torchscript": "torch==2.13.0",
}
"""What runs each target's artifacts: the versions that tests have seen."""

_FOREIGN = ("bfloat16", "complex64")
"""Types that NumPy, or JSON, has no values of."""

_NAME = re.compile(r"[^A-Za-z0-9_.-]+")


@dataclass(frozen=True)
class Served:
    """What a package is made of.

    Attributes:
        name: The model's, for folders and URLs.
        artifact: What is served.
        inputs, outputs: The artifact's own, with the meanings that the model knows.
        max_batch: The largest batch; 0 where the first dimension is no batch.
        request: What was asked for.
        decisions: What was chosen and why, a line each.
        arguments: What a TorchScript file calls the inputs.
        shipped: Samples that go along; None outside of a run.
        declared: How the server prepares files, and answers; None where clients do.
        assets: Files that go along with the model, by name.
        flow: The models that it is made of, where it is a flow.
    """

    name: str
    artifact: Artifact
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    max_batch: int
    request: ServingRequest
    decisions: list[str]
    arguments: Mapping[str, str] = field(default_factory=dict)
    shipped: Shipped | None = None
    declared: Declaration | None = None
    assets: Mapping[str, Path] = field(default_factory=dict)
    flow: Joined | None = None

    @classmethod
    def joining(cls, flow: Joined, request: ServingRequest) -> Served:
        """A flow."""
        name, decisions = choose_name(replace(request, name=flow.flow.name))
        first = flow.flow.parts[flow.first].artifact
        artifact = Artifact(first.target, first.precision, Path(FLOW))
        notes = [*decisions, *NOTES]
        return cls(name, artifact, (), (), 0, request, notes, declared=flow.declared, flow=flow)

    @classmethod
    def of(
        cls, artifact: Artifact, model: Model, samples: Samples, request: ServingRequest
    ) -> Served:
        """Opens the artifact in its runtime, and proves batches on it.

        Args:
            artifact: What is served.
            model: What it was made of.
            samples: What batches are proven on.
            request: What was asked for.

        Raises:
            UsageError: A serving option doesn't fit the model, or the name is none.
            ModelError: The runtime refuses the artifact.
        """
        name, decisions = choose_name(request)
        session = plugins.load("emitters", artifact.target).open(artifact, request)
        try:
            asked = replace(request, preferred_batch=[])  # which none of these servers has
            max_batch, why = choose_max_batch(model, Fed(session), samples, asked)
            known = {spec.name: spec for spec in (*model.inputs, *model.outputs)}
            inputs, outputs = (
                tuple(with_meaning(spec, known.get(spec.name)) for spec in specs)
                for specs in (session.inputs, session.outputs)
            )
        finally:
            session.close()
        decisions.append(why)
        labels, notes = choose_labels(outputs, samples.label_names, batched=max_batch > 0)
        decisions += notes
        outputs = tuple(replace(spec, labels=labels.get(spec.name)) for spec in outputs)
        scripted = artifact.target == "torchscript"
        arguments = model.source["file"]["arguments"] if scripted else {}
        served = cls(name, artifact, inputs, outputs, max_batch, request, decisions, arguments)
        decisions += served._notes()
        return served

    @property
    def file(self) -> str:
        """The artifact's file in the package."""
        return self.artifact.path.name

    @property
    def batched(self) -> bool:
        """Whether the server joins requests."""
        return self.max_batch > 1 and self.request.dynamic_batching

    @property
    def delay(self) -> float:
        """Seconds that a request may wait for a batch."""
        return self.request.queue_delay / 1e6 if self.batched else 0.0

    @property
    def runtimes(self) -> tuple[str, ...]:
        """The requirements that run the artifact, or those of a flow."""
        targets = self.flow.targets if self.flow else [self.artifact.target]
        return tuple(runtime_of(target, self.device) for target in targets)

    @property
    def kinds(self) -> list[str]:
        """The kinds of files that the server prepares."""
        if self.flow is not None:
            return self.flow.kinds
        return [item.kind for item in self.declared.prepare] if self.declared else []

    @property
    def required(self) -> list[str]:
        """What functions of the user's require that prepare files and make answers."""
        if self.flow is not None:
            return self.flow.required
        return self.declared.requires if self.declared else []

    @property
    def device(self) -> str:
        """``cpu``, ``gpu`` or ``auto``."""
        return self.request.instance_kind or "cpu"

    def facts(self, warmup: list[dict[str, str]]) -> str:
        """The text of ``model.json``.

        Args:
            warmup: The files of each warm-up sample, by input.
        """
        facts = {
            "name": self.name,
            "file": self.file,
            "max_batch": self.max_batch,
            "inputs": [self._port(spec) for spec in self.inputs],
            "outputs": [self._port(spec) for spec in self.outputs],
            "instances": self.request.max_instances or self.request.instances,
            "threads": self.request.threads,
            "joined": self.max_batch if self.batched else 1,
            "delay": self.delay,
            "device": self.device,
            "disabled_optimizers": list(self.artifact.details.get("without", ())),
            **({"arguments": dict(self.arguments)} if self.arguments else {}),
            **({"prepares": self.kinds} if self.declared else {}),
            **({"requires": own} if (own := self.required) else {}),
            **({"flow": self.flow.files} if self.flow else {}),
            "warmup": warmup,
        }
        return json.dumps(facts, indent=2, ensure_ascii=False) + "\n"

    def _port(self, spec: TensorSpec) -> dict[str, Any]:
        """An input or output as the handler needs it."""
        shape = list(spec.shape or ())
        if self.max_batch:
            shape[0] = "batch"
        facts = {"name": spec.name, "dtype": spec.dtype, "datatype": datatype(spec.dtype)}
        missing = {"missing": list(spec.missing)} if spec.missing else {}
        return {**facts, "shape": shape, **missing}

    def _notes(self) -> list[str]:
        asked = self.request
        notes = []
        if self.max_batch:
            notes.append(f"a request holds at most {self.max_batch} rows: --max-batch")
        if self.batched:
            notes.append(f"batching: at most {self.max_batch}, waiting {asked.queue_delay} us")
        elif asked.dynamic_batching:
            notes.append("no batching: the largest batch is below 2")
        if self.device != "cpu":
            notes.append(f"instances on {self.device}: not run here")
        return notes


def require_servable(model: Model, request: ServingRequest, server: str) -> None:
    """Refuses what is known before anything is converted.

    Args:
        model: What is to be served.
        request: Its serving options, ``io_dtype`` and ``to``.
        server: The server's name, for messages.

    Raises:
        UsageError: An option is wrong in itself, or contradicts another.
        UnsupportedError: Inputs or outputs of types that NumPy or JSON doesn't have; all of them.
    """
    kinds = (("input", model.inputs), ("output", model.outputs))
    bad = [
        Unsupported(spec.name, kind, f"{server} has no {spec.dtype}", "give --io-dtype float32")
        for kind, specs in kinds
        for spec in specs
        if spec.dtype in _FOREIGN
    ]
    if bad or request.io_dtype in _FOREIGN:
        bad = bad or [Unsupported("", "--io-dtype", f"{server} has no {request.io_dtype}")]
        raise UnsupportedError(f"{server} can't serve this model", bad)
    least = {"instances": 1, "version": 1, "queue_delay": 0, "warmup": 0, "request_timeout": 1}
    for name, smallest in least.items():
        if (value := request.value(name)) < smallest:
            raise UsageError(
                f"--{name.replace('_', '-')} {value}: the value has to be at least {smallest}",
                code="option-value",
            )
    if request.max_instances is not None and request.max_instances < request.instances:
        raise UsageError(
            f"--max-instances {request.max_instances} is below --instances {request.instances}",
            code="option-conflict",
        )
    if request.instance_kind == "gpu" and not {"onnx", "torchscript"} & {*request.to}:
        raise UsageError(
            "--instance-kind gpu: LiteRT runs on CPUs here",
            code="option-not-applicable",
            hint="Add onnx to --to.",
        )
    choose_name(request)


def runtime_of(target: str, device: str = "cpu") -> str:
    """The requirement that runs a target's artifacts on a device."""
    gpu = target == "onnx" and device != "cpu"
    return RUNTIMES[target].replace("onnxruntime", "onnxruntime-gpu" if gpu else "onnxruntime")


def choose_name(request: ServingRequest) -> tuple[str, list[str]]:
    wanted = request.name or Path(request.source).stem
    name = _NAME.sub("_", wanted).strip("._-")
    if not name:
        raise UsageError(
            f"{wanted!r} can't be the name of a served model",
            code="option-value",
            hint="Give --name with letters, digits, '_', '.' and '-'.",
        )
    return name, [] if name == wanted else [f"name {name}: {wanted!r} has what a URL can't"]


def with_meaning(spec: TensorSpec, known: TensorSpec | None) -> TensorSpec:
    if known is None:
        return spec
    return replace(
        known, dtype=spec.dtype, shape=spec.shape, scale=spec.scale, zero_point=spec.zero_point
    )


def datatype(dtype: str) -> str:
    """The Open Inference Protocol's name of a type: ``float32`` is ``FP32``."""
    return {"bool": "BOOL", "string": "BYTES"}.get(dtype) or dtype.replace("float", "FP").upper()
