"""Runs ONNX models in ONNX Runtime: for checks between passes, and as the ONNX target's runtime."""

from __future__ import annotations

import ctypes
import math
import os
import re
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import onnx_ir
import onnxruntime

from converter.errors import DependencyError, MachineError, ModelError, ModelyardError
from converter.ir.model import IR_VERSION, OPSET, TensorSpec, described, stored_meanings
from converter.runtime import ort_gpu
from converter.runtime.memory import give_back
from converter.runtime.ort_weights import FOLDER, lendable, outline_of, written_down
from converter.runtime.session import Timing
from converter.text.words import one_line

if TYPE_CHECKING:
    from converter.runtime.ort_optimizers import Failing

Array = np.ndarray[Any, Any]

PROVIDERS = {
    "cpu": "CPUExecutionProvider",
    "cuda": "CUDAExecutionProvider",
    "tensorrt": "TensorrtExecutionProvider",
}

_TYPES = {
    "tensor(float)": "float32",
    "tensor(double)": "float64",
    "tensor(float16)": "float16",
    "tensor(bfloat16)": "bfloat16",
}

WRONG = ("Pad_Fusion", "FastGeluFusion")
"""Rewrites of ONNX Runtime that change what a model computes, or refuse it (seen in 1.31). One puts
a Pad by zeros into the MaxPool behind it, which pads with minus infinity, and makes poolings whose
padding is as large as their window (``optimizer/pad_fusion.cc``). The other takes away x / 2 of a
Gelu by tanh where others read that (``optimizer/fast_gelu_fusion.cc``)."""

FOLDING = "ConstantFolding"
"""Computes weights that are stored in fewer bits when a model is opened, and holds them."""

_LARGE = 64 << 20
"""Numbers in a model in memory from which it takes little memory: its sessions run a few times."""

CRASHES_FLOAT16 = ("NchwcTransformer",)
"""Ends the process (SIGSEGV) on some models of float16; which: ``emitters/onnx/products.py``."""

_EXTENSIONS = ("com.microsoft.extensions:", "ai.onnx.contrib:")
"""What ONNX Runtime's words have where an operator of onnxruntime-extensions isn't registered."""

_SOURCE_POSITION = re.compile(r"\S+\.(?:cc|h):\d+ (?:[\w:~<>]+\(.*?\) |\w+ (?=[A-Z]))?")

onnxruntime.set_default_logger_severity(4)  # its messages reach the user through our errors


class RefusedModel(ModelError):
    """ONNX Runtime doesn't load a model; its words are in the message."""

    code = "runtime-failed"


