"""ONNX models in Triton, as a backend written in Python: ONNX Runtime's CPU provider.

It takes the place of Triton's compiled `onnxruntime` backend where that isn't there: a model folder
meant for that one loads and serves unmodified. It holds `config.pbtxt` against the ONNX model by
the compiled backend's rules, so that a configuration accepted here is right about names, data types
and shapes.

It runs on the CPU only, copies every tensor through shared memory, and completes no configuration
by itself. GPU instances are refused; of batch outputs and of optional inputs
it knows nothing; a GPU execution accelerator is held to the names, keys and
values that the compiled backend takes, and not used, as on that one's CPU instances; nothing here
says how they or the compiled backend's speed would turn out.

States of sequences (`sequence_batching.state`) come to a Python backend as the core initialized
them, and can't be given back to it. So this backend itself keeps, by correlation id, what a request
leaves, until the sequence ends, starts again, or was idle for long.
"""

from __future__ import annotations

import ctypes
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import triton_python_backend_utils as pb_utils  # type: ignore[import-not-found]
from onnxruntime.capi import onnxruntime_pybind11_state as ort_errors

Array = np.ndarray[Any, Any]

_PLAIN_TYPES = ("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64")
_CONFIG_TYPES = {
    f"tensor({name})": f"TYPE_{name.upper()}" for name in (*_PLAIN_TYPES, "string")
} | {
    "tensor(float16)": "TYPE_FP16",
    "tensor(bfloat16)": "TYPE_BF16",
    "tensor(float)": "TYPE_FP32",
    "tensor(double)": "TYPE_FP64",
}
_ONNX_BFLOAT16 = 16  # onnx.TensorProto.BFLOAT16
_GRAPH_LEVELS = {
    -1: onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    1: onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    2: onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
}
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}

# What the real backend's src/onnxruntime.cc (at 00fd3e8) takes of the accelerator "tensorrt": these
# by name, and these as whole numbers, true or false, or any text.
_TENSORRT_PRECISIONS = ("FP32", "FP16", "BF16", "INT8")
_TENSORRT_NUMBERS, _TENSORRT_BOOLEANS, _TENSORRT_TEXTS = (
    names.split()
    for names in (
        """
        max_workspace_size_bytes trt_max_partition_iterations trt_min_subgraph_size trt_dla_core
        trt_builder_optimization_level trt_auxiliary_streams trt_ep_context_embed_mode
        """,
        """
        int8_use_native_calibration_table trt_dla_enable trt_engine_cache_enable trt_dump_subgraphs
        trt_force_sequential_engine_build trt_context_memory_sharing_enable trt_sparsity_enable
        trt_layer_norm_fp32_fallback trt_timing_cache_enable trt_force_timing_cache
        trt_detailed_build_log trt_build_heuristics_enable trt_cuda_graph_enable
        trt_dump_ep_context_model
        """,
        """
        int8_calibration_table_name trt_engine_cache_path trt_engine_cache_prefix
        trt_timing_cache_path trt_tactic_sources trt_extra_plugin_lib_paths trt_profile_min_shapes
        trt_profile_max_shapes trt_profile_opt_shapes trt_ep_context_file_path
        """,
    )
)


class ConfigError(ValueError):
    """The configuration does not fit the model, or asks for what this backend lacks."""


_ORT_ERRORS = """
EngineError EPFail Fail InvalidArgument InvalidGraph InvalidProtobuf NoModel NoSuchFile NotFound
NotImplemented RuntimeException
"""
_LOAD_ERRORS: tuple[type[Exception], ...] = (
    ConfigError,
    *(getattr(ort_errors, name) for name in _ORT_ERRORS.split()),
)
_RUN_ERRORS: tuple[type[Exception], ...] = (*_LOAD_ERRORS, RuntimeError, TypeError, ValueError)


