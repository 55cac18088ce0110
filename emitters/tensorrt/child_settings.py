"""In the build's process: a builder's configuration, by names that the bindings have.

10.x, 11.x and TensorRT-RTX differ in what exists; what is asked for and isn't there is named, all
of it, never passed over. No precision flag is ever set: the network is strongly typed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

_FLAGS = {
    "version_compatible": "VERSION_COMPATIBLE",
    "strip_weights": "STRIP_PLAN",
    "refit": "REFIT",
    "weight_streaming": "WEIGHT_STREAMING",
    "sparsity": "SPARSE_WEIGHTS",
}
_HARDWARE = {"ampere+": "AMPERE_PLUS", "same-compute-capability": "SAME_COMPUTE_CAPABILITY"}


class Missing(Exception):
    """Options that the library doesn't have: field and why."""

    def __init__(self, missing: Mapping[str, str]) -> None:
        super().__init__(", ".join(missing))
        self.missing = dict(missing)


class SettingsError(Exception):
    """What can't be, said for users; ``kind`` as in :class:`converter.runtime.child.ChildError`."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def network_flags(trt: Any) -> int:
    """A strongly typed network; where the flag is gone, there is no other kind."""
    member = getattr(trt.NetworkDefinitionCreationFlag, "STRONGLY_TYPED", None)
    return 0 if member is None else 1 << int(member)


def load_plugins(trt: Any, logger: Any, paths: Iterable[Any]) -> None:
    """Loads the library's own plugins where it has such, and those that were named.

    Args:
        trt: The library's module.
        logger: The library's.
        paths: Libraries with plugins.

    Raises:
        SettingsError: One of them doesn't load.
    """
    if hasattr(trt, "init_libnvinfer_plugins"):
        trt.init_libnvinfer_plugins(logger, "")
    for path in paths:
        if trt.get_plugin_registry().load_library(str(path)) is None:
            raise SettingsError(
                "usage", f"--plugin {Path(path).name}: it can't be loaded as plugins"
            )


def capability_name(text: str) -> str:
    """``8.6`` becomes ``SM86``."""
    return "SM" + text.replace(".", "")


def missing_from(trt: Any, options: Mapping[str, Any]) -> dict[str, str]:
    """For each option that is asked for and has no name in these bindings, why."""
    found = {}
    for field, name in _FLAGS.items():
        if options[field] and not hasattr(trt.BuilderFlag, name):
            found[field] = f"there is no BuilderFlag.{name}"
    wanted = options["hardware_compatible"]
    levels = getattr(trt, "HardwareCompatibilityLevel", None)
    if wanted and not hasattr(levels, _HARDWARE[wanted]):
        found["hardware_compatible"] = f"there is no level {_HARDWARE[wanted]}"
    if not options["tf32"] and not hasattr(trt.BuilderFlag, "TF32"):
        found["tf32"] = "there is no BuilderFlag.TF32"
    known = getattr(trt, "ComputeCapability", None)
    lacking = [
        text
        for text in options["compute_capabilities"]
        if not hasattr(known, capability_name(text))
    ]
    if lacking:
        found["compute_capabilities"] = f"it doesn't build for {', '.join(lacking)}; " + (
            f"it does for {', '.join(_capabilities(known))}" if known else "only for the device"
        )
    return found


def _capabilities(known: Any) -> list[str]:
    names = [name for name in known.__members__ if name.startswith("SM")]
    return [f"{name[2:-1]}.{name[-1]}" for name in names]


def set_up(
    trt: Any, builder: Any, network: Any, options: Mapping[str, Any], timing_cache: str | None
) -> Any:
    """The configuration of a build.

    Args:
        trt: The library.
        builder: What the configuration is for.
        network: What is built.
        options: ``EngineOptions`` as a mapping.
        timing_cache: A file of an earlier build's timings, or where to; None for none.

    Raises:
        Missing: The library lacks something that is asked for.
        SettingsError: The library refuses a value, or an input's values decide shapes.
    """
    missing = missing_from(trt, options)
    if missing:
        raise Missing(missing)
    _require_shapes_known(network, options["values"])
    config = builder.create_builder_config()
    config.profiling_verbosity = trt.ProfilingVerbosity.DETAILED
    for field, name in _FLAGS.items():
        if options[field]:
            config.set_flag(getattr(trt.BuilderFlag, name))
    if not options["tf32"]:
        config.clear_flag(trt.BuilderFlag.TF32)
    if options["optimization_level"] is not None:
        config.builder_optimization_level = options["optimization_level"]
    if options["workspace_bytes"] is not None:
        config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, options["workspace_bytes"])
    if options["hardware_compatible"]:
        level = _HARDWARE[options["hardware_compatible"]]
        config.hardware_compatibility_level = getattr(trt.HardwareCompatibilityLevel, level)
    _set_capabilities(trt, config, options["compute_capabilities"])
    for profile in options["profiles"]:
        config.add_optimization_profile(_profile(builder, network, profile, options["values"]))
    if timing_cache:
        file = Path(timing_cache)
        known = config.create_timing_cache(file.read_bytes() if file.is_file() else b"")
        config.set_timing_cache(known, False)
    return config


def _set_capabilities(trt: Any, config: Any, wanted: list[str]) -> None:
    if not wanted:
        return
    config.num_compute_capabilities = len(wanted)
    for index, text in enumerate(wanted):
        name = capability_name(text)
        if not config.set_compute_capability(getattr(trt.ComputeCapability, name), index):
            raise SettingsError("usage", f"--compute-capability {text}: the library refuses it")


def _require_shapes_known(network: Any, values: Mapping[str, Any]) -> None:
    for index in range(network.num_inputs):
        tensor = network.get_input(index)
        if tensor.is_shape_tensor and tensor.name not in values:
            raise SettingsError(
                "source",
                f"the values of the input {tensor.name} decide shapes, and no range of them is "
                "known: give samples, or make it a constant",
            )


def _profile(
    builder: Any, network: Any, profile: Mapping[str, Any], values: Mapping[str, Any]
) -> Any:
    made = builder.create_optimization_profile()
    for index in range(network.num_inputs):
        tensor = network.get_input(index)
        if tensor.is_shape_tensor:
            made.set_shape_input(tensor.name, *values[tensor.name])
        elif tensor.name in profile:
            made.set_shape(tensor.name, *(tuple(shape) for shape in profile[tensor.name]))
    return made