class OrtSession:
    """A model in ONNX Runtime.

    Args:
        model: A file, or a model in memory; external weights stay mapped files.
        providers: Of :data:`PROVIDERS`, best first; the CPU is always the last.
        threads: Threads inside one run; None for one a core.
        plain: No graph optimization, no prepacking, no arena: the model as it is written,
            with the least memory; large weights in memory are lent, not copied. For comparing
            models, not for speed.
        prepack: Whether weights may be copied into the layout that kernels like best.
        mapped: Whether the weights inside a file that was written here stay in it.
        stock: With ONNX Runtime's rewrites as anybody has them, :data:`WRONG` ones too: for
            what is shipped.
        halves: Whether a file holds float16, so that :data:`CRASHES_FLOAT16` is left out as well;
            a model in memory is looked at.
        exact: Products of int8 weights that the model dequantizes are computed in float32, as it
            says. By default ONNX Runtime rounds the other operand to 8 bits as well
            (``session.qdq_matmulnbits_accuracy_level`` is 4).
        level: Up to which of :data:`converter.runtime.ort_optimizers.LEVELS` it optimizes.
        without: Names of its optimizations that are left out besides.

    Raises:
        ModelError: ONNX Runtime refuses the model; its words are in the error.
        DependencyError: A provider asked for isn't there or didn't start.
    """

    def __init__(
        self,
        model: Path | onnx_ir.Model,
        *,
        providers: Sequence[str] = ("cpu",),
        threads: int | None = None,
        plain: bool = False,
        prepack: bool = True,
        mapped: bool = False,
        exact: bool = False,
        stock: bool = False,
        halves: bool = False,
        level: str = "all",
        without: Sequence[str] = (),
    ) -> None:
        large = isinstance(model, onnx_ir.Model) and _numbers(model) > _LARGE
        names = _provider_names(providers)
        self._on_gpu = ort_gpu.on_gpu(names)
        if self._on_gpu:
            ort_gpu.prepare(names)
        halves = halves or (isinstance(model, onnx_ir.Model) and holds_halves(model))
        wrong = () if stock else (*WRONG, *(CRASHES_FLOAT16 if halves else ()))
        lends = (plain or large) and isinstance(model, onnx_ir.Model) and not self._on_gpu

        def opened(lent: Mapping[str, onnxruntime.OrtValue]) -> onnxruntime.InferenceSession:
            options = _options(model, plain=plain, large=large, level=level, threads=threads)
            if not (prepack or plain or large):
                options.add_session_config_entry("session.disable_prepacking", "1")
            if exact:
                options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")
            if self._on_gpu:
                ort_gpu.record_assignment(options)
            for name, value in lent.items():
                options.add_initializer(name, value)
            what: Path | bytes | onnx_ir.Model = model
            if isinstance(model, Path) and mapped:
                options.add_session_config_entry(FOLDER, str(model.absolute().parent))
                what = outline_of(model).SerializeToString()
            return self._open(what, options, names, (*wrong, *without), lent)

        # for as long as the session is there
        self._lent = lendable(model) if lends and isinstance(model, onnx_ir.Model) else {}
        try:
            self._session = opened(self._lent)
        except RefusedModel:
            if plain or not self._lent:
                raise
            self._lent = {}  # some optimizations read weights before they have what was lent
            self._session = opened({})
        self._asked = tuple(providers)
        self._threads = threads or os.cpu_count() or 1
        meanings = stored_meanings(self._session.get_modelmeta().custom_metadata_map)
        self.inputs = tuple(_spec(item, meanings) for item in self._session.get_inputs())
        self.outputs = tuple(_spec(item, meanings) for item in self._session.get_outputs())
        self._names = [spec.name for spec in self.outputs]
        self._require_providers()

    @staticmethod
    def _open(
        model: Path | bytes | onnx_ir.Model,
        options: onnxruntime.SessionOptions,
        providers: list[str],
        without: Sequence[str] = (),
        lent: Collection[str] = (),
    ) -> onnxruntime.InferenceSession:
        try:
            if not isinstance(model, onnx_ir.Model):
                what = str(model) if isinstance(model, Path) else model
                try:
                    return ort_gpu.open_session(what, options, providers, without)
                except Exception as error:
                    if not any(name in str(error) for name in _EXTENSIONS):
                        raise
                from converter.runtime.ort_extensions import register  # of the few that need it

                register(options)
                return ort_gpu.open_session(what, options, providers, without)
            with written_down(model, options, lent) as what:
                return ort_gpu.open_session(what, options, providers, without)
        except ModelyardError:
            raise
        except Exception as error:  # its own exception classes share no public base
            raise RefusedModel(f"ONNX Runtime refuses the model: {clean_message(error)}") from error

    @property
    def runtime(self) -> dict[str, Any]:
        """Name, version, threads, and the providers that really run; on a GPU also how many
        nodes each of them took, and what is timed."""
        told = {
            "name": "onnxruntime",
            "version": onnxruntime.__version__,
            "providers": [ort_gpu.short(name) for name in self._really_runs()],
            "threads": self._threads,
        }
        if self._on_gpu:
            told["nodes"] = ort_gpu.nodes_by_provider(self._session)
            told |= {"tf32": False, "times": ort_gpu.TIMES}
        return told

    def _really_runs(self) -> list[str]:
        return list(self._session.get_providers())

    def _require_providers(self) -> None:
        running = self._really_runs()
        missing = [name for name in self._asked if PROVIDERS[name] not in running]
        if missing:
            raise DependencyError(
                f"ONNX Runtime did not start the provider {', '.join(missing)} and would run "
                f"on {', '.join(running)}",
                code="device-missing",
                hint="`modelyard doctor` shows what this machine has.",
            )

    def run(self, feeds: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, np.ndarray[Any, Any]]:
        """Outputs by name, in the model's order.

        Raises:
            ModelError: ONNX Runtime failed on these inputs; its words are in the error.
            MachineError: Memory is spent, the host's or the device's.
        """
        try:
            values = self._run(dict(feeds))
        except Exception as error:  # as above
            raise _failed(error) from error
        return dict(zip(self._names, values, strict=True))

    def run_lent(
        self, feeds: Mapping[str, np.ndarray[Any, Any]]
    ) -> dict[str, np.ndarray[Any, Any]]:
        """As :meth:`run`, with tensors that lie in ONNX Runtime's memory and weren't copied.

        That memory is used again once an array is gone: quick where outputs are many and large.
        """
        if any(spec.dtype == "string" for spec in (*self.inputs, *self.outputs)):
            return self.run(feeds)
        try:
            values = self._run_values(dict(feeds))
        except Exception as error:  # as above
            raise _failed(error) from error
        return dict(zip(self._names, values, strict=True))

    def _run(self, feeds: dict[str, np.ndarray[Any, Any]]) -> list[Any]:
        if not any(spec.dtype == "bfloat16" for spec in (*self.inputs, *self.outputs)):
            values: list[Any] = self._session.run(self._names, feeds)
            for index, spec in enumerate(self.outputs):
                if spec.dtype == "float8e4m3fn":  # the one 8-bit float it gives, as its bytes
                    values[index] = values[index].view(ml_dtypes.float8_e4m3fn)
            return values
        return self._run_values(feeds)

    def _run_values(self, feeds: dict[str, np.ndarray[Any, Any]]) -> list[Any]:
        typed = {
            spec.name: _bfloat16_value(feeds[spec.name])
            if spec.dtype == "bfloat16"
            else onnxruntime.OrtValue.ortvalue_from_numpy(feeds[spec.name])
            for spec in self.inputs
            if spec.name in feeds
        }
        return [_array(value) for value in self._session.run_with_ort_values(self._names, typed)]

    def time(
        self, feeds: Mapping[str, np.ndarray[Any, Any]], runs: int, concurrency: int = 1
    ) -> Timing:
        """Wall time of each of ``runs`` runs in each of ``concurrency`` threads; on a GPU without
        the copies from and to the host."""
        arrays = dict(feeds)
        if self._on_gpu:
            values = {name: self._device_value(name, array) for name, array in arrays.items()}
            return ort_gpu.time_on_device(self._session, values, self._names, runs, concurrency)

        def caller() -> list[int]:
            taken = []
            for _ in range(runs):
                start = time.perf_counter_ns()
                self._run(arrays)
                taken.append(time.perf_counter_ns() - start)
            return taken

        return ort_gpu.timed(caller, concurrency)

    def _device_value(self, name: str, array: np.ndarray[Any, Any]) -> onnxruntime.OrtValue:
        """An input in the device's memory; what numpy has no type for stays in the host's."""
        dtype = next((spec.dtype for spec in self.inputs if spec.name == name), "")
        if dtype == "bfloat16":
            return _bfloat16_value(array)
        if dtype == "string":
            return onnxruntime.OrtValue.ortvalue_from_numpy(array)
        return ort_gpu.on_device(array)

    def close(self) -> None:
        """Gives the model's memory back."""
        del self._session
        self._lent = {}
        give_back()