@dataclass(frozen=True)
class TensorInfo:
    """One input or output as the ONNX model declares it; an open dimension is -1."""

    config_type: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class ConfigTensor:
    """One input or output as `config.pbtxt` declares it, in the shape the model is to see."""

    name: str
    config_type: str
    dims: tuple[int, ...]

    @classmethod
    def parse(cls, tensor: Mapping[str, Any]) -> ConfigTensor:
        """Read an entry of `input` or `output`; a `reshape` is what the model itself sees."""
        dims = tensor["reshape"].get("shape", ()) if "reshape" in tensor else tensor["dims"]
        return cls(tensor["name"], tensor["data_type"], tuple(int(dim) for dim in dims))


class TritonPythonModel:
    """One instance of a model: its own ONNX Runtime session in a process of its own."""

    def initialize(self, args: Mapping[str, str]) -> None:
        """Load the version's ONNX model and refuse a configuration that does not fit it."""
        config = json.loads(args["model_config"])
        self._name = config["name"]
        self._max_batch_size = int(config.get("max_batch_size", 0))
        try:
            _refuse_unsupported(config, args["model_instance_kind"])
            path = _model_path(config, Path(args["model_repository"]) / args["model_version"])
            self._session = onnxruntime.InferenceSession(
                str(path), _session_options(config), providers=["CPUExecutionProvider"]
            )
            self._inputs = _check_inputs(config, self._session)
            self._outputs = _check_outputs(config, self._session)
            self._sequences = Sequences(config)
            self._ragged = RaggedBatches(config)
        except _LOAD_ERRORS as error:
            raise pb_utils.TritonModelException(
                f"unable to load model '{self._name}': {error}"
            ) from error
        self._output_dims = {
            tensor.name: tensor.dims
            for tensor in map(ConfigTensor.parse, [*config["output"], *_state_entries(config)[1]])
        }
        types = {info.config_type for info in [*self._inputs.values(), *self._outputs.values()]}
        self._has_bfloat16 = "TYPE_BF16" in types
        pb_utils.Logger.log_info(
            f"onnxruntime backend in Python: '{self._name}' version {args['model_version']}"
            f" runs {path.name} on ONNX Runtime {onnxruntime.__version__}"
        )

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        """Answer requests, in one run of the model where it takes batches."""
        if self._max_batch_size > 0:
            return self._answer(requests)
        return [self._answer([request])[0] for request in requests]

    def _answer(self, requests: Sequence[Any]) -> list[Any]:
        """Run the model once; what it refuses is refused to every request of the batch."""
        try:
            feeds = [self._sequences.continued(r, self._read(r)) for r in requests]
            sizes = [self._batch_size(feed) for feed in feeds]
            pb_utils.Logger.log_verbose(
                f"onnxruntime backend in Python: '{self._name}' runs {len(requests)} requests,"
                f" batch size {sum(sizes)}"
            )
            outputs = self._run(self._ragged.join(feeds))
            parts = {name: self._split(name, array, sizes) for name, array in outputs.items()}
            for i, request in enumerate(requests):
                self._sequences.keep(request, {name: arrays[i] for name, arrays in parts.items()})
            return [self._respond(request, i, parts) for i, request in enumerate(requests)]
        except _RUN_ERRORS as error:
            # Each response needs an error of its own: sharing one crashes the server.
            refusal = f"model '{self._name}': {error}"
            return [
                pb_utils.InferenceResponse(error=pb_utils.TritonError(refusal)) for _ in requests
            ]

    def _read(self, request: Any) -> dict[str, Array]:
        feed = {}
        for tensor in request.inputs():
            info = self._inputs[tensor.name()]
            array = _to_array(tensor, info.config_type)
            feed[tensor.name()] = array if info.shape else array.reshape(())
        return feed

    def _batch_size(self, feed: Mapping[str, Array]) -> int:
        return next(iter(feed.values())).shape[0] if self._max_batch_size > 0 else 1

    def _run(self, feed: Mapping[str, Array]) -> dict[str, Array]:
        names = list(self._output_dims)
        if not self._has_bfloat16:
            return dict(zip(names, self._session.run(names, dict(feed)), strict=True))
        values = {
            name: _to_ort_value(array, self._inputs[name].config_type)
            for name, array in feed.items()
        }
        results = self._session.run_with_ort_values(names, values)
        return {
            name: _from_ort_value(value, self._outputs[name].config_type)
            for name, value in zip(names, results, strict=True)
        }

    def _split(self, name: str, array: Array, sizes: Sequence[int]) -> list[Array]:
        if self._max_batch_size == 0:
            # Triton has no scalars; the configuration says which shape of ones to give.
            return [array if array.ndim else array.reshape(self._output_dims[name])]
        if array.shape[0] != sum(sizes):
            raise ConfigError(
                f"output '{name}' has shape {list(array.shape)} for a batch of {sum(sizes)}"
            )
        return np.split(array, np.cumsum(sizes[:-1]))

    def _respond(self, request: Any, index: int, parts: Mapping[str, Sequence[Array]]) -> Any:
        wanted = request.requested_output_names()
        return pb_utils.InferenceResponse(
            output_tensors=[
                _to_tensor(name, arrays[index], self._outputs[name].config_type)
                for name, arrays in parts.items()
                if name in wanted
            ]
        )


