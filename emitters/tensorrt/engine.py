"""An engine on the GPU, opened from its plan: its tensors, profiles and execution contexts.

One code path for TensorRT 10 and 11 and for TensorRT-RTX; what only some have is looked up by
name. Where TensorRT-RTX compiles kernels at load and at first sight of a shape, they are kept in
a runtime cache, and are compiled before the first run rather than during later ones.

Imported only by the process that runs an engine (:mod:`.session_child`).
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from converter.errors import DependencyError, MachineError, ModelError, ModelyardError
from converter.plugins.extras import install_line
from emitters.tensorrt.cuda import Device
from emitters.tensorrt.engine_script.running import DTYPES
from emitters.tensorrt.profile_choice import Range

_LOG_LINES = 30

_INVALID: dict[str, tuple[type[ModelyardError], str]] = {
    "VERSION_MISMATCH": (ModelError, "Build it again with this version, or install its version."),
    "UNSUPPORTED_CC": (ModelError, "Build it again for this GPU."),
    "OLD_CUDA_DRIVER": (DependencyError, "Install a newer NVIDIA driver."),
    "OLD_CUDA_RUNTIME": (DependencyError, "Install a newer CUDA runtime."),
    "INSUFFICIENT_GPU_MEMORY": (MachineError, "End other programs on the GPU."),
    "MALFORMED_ENGINE": (ModelError, "The file is damaged or no engine: build it again."),
    "CUDA_ERROR": (MachineError, "Run it again; see nvidia-smi."),
}
"""Members of the library's ``EngineInvalidityDiagnostics``, and what to do about each."""