def _options(
    model: Path | onnx_ir.Model, *, plain: bool, large: bool, level: str, threads: int | None
) -> onnxruntime.SessionOptions:
    """What doesn't hang on where a session runs; see :class:`OrtSession`."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = _level("none" if plain else level)
    if threads:
        options.intra_op_num_threads = threads
    if plain or large:
        # An arena keeps what a run took, and a pattern takes it a second time.
        options.enable_cpu_mem_arena = options.enable_mem_pattern = False
        options.add_session_config_entry("session.disable_prepacking", "1")
    if plain and isinstance(model, onnx_ir.Model) and model.functions:
        # sizes that it infers in functions are wrong for poolings that round up (1.31)
        options.enable_mem_reuse = False
    return options


def _numbers(model: onnx_ir.Model) -> int:
    """How many numbers its initializers hold."""
    values = (value for graph in model.graphs() for value in graph.initializers.values())
    return sum(value.const_value.size for value in values if value.const_value is not None)


def failing_on(model: Path | onnx_ir.Model, **settings: Any) -> Failing | None:
    """Which optimization fails on a model; None where it loads with all, or with none neither.

    Args:
        model: As :class:`OrtSession` takes it.
        settings: Others of the session's.
    """
    from converter.runtime.ort_optimizers import failing

    def loads(level: str, without: Sequence[str]) -> bool:
        with suppress(ModelError):
            OrtSession(model, level=level, without=without, **settings).close()
            return True
        return False

    return failing(loads)


def optimized(model: Path, made: Path) -> None:
    """Writes the graph that ONNX Runtime runs on the CPU, optimized, for this machine only.

    Raises:
        ModelError: ONNX Runtime refuses the model.
    """
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.optimized_model_filepath = str(made)
    try:
        onnxruntime.InferenceSession(str(model), options, providers=[PROVIDERS["cpu"]])
    except Exception as error:  # its own exception classes share no public base
        raise ModelError(
            f"ONNX Runtime refuses the model: {clean_message(error)}", code="runtime-failed"
        ) from error


def require_providers(providers: Sequence[str]) -> None:
    """Starts each provider on a model of one node.

    Raises:
        DependencyError: One isn't there or doesn't start.
    """
    if tuple(providers) != ("cpu",):
        value = onnx_ir.val("x", onnx_ir.DataType.FLOAT, [1])
        node = onnx_ir.node("Neg", [value])
        result = node.outputs[0]
        result.name, result.dtype, result.shape = "y", onnx_ir.DataType.FLOAT, value.shape
        graph = onnx_ir.Graph([value], [result], nodes=[node], opset_imports={"": OPSET})
        OrtSession(onnx_ir.Model(graph, ir_version=IR_VERSION), providers=providers).close()


def clean_message(error: Exception) -> str:
    """ONNX Runtime's message without its status codes and source positions."""
    text = one_line(error)
    if text.startswith("[ONNXRuntimeError]"):
        text = text.split(" : ", 3)[-1]
    text = re.sub(r"Load model from \S+ failed:", "", text)
    return _SOURCE_POSITION.sub("", text)