class RaggedBatches:
    """The inputs whose requests are joined to a row, and those that are made of their lengths."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._ragged = {i["name"] for i in config["input"] if i.get("allow_ragged_batch")}
        self._made = config.get("batch_input", ())

    def join(self, feeds: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
        """What the model runs on."""
        lengths = {name: [feed[name].size for feed in feeds] for name in self._ragged}
        rows = [
            {name: array.ravel() if name in self._ragged else array for name, array in feed.items()}
            for feed in feeds
        ]
        joined = _join(rows)
        for entry in self._made:
            values = _batch_input(entry["kind"], lengths[entry["source_input"][0]])
            dtype = {"TYPE_INT32": np.int32, "TYPE_FP32": np.float32}[entry["data_type"]]
            joined |= {name: values.astype(dtype) for name in entry["target_name"]}
        return joined


def _batch_input(kind: str, counts: Sequence[int]) -> Array:
    """What the real backend makes of the requests' element counts."""
    if kind == "BATCH_ELEMENT_COUNT":
        return np.array(counts)
    if kind == "BATCH_ACCUMULATED_ELEMENT_COUNT":
        return np.cumsum(counts)
    if kind == "BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO":
        return np.cumsum([0, *counts])
    if kind == "BATCH_MAX_ELEMENT_COUNT_AS_SHAPE":
        return np.zeros(max(counts))
    raise ConfigError(f"batch input kind '{kind}' isn't in this backend")


class Sequences:
    """The states of the sequences that this instance serves: the core sends all of a sequence here.

    The core gives a sequence up when it was idle, and doesn't say so. What was idle for longer than
    that twice is dropped: a request that reached the core in time may have waited there as long.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        batching = config.get("sequence_batching", {})
        states = batching.get("state", ())
        self._pairs = [(state["input_name"], state["output_name"]) for state in states]
        self._longest = 2e-6 * int(batching.get("max_sequence_idle_microseconds") or _USUAL_IDLE)
        self._kept: dict[Any, tuple[float, dict[str, Array]]] = {}  # the longest idle first

    def continued(self, request: Any, feed: dict[str, Array]) -> dict[str, Array]:
        """A request's feed with its sequence's states; the core's own where it starts one."""
        if not self._pairs or not request.correlation_id() or request.flags() & _START:
            return feed
        if request.correlation_id() not in self._kept:
            raise ConfigError(f"there is no state of sequence {request.correlation_id()}")
        return feed | self._kept[request.correlation_id()][1]

    def keep(self, request: Any, outputs: Mapping[str, Array]) -> None:
        """Keeps what a request leaves; of a sequence that has ended, nothing."""
        if not self._pairs or not request.correlation_id():
            return
        now = time.monotonic()
        self._kept.pop(request.correlation_id(), None)
        if not request.flags() & _END:
            left = {into: np.array(outputs[out]) for into, out in self._pairs}
            self._kept[request.correlation_id()] = now, left
        idle = takewhile(lambda item: now - item[1][0] > self._longest, self._kept.items())
        for number, _ in list(idle):
            del self._kept[number]


