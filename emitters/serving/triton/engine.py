"""A TensorRT artifact in a Triton folder: the engine, or what it is built from.

An engine is served by Triton's tensorrt backend: ``platform`` and ``backend`` name it, instances
are on GPUs, and name the profiles that they use (``InitOptimizationProfiles``).

Where no engine could be built, the typed ONNX file is served by the onnxruntime backend with its
TensorRT accelerator (README of triton-inference-server/onnxruntime_backend, "ONNX Runtime with
TensorRT optimization"; the keys are those that ``src/onnxruntime.cc`` at 00fd3e8 knows). Two things
were decided with that source at hand:

- ``precision_mode`` is the graph's precision: ONNX Runtime's provider builds TensorRT 10 networks
  that aren't strongly typed, in which float16 tensors and Q/DQ need their flag. Such a flag also
  lets TensorRT choose float16 kernels for layers that the graph types float32.
- Engine caches stay off: ONNX Runtime names a cached engine after the graph's names, not after its
  weights, so that the next version of a model would be answered with the weights of the last.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from converter.errors import Unsupported, UnsupportedError, UsageError
from converter.ir.model import Model, TensorSpec
from converter.protocols.emitter import Artifact
from emitters.serving.triton.profiles import Profile, largest_batch, preferred_batches
from emitters.serving.triton.request import TritonRequest
from emitters.serving.triton.scheduling import require_kinds
from emitters.tensorrt.request import engine

ENGINE_BACKEND = "tensorrt"
PLATFORM = "tensorrt_plan"
PLAN_FILE = "model.plan"
"""The name that the tensorrt backend looks for where the configuration names none."""

PRECISION_MODES = {"fp32": "FP32", "fp16": "FP16", "bf16": "BF16", "int8": "INT8"}

TYPES = ("bool", "uint8", "int8", "int32", "int64", "float16", "bfloat16", "float32")
"""What the tensorrt backend converts (``ConvertTrtTypeToDataType``)."""

_PARTITIONING = {"NonMaxSuppression", "NonZero", "RoiAlign", "If", "Loop", "Scan"}
"""Operators at which ONNX Runtime's provider may cut the graph; parts have inputs of their own,
for which nobody could give profiles."""


def require_servable(model: Model, request: TritonRequest) -> None:
    """Refuses what is known to be wrong before an engine is built.

    Raises:
        UsageError: An option that TensorRT, or Triton, can't take.
        UnsupportedError: Inputs or outputs that Triton's tensorrt backend can't take; all of them.
    """
    if request.instance_kind == "cpu":
        raise UsageError(
            "--instance-kind cpu: TensorRT only runs on GPUs",
            code="option-not-applicable",
            hint="Leave it out, or serve the ONNX file: --to onnx.",
        )
    require_kinds(request, ("KIND_GPU",), "TensorRT only runs on GPUs")
    if engine(request).strip_weights:
        raise UsageError(
            "--strip-weights: Triton loads a plan unchanged, and can't add the weights",
            code="option-not-applicable",
            hint="Leave it out with --serve triton.",
        )
    bad = [*_bad(model.inputs, "input"), *_bad(model.outputs, "output")]
    if bad:
        raise UnsupportedError("Triton's tensorrt backend can't take the model's interface", bad)


def _bad(specs: Sequence[TensorSpec], kind: str) -> Iterator[Unsupported]:
    for spec in specs:
        if spec.dtype not in TYPES:
            remedy = f"cast it to one of {', '.join(TYPES)}"
            yield Unsupported(spec.name, kind, f"it has no type {spec.dtype}", remedy)
        if spec.shape == ():
            reason = "it has no dimensions, and Triton has no such tensors"
            yield Unsupported(spec.name, kind, reason, "give it a dimension of 1")


@dataclass(frozen=True)
class Engine:
    """What a Triton folder has to know of a TensorRT artifact.

    Attributes:
        precision: What its graph is typed in.
        deferred: Whether it is still to be built.
        profiles: Its optimization profiles.
        options: What it is built with, where that isn't the default.
        library: Version of the TensorRT that built it; empty where it is still to be built.
    """

    precision: str
    deferred: bool
    profiles: tuple[Profile, ...]
    options: Mapping[str, Any]
    library: str = ""

    @classmethod
    def of(cls, artifact: Artifact) -> Engine | None:
        """The engine of a TensorRT artifact; None for an artifact of another kind.

        Raises:
            UsageError: It is a plan of TensorRT-RTX.
        """
        if artifact.target == "tensorrt-rtx":
            raise UsageError(
                "Triton can't serve plans of TensorRT-RTX, because its tensorrt backend "
                "only loads plans of TensorRT",
                code="server-cannot-serve",
                hint="Use --to tensorrt. Without a GPU here, the folder builds its engine later.",
            )
        if artifact.target != "tensorrt":
            return None
        details = artifact.details
        return cls(
            artifact.precision,
            details.get("engine") == "deferred",
            tuple(details.get("profiles", ())),
            details.get("options", {}),
            str(details.get("library", "")).removeprefix("tensorrt").strip(),
        )

    def asked(self, request: TritonRequest) -> TritonRequest:
        """The request with what follows from TensorRT: where instances run.

        On a machine without a GPU, ``auto`` lets the onnxruntime backend run on its CPU.
        """
        if request.instance_groups:
            return request
        kind = request.instance_kind or ("auto" if self.deferred else "gpu")
        return replace(request, instance_kind=kind)

    def for_plan(self, request: TritonRequest) -> TritonRequest:
        """The request for the tensorrt backend's configuration: nothing of onnxruntime's."""
        kind = None if request.instance_groups else "gpu"
        return replace(request, instance_kind=kind, threads=None, optimization=None)

    @property
    def largest_batch(self) -> int | None:
        """The largest batch of its profiles; None where it has none."""
        return largest_batch(self.profiles)

    def preferred(self, request: TritonRequest, max_batch: int) -> list[int]:
        """The user's preferred batches, or those that the profiles are best at."""
        return list(request.preferred_batch) or preferred_batches(self.profiles, max_batch)

    def make_plan_config(self, config: Any) -> None:
        """Turns a configuration into the tensorrt backend's."""
        config.backend, config.platform = ENGINE_BACKEND, PLATFORM
        for entry in config.input:
            entry.is_shape_tensor = entry.name in self.options.get("values", {})
        for group in config.instance_group:
            group.profile.extend(str(index) for index in range(len(self.profiles)))

    def add_accelerator(self, config: Any, model: Model) -> list[str]:
        """Configures the onnxruntime backend's TensorRT accelerator; gives what was decided."""
        item = config.optimization.execution_accelerators.gpu_execution_accelerator.add()
        item.name = "tensorrt"
        item.parameters["precision_mode"] = PRECISION_MODES[self.precision]
        options = self.options
        if options.get("optimization_level") is not None:
            level = str(options["optimization_level"])
            item.parameters["trt_builder_optimization_level"] = level
        if options.get("workspace_bytes") is not None:
            item.parameters["max_workspace_size_bytes"] = str(options["workspace_bytes"])
        if options.get("sparsity"):
            item.parameters["trt_sparsity_enable"] = "1"
        reason = self._no_profiles(model)
        if self.profiles and not reason:
            for key, texts in self._shape_texts(model).items():
                item.parameters[f"trt_profile_{key}_shapes"] = texts
        return [*self._notes(), *([reason] if reason else [])]

    def _no_profiles(self, model: Model) -> str:
        """Why the accelerator gets no profiles; empty where it does."""
        found = sorted({node.op_type for node in model.nodes()} & _PARTITIONING)
        if found:
            return (
                f"the accelerator makes its own profiles from the requests that come: {found[0]} "
                "may split the graph, and the parts would need profiles too"
            )
        if self.options.get("values"):
            return "the accelerator makes its own profiles: values of inputs decide shapes"
        odd = [spec.name for spec in model.inputs if set(spec.name) & set(",:")]
        if odd and self.profiles:
            return f"the accelerator's profiles can't spell the name {odd[0]}; it makes its own"
        return ""

    def _shape_texts(self, model: Model) -> dict[str, str]:
        """``NAME:1x3x224x224,...`` of the smallest, largest and best shapes; a name that comes
        again belongs to the next profile."""
        free = [
            spec.name
            for spec in model.inputs
            if any(isinstance(dim, str) for dim in spec.shape or ())
        ]
        return {
            key: ",".join(
                f"{name}:{'x'.join(map(str, profile[name][place]))}"
                for profile in self.profiles
                for name in free
                if name in profile
            )
            for key, place in (("min", 0), ("opt", 1), ("max", 2))
        }

    def _notes(self) -> Iterator[str]:
        yield (
            "no engine yet: the onnxruntime backend runs the typed ONNX file, on a GPU through "
            f"its TensorRT accelerator (precision_mode {PRECISION_MODES[self.precision]})"
        )
        if self.precision in ("fp16", "bf16"):
            yield (
                "until the engine is built, layers that the graph keeps in float32 may run in "
                f"{self.precision}: the accelerator isn't strongly typed"
            )
        if self.precision == "bf16":
            yield "precision_mode BF16 is in the onnxruntime backend since January 2026"
        later = [
            name
            for name in ("refit", "version_compatible", "hardware_compatible", "weight_streaming")
            if self.options.get(name)
        ]
        later += ["no tf32"] if self.options.get("tf32") is False else []
        if later:
            yield (
                f"{', '.join(later)}: only an engine has this option, and the accelerator doesn't"
            )