def _failed(error: Exception) -> ModelyardError:
    """The error for a run that failed: the machine's where memory was spent, else the model's."""
    said = clean_message(error)
    if ort_gpu.is_out_of_memory(said):
        return MachineError(
            f"ONNX Runtime ran out of memory: {said}",
            code="out-of-memory",
            hint="Use a smaller batch or fewer callers.",
        )
    return ModelError(f"ONNX Runtime failed: {said}", code="runtime-failed")


def _array(value: onnxruntime.OrtValue) -> np.ndarray[Any, Any]:
    """The value's array; ONNX Runtime has no numpy type of its own for bfloat16."""
    if value.data_type() != "tensor(bfloat16)":
        array: np.ndarray[Any, Any] = value.numpy()
        return array
    shape = tuple(value.shape())
    count = math.prod(shape)
    words = (ctypes.c_uint16 * count).from_address(value.data_ptr())
    copied = np.frombuffer(words, np.uint16, count).copy().reshape(shape)
    typed: np.ndarray[Any, Any] = copied.view(ml_dtypes.bfloat16)
    return typed


def _bfloat16_value(array: np.ndarray[Any, Any]) -> onnxruntime.OrtValue:
    element = int(onnx_ir.DataType.BFLOAT16)
    return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(array.view(np.uint16), element)


def _level(name: str) -> onnxruntime.GraphOptimizationLevel:
    member = "ORT_DISABLE_ALL" if name == "none" else f"ORT_ENABLE_{name.upper()}"
    return getattr(onnxruntime.GraphOptimizationLevel, member)


def _provider_names(providers: Sequence[str]) -> list[str]:
    unknown = [name for name in providers if name not in PROVIDERS]
    if unknown:
        raise DependencyError(
            f"unknown execution provider {', '.join(unknown)}",
            code="device-missing",
            hint=f"There are: {', '.join(PROVIDERS)}.",
        )
    return ort_gpu.with_fallbacks([PROVIDERS[name] for name in providers])


def holds_halves(model: onnx_ir.Model) -> bool:
    """Whether any tensor of the main graph is float16."""
    graph = model.graph
    made = (value for node in graph for value in node.outputs)
    values = (*graph.inputs, *graph.initializers.values(), *made)
    return any(value.dtype == onnx_ir.DataType.FLOAT16 for value in values)


def _spec(item: Any, meanings: Mapping[str, Mapping[str, Any]]) -> TensorSpec:
    kind = item.type
    name = _TYPES.get(kind) or kind.removeprefix("tensor(").removesuffix(")")
    shape = tuple(dim if isinstance(dim, int) else (dim or "?") for dim in item.shape)
    return described(TensorSpec(item.name, name, shape), meanings.get(item.name, {}))