_USUAL_IDLE = 1_000_000  # the core's, where max_sequence_idle_microseconds is left out
_START, _END = 1, 2  # TRITONSERVER_REQUEST_FLAG_SEQUENCE_START and _END


def _state_entries(config: Mapping[str, Any]) -> tuple[list[Any], list[Any]]:
    """States as entries of `input` and `output` are."""
    states = config.get("sequence_batching", {}).get("state", ())
    kinds = ("input_name", "output_name")
    inputs, outputs = ([{**state, "name": state[kind]} for state in states] for kind in kinds)
    return inputs, outputs


def _refuse_unsupported(config: Mapping[str, Any], instance_kind: str) -> None:
    """Refuse loudly what would otherwise seem to have been tested."""
    if instance_kind == "GPU":
        raise ConfigError("this backend has no GPU instances")
    accelerators = config.get("optimization", {}).get("execution_accelerators", {})
    for accelerator in accelerators.get("gpu_execution_accelerator", ()):
        if accelerator["name"] != "tensorrt":
            raise ConfigError(f"unknown Execution Accelerator '{accelerator['name']}' is requested")
        _check_tensorrt(accelerator.get("parameters", {}))


def _check_tensorrt(parameters: Mapping[str, str]) -> None:
    """Hold the accelerator's parameters to what the real backend takes on a GPU."""
    for key, value in parameters.items():
        if key == "precision_mode":
            if value not in _TENSORRT_PRECISIONS:
                raise ConfigError(f"unsupported precision mode '{value}' is requested")
        elif key in _TENSORRT_NUMBERS:
            _integer(parameters, key)
        elif key in _TENSORRT_BOOLEANS:
            _boolean(parameters, key)
        elif key not in _TENSORRT_TEXTS:
            raise ConfigError(
                f"unknown parameter '{key}' is provided for TensorRT Execution Accelerator"
            )
    _check_profiles([parameters.get(f"trt_profile_{which}_shapes") for which in _PROFILE_ENDS])


_PROFILE_ENDS = ("min", "opt", "max")


def _check_profiles(texts: Sequence[str | None]) -> None:
    """Hold profile shapes to ONNX Runtime's form: NAME:DIMxDIM,... with the same names in all."""
    if all(text is None for text in texts):
        return
    found = []
    for text in texts:
        parts = [part.rpartition(":") for part in (text or "").split(",")]
        try:
            found.append(
                [(name, [int(size) for size in sizes.split("x")]) for name, _, sizes in parts]
            )
        except ValueError:
            raise ConfigError(f"profile shapes '{text}' are not NAME:DIMxDIM,...") from None
    names = [[name for name, _ in shapes] for shapes in found]
    if names[0] != names[1] or names[1] != names[2] or "" in names[0]:
        raise ConfigError(f"profile shapes name different inputs: {names}")
    for (name, low), (_, best), (_, high) in zip(*found, strict=True):
        if not all(a <= b <= c for a, b, c in zip(low, best, high, strict=True)):
            raise ConfigError(f"profile shapes of '{name}' are not in order: {low} {best} {high}")


def _model_path(config: Mapping[str, Any], version: Path) -> Path:
    path = version / (config.get("default_model_filename") or "model.onnx")
    if path.is_dir():
        path /= "model.onnx"
    if not path.is_file():
        raise ConfigError(f"unable to find '{path}'")
    return path


