"""An engine as a Session: it runs in a process of its own, on the GPU."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from converter.errors import (
    DependencyError,
    InternalError,
    MachineError,
    ModelError,
    ModelyardError,
    UsageError,
)
from converter.files.arrays import load_arrays, save_arrays
from converter.files.cache_root import cache_root
from converter.files.digest import file_digest
from converter.ir.model import BATCH, TensorSpec
from converter.options.request import Request
from converter.runtime.child import Child, ChildError, own_module, worker_env
from converter.runtime.session import Timing
from emitters.tensorrt.libraries import Library
from emitters.tensorrt.request import engine

COMMAND = own_module("emitters.tensorrt.session_child")

_ERRORS: dict[str, type[ModelyardError]] = {
    kind.kind: kind for kind in (UsageError, ModelError, DependencyError, MachineError)
}
_TIMED = "the device's time of one run; inputs and outputs stay in its memory"


class EngineSession:
    """A plan in TensorRT or TensorRT-RTX, on the first GPU that CUDA_VISIBLE_DEVICES leaves.

    Args:
        path: The plan.
        library: What built it, and runs it.
        request: Its ``cuda_graph``, ``version_compatible``, ``trust_source``, ``plugins`` and
            ``cache``.
        inputs: The model's own, where they are known: they give free dimensions their names, and
            tell layouts and meanings. Else the first dimension is the batch where it is free in
            every input.
        outputs: The model's own, likewise.

    Attributes:
        inputs, outputs: As the engine has them.

    Raises:
        DependencyError: No driver, no GPU, no library or no bindings; or too old a driver.
        ModelError: The library refuses the plan: damaged, of another version, of another GPU.
        MachineError: The device's memory is too small, or the process died.
    """

    def __init__(
        self,
        path: Path,
        library: Library,
        request: Request,
        *,
        inputs: Sequence[TensorSpec] = (),
        outputs: Sequence[TensorSpec] = (),
    ) -> None:
        self._library = library
        self._graph: bool | None = None
        self._folder = tempfile.TemporaryDirectory(prefix="modelyard-engine-")
        self._child = Child(
            COMMAND, what=f"the process that runs {path.name}", env={**worker_env()}
        )
        try:
            opened = self._call(
                "open",
                plan=str(path.absolute()),
                module=library.module,
                cuda_graph=request.cuda_graph,
                host_code=engine(request).version_compatible or request.trust_source,
                runtime_cache=_runtime_cache(path, library, request),
                plugins=[str(Path(plugin).absolute()) for plugin in engine(request).plugins],
            )
        except ModelyardError:
            self.close()
            raise
        known = {spec.name: spec for spec in (*inputs, *outputs)}
        batched = all(item["shape"][:1] == [-1] for item in opened["inputs"])
        self.inputs = tuple(_spec(item, known, batched) for item in opened["inputs"])
        self.outputs = tuple(_spec(item, known, batched) for item in opened["outputs"])
        self._runtime: dict[str, Any] = opened["runtime"]
        self.log: list[str] = opened["log"]

    @property
    def runtime(self) -> dict[str, Any]:
        """Name and version of the library, device, driver, profiles, bytes of scratch memory, what
        is timed, and once it was: whether a CUDA graph was replayed."""
        graph = {} if self._graph is None else {"cuda_graph": self._graph}
        return {"name": self._library.name, **self._runtime, "times": _TIMED, **graph}

    def run(self, feeds: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, np.ndarray[Any, Any]]:
        """Outputs by name, in the engine's order.

        Raises:
            UsageError: Inputs are missing, of another type, or fit no profile.
            MachineError: The device failed, or the process died.
        """
        out = Path(self._folder.name, "out.npz")
        self._call("run", feeds=self._write(feeds), out=str(out))
        arrays = load_arrays(out)
        return {spec.name: _typed(arrays[spec.name], spec) for spec in self.outputs}

    def time(
        self, feeds: Mapping[str, np.ndarray[Any, Any]], runs: int, concurrency: int = 1
    ) -> Timing:
        """Times ``runs`` runs in each of ``concurrency`` streams, each with a context of its own.

        A run's time is the device's, by CUDA events around it; the inputs lie in its memory
        already, and the outputs stay there. ``total_ns`` is wall time.

        Raises:
            As :meth:`run`.
        """
        answer = self._call("time", feeds=self._write(feeds), runs=runs, concurrency=concurrency)
        self._graph = answer["graph"]
        return Timing(tuple(answer["ns"]), int(answer["total_ns"]))

    def layers(self) -> list[dict[str, Any]]:
        """What the library's inspector tells of the engine's layers, in its own words."""
        layers: list[dict[str, Any]] = self._call("layers")["layers"]
        return layers

    def close(self) -> None:
        """Ends the process, and with it gives the device's memory back."""
        self._child.close()
        self._folder.cleanup()

    def _write(self, feeds: Mapping[str, np.ndarray[Any, Any]]) -> str:
        path = Path(self._folder.name, "in.npz")
        save_arrays(
            path,
            {
                name: array.view(np.uint16) if array.dtype.name == "bfloat16" else array
                for name, array in feeds.items()
            },
        )
        return str(path)

    def _call(self, method: str, **params: Any) -> dict[str, Any]:
        try:
            return self._child.call(method, **params)
        except ChildError as error:
            kind = _ERRORS.get(error.kind, InternalError)
            code, hint = (str(error.fields.get(name) or "") for name in ("code", "hint"))
            raise kind(error.message, code=code, details=error.details, hint=hint) from error


def _runtime_cache(path: Path, library: Library, request: Request) -> str | None:
    """Where kernels compiled for this plan are kept; the library itself refuses those of
    another device or driver."""
    if not request.cache:
        return None
    name = f"{file_digest(path)[:32]}-{library.version}.bin"
    return str(cache_root().absolute() / library.name / name)


def _spec(item: Mapping[str, Any], known: Mapping[str, TensorSpec], batched: bool) -> TensorSpec:
    """An input or output, its free dimensions named as in ``known`` or by their place."""
    name, shape = item["name"], item["shape"]
    told = known.get(name)
    names: Sequence[int | str] = (told.shape if told else None) or ()
    dims = tuple(
        dim if dim >= 0 else _dim_name(name, axis, names, batched) for axis, dim in enumerate(shape)
    )
    if told is None:
        return TensorSpec(name, item["dtype"], dims)
    return replace(told, dtype=item["dtype"], shape=dims)


def _dim_name(name: str, axis: int, names: Sequence[int | str], batched: bool) -> str:
    if axis < len(names) and isinstance(names[axis], str):
        return str(names[axis])
    return BATCH if axis == 0 and batched else f"{name}_{axis}"


def _typed(array: np.ndarray[Any, Any], spec: TensorSpec) -> np.ndarray[Any, Any]:
    if spec.dtype != "bfloat16":
        return array
    import ml_dtypes

    return array.view(ml_dtypes.bfloat16)