class Engine:
    """A plan, deserialized.

    Args:
        plan: The file.
        module: ``tensorrt`` or ``tensorrt_rtx``.
        device: Where it runs.
        cuda_graph: Whether runs are to be captured and replayed.
        host_code: Whether the plan may bring code for the host, as version-compatible ones do.
        runtime_cache: Where TensorRT-RTX keeps compiled kernels; None for nowhere.

    Attributes:
        library: The module.
        inputs, outputs: Names, in the engine's order.

    Raises:
        DependencyError: The library isn't there, or the driver is too old for the plan.
        ModelError: The library refuses the plan: damaged, or of another version or GPU.
        MachineError: The device's memory is too small.
    """

    def __init__(
        self,
        plan: Path,
        module: str,
        device: Device,
        *,
        cuda_graph: bool,
        host_code: bool = False,
        runtime_cache: Path | None,
    ) -> None:
        self.library = _load(module)
        self.device = device
        self._cuda_graph = cuda_graph
        self._cache_file = runtime_cache
        self._log: list[str] = []
        self._logger = _logger(self.library, self._log)
        self._runtime = self.library.Runtime(self._logger)
        self._runtime.engine_host_code_allowed = host_code
        self._engine = self._deserialize(plan)
        self._cache: Any = None
        self._config = self._runtime_config()
        names = [self._engine.get_tensor_name(i) for i in range(self._engine.num_io_tensors)]
        is_input = self.library.TensorIOMode.INPUT
        self.inputs = [name for name in names if self._engine.get_tensor_mode(name) == is_input]
        self.outputs = [name for name in names if name not in self.inputs]

    # -- what it is ------------------------------------------------------------------

    def dtype(self, name: str) -> str:
        """An input's or output's type as numpy or ml_dtypes calls it.

        Raises:
            ModelError: One that can't be exchanged (FP8, FP4, INT4).
        """
        kind = self._engine.get_tensor_dtype(name).name
        if kind not in DTYPES:
            raise ModelError(
                f"the engine's {name} is {kind}, which can't be exchanged as an array",
                code="runtime-failed",
            )
        return DTYPES[kind]

    def shape(self, name: str) -> tuple[int, ...]:
        """Its shape as built: -1 for what is free."""
        return tuple(self._engine.get_tensor_shape(name))

    def on_host(self, name: str) -> bool:
        """Whether the library reads or writes it in the host's memory (a tensor of sizes)."""
        location = self._engine.get_tensor_location(name)
        return bool(location == self.library.TensorLocation.HOST)

    @cached_property
    def profiles(self) -> list[dict[str, Range]]:
        """For each optimization profile, the shapes of every input with a free dimension."""
        free = [name for name in self.inputs if -1 in self.shape(name)]
        count = self._engine.num_optimization_profiles
        return [{name: self._range(name, index) for name in free} for index in range(count)]

    def _range(self, name: str, profile: int) -> Range:
        low, best, high = self._engine.get_tensor_profile_shape(name, profile)
        return tuple(low), tuple(best), tuple(high)

    def described(self) -> dict[str, Any]:
        """Of the report's ``runtime``: version, device, profiles, memory for intermediate results
        in bytes (one execution context's)."""
        return {
            "version": self.library.__version__,
            "device": f"{self.device.name} ({self.device.capability})",
            "driver": f"CUDA {self.device.driver}",
            "profiles": self._engine.num_optimization_profiles,
            "scratch_bytes": self._scratch_bytes(),
        }

    def _scratch_bytes(self) -> int:
        # device_memory_size_v2 came with TensorRT 10.1; the older name went with 11
        size = getattr(self._engine, "device_memory_size_v2", None)
        return int(self._engine.device_memory_size if size is None else size)

    def layers(self) -> list[dict[str, Any]]:
        """What the library's inspector says of each layer: names, types, tactics, as far as the
        plan was built to tell (``ProfilingVerbosity.DETAILED``)."""
        inspector = self._engine.create_engine_inspector()
        kind = self.library.LayerInformationFormat.JSON
        found = json.loads(inspector.get_engine_information(kind))
        listed = found.get("Layers", []) if isinstance(found, Mapping) else []
        return [item if isinstance(item, dict) else {"Name": str(item)} for item in listed]

    # -- opening ---------------------------------------------------------------------

    def _deserialize(self, plan: Path) -> Any:
        contents = plan.read_bytes()
        self._require_valid(contents, plan.name)
        engine = self._runtime.deserialize_cuda_engine(contents)
        if engine is None:
            raise ModelError(
                f"{self._title} refuses the engine {plan.name}",
                code="engine-mismatch",
                details=self.log,
                hint="An engine only runs with the library version and the GPU that it was "
                "built for.",
            )
        if self._is_stripped(engine):
            self._refit(engine, plan.with_name("model.onnx"))
        return engine

    def _is_stripped(self, engine: Any) -> bool:
        """Whether the plan was built without its weights."""
        kinds = getattr(self.library, "EngineStat", None)  # since TensorRT 10.8
        # -1 is the answer for an engine that has its weights
        return kinds is not None and engine.get_engine_stat(kinds.STRIPPED_WEIGHTS_SIZE) > 0

    def _refit(self, engine: Any, graph: Path) -> None:
        """Puts the weights of the ONNX file into an engine that was built without."""
        if not graph.is_file():
            raise ModelError(
                f"the engine was built without its weights, and {graph.name} isn't beside it",
                code="source-changed",
                hint="Put the ONNX file that the engine was built from beside it.",
            )
        refitter = self.library.Refitter(engine, self._logger)
        parser = self.library.OnnxParserRefitter(refitter, self._logger)
        if not parser.refit_from_file(str(graph)) or not refitter.refit_cuda_engine():
            raise ModelError(
                f"{graph.name} doesn't fit the engine, which was built without its weights",
                code="engine-mismatch",
                details=self.log,
            )

    def _require_valid(self, contents: bytes, name: str) -> None:
        """Asks the library for its verdict, where it gives one (TensorRT-RTX)."""
        judge = getattr(self._runtime, "get_engine_validity", None)
        if judge is None:
            return
        verdict, found = judge(contents)
        if verdict != self.library.EngineValidity.INVALID:
            return
        reasons = _diagnostics(self.library, found)
        kind, hint = _INVALID.get(reasons[0] if reasons else "", (ModelError, "Build it again."))
        said = ", ".join(reasons) or "no reason given"
        raise kind(
            f"{self._title} on {self.device.name} ({self.device.capability}) refuses the engine "
            f"{name}: {said}",
            code="engine-mismatch",
            details=self.log,
            hint=hint,
        )

    @property
    def _title(self) -> str:
        return f"{self.library.__name__} {self.library.__version__}"

    @property
    def log(self) -> list[str]:
        """The library's last warnings and errors."""
        return self._log[-_LOG_LINES:]

    # -- running ---------------------------------------------------------------------

    def new_context(self) -> Any:
        """An execution context of its own, with memory for its largest profile.

        Raises:
            MachineError: There isn't that much memory.
        """
        context = (
            self._engine.create_execution_context()
            if self._config is None
            else self._engine.create_execution_context(self._config)
        )
        if context is None:
            raise MachineError(
                "the library couldn't make an execution context "
                f"({self._scratch_bytes() >> 20} MiB of scratch memory)",
                code="out-of-memory",
                details=self.log,
                hint="Use a smaller largest batch, or fewer callers.",
            )
        return context

    @property
    def captures_itself(self) -> bool:
        """Whether the library itself captures CUDA graphs (TensorRT-RTX)."""
        return self._config is not None

    @property
    def cuda_graph(self) -> bool:
        """Whether runs are to be captured."""
        return self._cuda_graph

    def _runtime_config(self) -> Any:
        """TensorRT-RTX's settings of a run; None for TensorRT, which has no runtime cache."""
        if not hasattr(self.library, "IRuntimeCache"):
            return None
        config = self._engine.create_runtime_config()
        strategy = self.library.CudaGraphStrategy
        config.cuda_graph_strategy = (
            strategy.WHOLE_GRAPH_CAPTURE if self._cuda_graph else strategy.DISABLED
        )
        # LAZY would compile kernels for a new shape in the background, beside what is timed.
        eager = self.library.DynamicShapesKernelSpecializationStrategy.EAGER
        config.dynamic_shapes_kernel_specialization_strategy = eager
        self._cache = config.create_runtime_cache()
        if self._cache_file and self._cache_file.is_file():
            self._cache.deserialize(
                self._cache_file.read_bytes()
            )  # one that doesn't fit is ignored
        config.set_runtime_cache(self._cache)
        return config

    def save_cache(self) -> None:
        """Writes the kernels compiled so far to the runtime cache; a failure costs only time."""
        if self._cache is None or self._cache_file is None:
            return
        made = self._cache.serialize()
        if made is None:
            return
        with suppress(OSError):
            self._cache_file.parent.mkdir(parents=True, exist_ok=True)
            partial = self._cache_file.with_suffix(".partial")
            partial.write_bytes(bytes(made))
            partial.replace(self._cache_file)


def _load(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise DependencyError(
            f"running the engine needs the Python package {module}: {error}",
            code="package-missing",
            hint=install_line(module.replace("_", "-")),
        ) from error


def _logger(library: Any, lines: list[str]) -> Any:
    """The library's logger, whose warnings and errors go to ``lines``."""
    severity = library.ILogger.Severity
    kept = {severity.INTERNAL_ERROR, severity.ERROR, severity.WARNING}

    class Lines(library.ILogger):  # type: ignore[misc] # the base is only known now
        def __init__(self) -> None:
            library.ILogger.__init__(self)

        def log(self, level: Any, message: str) -> None:
            if level in kept:
                lines.append(f"{level.name.lower()}: {message}")

    return Lines()


def _diagnostics(library: Any, found: Any) -> list[str]:
    """The members of ``EngineInvalidityDiagnostics`` whose bits are set in ``found``."""
    members = library.EngineInvalidityDiagnostics.__members__
    bits = int(found)
    return [name for name, member in members.items() if bits & int(member)]