def _session_options(config: Mapping[str, Any]) -> onnxruntime.SessionOptions:
    parameters = {
        name: value["string_value"] for name, value in config.get("parameters", {}).items()
    }
    options = onnxruntime.SessionOptions()
    level = int(config.get("optimization", {}).get("graph", {}).get("level", 0))
    options.graph_optimization_level = _GRAPH_LEVELS.get(
        level, onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    )
    options.intra_op_num_threads = max(0, _integer(parameters, "intra_op_thread_count"))
    options.inter_op_num_threads = max(0, _integer(parameters, "inter_op_thread_count"))
    options.enable_cpu_mem_arena = _boolean(parameters, "enable_mem_arena")
    options.enable_mem_pattern = _boolean(parameters, "enable_mem_pattern")
    return options


def _integer(parameters: Mapping[str, str], name: str) -> int:
    text = parameters.get(name, "0")
    try:
        return int(text)
    except ValueError:
        raise ConfigError(f"parameter '{name}' must be a whole number, not '{text}'") from None


def _boolean(parameters: Mapping[str, str], name: str) -> bool:
    text = parameters.get(name, "true")
    if text.lower() not in _BOOLEANS:
        raise ConfigError(f"parameter '{name}' must be true or false, not '{text}'")
    return _BOOLEANS[text.lower()]


def _check_inputs(
    config: Mapping[str, Any], session: onnxruntime.InferenceSession
) -> dict[str, TensorInfo]:
    """Hold the configured inputs against the model's; open dimensions may be pinned."""
    known = _tensor_infos(session.get_inputs())
    entries = [*config["input"], *_state_entries(config)[0]]
    tensors = [ConfigTensor.parse(tensor) for tensor in entries]
    controls = config.get("sequence_batching", {}).get("control_input", ())
    expected = len(tensors) + len(controls) + len(config.get("batch_input", ()))
    if expected != len(known):
        raise ConfigError(f"configuration expects {expected} inputs, model provides {len(known)}")
    for control in controls:
        if control["name"] not in known:
            raise ConfigError(f"sequence control '{control['name']}' isn't an input of the model")
    batches = int(config.get("max_batch_size", 0)) > 0
    ragged = {entry["name"] for entry in entries if entry.get("allow_ragged_batch")}
    for tensor in tensors:
        if tensor.name in ragged and known[tensor.name].shape != (-1,):
            raise ConfigError(
                "configuration expects model provides input with shape [-1] for ragged input"
                f" '{tensor.name}', model provides {list(known[tensor.name].shape)}"
            )
        _check_tensor("input", tensor, known, batches and tensor.name not in ragged)
    return known


def _check_outputs(
    config: Mapping[str, Any], session: onnxruntime.InferenceSession
) -> dict[str, TensorInfo]:
    """Hold the configured outputs, which may be a part of the model's, against the model's."""
    known = _tensor_infos(session.get_outputs())
    batches = int(config.get("max_batch_size", 0)) > 0
    for tensor in map(ConfigTensor.parse, config["output"]):
        _check_tensor("output", tensor, known, batches)
    return known


def _tensor_infos(arguments: Sequence[onnxruntime.NodeArg]) -> dict[str, TensorInfo]:
    infos = {}
    for argument in arguments:
        if argument.type.split("(")[0] != "tensor":
            raise ConfigError(f"'{argument.name}' is not a tensor but {argument.type}")
        shape = tuple(dim if isinstance(dim, int) else -1 for dim in argument.shape)
        config_type = _CONFIG_TYPES.get(argument.type, "TYPE_INVALID")
        infos[argument.name] = TensorInfo(config_type, shape)
    return infos


