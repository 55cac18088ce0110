"""What an engine is to be: every option of a build, as JSON values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from converter.errors import UsageError
from converter.ir.model import Model
from converter.options.request import Request
from emitters.tensorrt.libraries import Library, lacks
from emitters.tensorrt.profiles import Profile, Sizes, profiles_of
from emitters.tensorrt.request import engine
from emitters.tensorrt.shape_inputs import Values


@dataclass(frozen=True)
class EngineOptions:
    """One engine, as it is asked for.

    Attributes:
        precision: ``fp32``, ``fp16``, ``bf16``, ``int8``: of the typed graph, never a flag.
        profiles: See :mod:`.profiles`; none where every input has a fixed shape.
        values: See :mod:`.shape_inputs`; of all profiles.
        optimization_level: 0 to 5; None for the library's own default.
        workspace_bytes: Most scratch memory of a layer; None for the device's memory.
        timing_cache: Whether the builder's timings are kept in our cache for the next build.
        version_compatible: Loads in later versions of the library.
        hardware_compatible: ``ampere+``, ``same-compute-capability``, or None for this device.
        strip_weights: Weights are left out, and refitted from the ONNX file at load.
        refit: Weights can be replaced after the build.
        weight_streaming: Weights may stay in the host's memory.
        sparsity: Kernels for 2:4 sparse weights may be used.
        tf32: Whether float32 products may round their inputs to 10 bits of mantissa.
        compute_capabilities: ``8.6``...: what to build ahead of time for (TensorRT-RTX).
        plugins: Paths of plugin libraries to load.
    """

    precision: str
    profiles: tuple[Profile, ...] = ()
    optimization_level: int | None = None
    workspace_bytes: int | None = None
    timing_cache: bool = True
    version_compatible: bool = False
    hardware_compatible: str | None = None
    strip_weights: bool = False
    refit: bool = False
    weight_streaming: bool = False
    sparsity: bool = False
    tf32: bool = True
    compute_capabilities: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()
    values: Values = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        request: Request,
        model: Model,
        precision: str,
        seen: Sizes | None = None,
        values: Values = MappingProxyType({}),
    ) -> EngineOptions:
        """What ``request`` asks for.

        Args:
            request: Its options.
            model: The typed graph.
            precision: Which of the request's precisions.
            seen: Sizes of free dimensions in the samples.
            values: Of inputs that decide shapes, in the samples.

        Raises:
            UsageError: A profile doesn't fit the model, an option has a value that there isn't,
                or a plugin library was named without ``--trust-source``.
        """
        require_sound(request)
        profiles = tuple(profiles_of(request, model, seen, always=bool(values)))
        return replace(cls.plain(request, precision), profiles=profiles, values=dict(values))

    @classmethod
    def plain(cls, request: Request, precision: str) -> EngineOptions:
        """What ``request`` asks for, without profiles."""
        asked = engine(request)
        return cls(
            precision,
            (),
            asked.optimization_level,
            None if asked.workspace is None else asked.workspace << 20,
            asked.timing_cache,
            asked.version_compatible,
            asked.hardware_compatible,
            asked.strip_weights,
            asked.refit,
            asked.weight_streaming,
            asked.sparsity,
            asked.tf32,
            tuple(asked.compute_capabilities),
            tuple(asked.plugins),
        )

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def said(self) -> dict[str, Any]:
        """For reports: what differs from the defaults, and no path of this machine."""
        plain = EngineOptions(self.precision).as_dict()
        changed = {key: value for key, value in self.as_dict().items() if value != plain[key]}
        if self.plugins:
            changed["plugins"] = [Path(path).name for path in self.plugins]
        return changed


FLAGS = {
    "version_compatible": "--version-compatible",
    "hardware_compatible": "--hardware-compatible",
    "strip_weights": "--strip-weights",
    "refit": "--refit",
    "weight_streaming": "--weight-streaming",
    "sparsity": "--sparsity",
    "tf32": "--no-tf32",
    "compute_capabilities": "--compute-capability",
    "plugins": "--plugin",
    "optimization_level": "--optimization-level",
    "workspace_bytes": "--workspace",
    "timing_cache": "--no-timing-cache",
}
"""How the command line spells what differs from the default."""


def require_sound(request: Request) -> None:
    """Holds the options against what can be known without the model.

    Raises:
        UsageError: A value that there isn't, or a plugin library that isn't trusted or there.
    """
    asked = engine(request)
    level, workspace = asked.optimization_level, asked.workspace
    if level is not None and not 0 <= level <= 5:
        raise UsageError(
            f"--optimization-level {level}: the value has to be 0 to 5", code="option-value"
        )
    if workspace is not None and workspace < 1:
        raise UsageError(
            f"--workspace {workspace}: give a number of MiB, at least 1", code="option-value"
        )
    for text in asked.compute_capabilities:
        if not re.fullmatch(r"\d{1,2}\.\d", text):
            raise UsageError(
                f"--compute-capability {text}: give two numbers, as in 8.6",
                code="option-value",
                hint='NVIDIA\'s page "CUDA GPUs" lists the number of each device.',
            )
    if asked.plugins and not request.trust_source:
        raise UsageError(
            f"--plugin {asked.plugins[0]} runs that library's code here",
            code="untrusted-code",
            hint="Add --trust-source if you trust it.",
        )
    for path in asked.plugins:
        if not Path(path).is_file():
            raise UsageError(f"--plugin {path}: there is no such file", code="file-not-found")


def require_had(options: EngineOptions, library: Library) -> None:
    """Refuses options that a library doesn't have, all of them at once.

    Raises:
        UsageError: There are such.
    """
    refuse(options, lacks(library), library)


def refuse(options: EngineOptions, missing: Mapping[str, str], library: Library) -> None:
    """Refuses options that the library doesn't have.

    Args:
        options: What was asked for.
        missing: Fields of the options that the library lacks, and why.
        library: TensorRT or TensorRT-RTX.

    Raises:
        UsageError: One of them is asked for; all of them are listed.
    """
    asked = options.said()
    found = [f"{FLAGS.get(key, key)}: {why}" for key, why in missing.items() if key in asked]
    if found:
        raise UsageError(
            f"{library.title} doesn't have {len(found)} of the given options",
            code="option-not-applicable",
            details=found,
        )