def _check_tensor(
    kind: str, tensor: ConfigTensor, known: Mapping[str, TensorInfo], batches: bool
) -> None:
    if tensor.name not in known:
        allowed = ", ".join(sorted(known))
        raise ConfigError(
            f"unexpected inference {kind} '{tensor.name}', allowed {kind}s are: {allowed}"
        )
    info = known[tensor.name]
    if tensor.config_type != info.config_type:
        raise ConfigError(
            f"configuration expects datatype {tensor.config_type} for {kind} '{tensor.name}',"
            f" model provides {info.config_type}"
        )
    if info.shape:
        _check_shape(tensor, info.shape, batches, exact=kind == "output")
    elif batches or any(dim != 1 for dim in tensor.dims):
        raise ConfigError(
            f"scalar tensor '{tensor.name}' needs max_batch_size 0 and dimensions of 1 only,"
            f" not {list(tensor.dims)}"
        )


def _check_shape(
    tensor: ConfigTensor, model_shape: tuple[int, ...], batches: bool, *, exact: bool
) -> None:
    """Compare shapes as the real backend does: an output's open dimensions must stay open."""
    if batches and model_shape[0] != -1:
        raise ConfigError(
            f"tensor '{tensor.name}': for the model to support batching its first dimension"
            f" must be -1, but the model's shape is {list(model_shape)}"
        )
    dims = (-1, *tensor.dims) if batches else tensor.dims
    fits = len(dims) == len(model_shape) and all(
        configured == modelled or (modelled == -1 and not exact)
        for configured, modelled in zip(dims, model_shape, strict=True)
    )
    if not fits:
        batch_note = " (with the batch dimension that max_batch_size adds)" if batches else ""
        raise ConfigError(
            f"tensor '{tensor.name}': the model expects {len(model_shape)} dimensions"
            f" (shape {list(model_shape)}) but the model configuration specifies {len(dims)}"
            f" dimensions (shape {list(dims)}){batch_note}"
        )


def _join(feeds: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
    if len(feeds) == 1:
        return dict(feeds[0])
    return {name: np.concatenate([feed[name] for feed in feeds]) for name in feeds[0]}


def _to_array(tensor: Any, config_type: str) -> Array:
    """Read a request's tensor; bfloat16, which NumPy lacks, as its bits."""
    if config_type == "TYPE_BF16":
        value = onnxruntime.OrtValue.from_dlpack(tensor.to_dlpack())
        return _from_ort_value(value, config_type)
    array: Array = tensor.as_numpy()
    if config_type != "TYPE_STRING":
        return array
    return _map_elements(lambda element: bytes(element).decode("utf-8"), array)


def _to_tensor(name: str, array: Array, config_type: str) -> Any:
    if config_type == "TYPE_BF16":
        return pb_utils.Tensor.from_dlpack(name, _to_dlpack(_to_ort_value(array, config_type)))
    if config_type == "TYPE_STRING":
        return pb_utils.Tensor(name, _map_elements(lambda text: str(text).encode("utf-8"), array))
    return pb_utils.Tensor(name, np.ascontiguousarray(array))


def _map_elements(change: Callable[[Any], Any], array: Array) -> Array:
    changed = np.empty(array.size, dtype=object)
    changed[:] = [change(element) for element in array.flat]
    return changed.reshape(array.shape)


def _to_ort_value(array: Array, config_type: str) -> onnxruntime.OrtValue:
    if config_type != "TYPE_BF16":
        return onnxruntime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array))
    # Made over the array's own memory it would not keep that memory alive, so copy.
    value = onnxruntime.OrtValue.ortvalue_from_shape_and_type(list(array.shape), _ONNX_BFLOAT16)
    ctypes.memmove(value.data_ptr(), array.tobytes(), array.nbytes)
    return value


def _from_ort_value(value: onnxruntime.OrtValue, config_type: str) -> Array:
    if config_type != "TYPE_BF16":
        array: Array = value.numpy()
        return array
    shape = value.shape()
    size = int(np.prod(shape, dtype=np.int64))
    bits = ctypes.string_at(value.data_ptr(), 2 * size)
    return np.frombuffer(bits, dtype=np.uint16).reshape(shape)


def _to_dlpack(value: onnxruntime.OrtValue) -> Any:
    """ONNX Runtime exports its values by DLPack only from the class under the public one."""
    return value._get_c_value().to_dlpack()
