"""Stands in for the TensorRT module where there is no GPU: an "engine" is an ONNX file that ONNX
Runtime runs on the CPU, on memory that the stand-in driver gave.

It answers what :mod:`emitters.tensorrt.engine` and ``lane`` ask, with the names, arguments and
rules of the bindings of TensorRT 10.16 and 11.4: addresses have to be set, shapes have to fit the
profile, an output of unknown size asks its allocator. What it doesn't exercise: kernels, tactics,
real streams, anything about speed.

A plan is JSON: ``{"onnx": base64, "profiles": [{"x": [min, best, max]}]}``. Integers of one axis or
none are read in the host's memory, as the library does with what decides shapes.
"""

from __future__ import annotations

import base64
import ctypes
import enum
import json
from typing import Any

import numpy as np
import onnx
import onnxruntime

__version__ = "10.16.1.11"


# As the library's, of the types those of the tests.
TensorIOMode = enum.Enum("TensorIOMode", "NONE INPUT OUTPUT", start=0)
TensorLocation = enum.Enum("TensorLocation", "DEVICE HOST", start=0)
LayerInformationFormat = enum.Enum("LayerInformationFormat", "ONELINE JSON", start=0)


class DataType(enum.Enum):
    """By what ONNX Runtime calls them."""

    FLOAT = "tensor(float)"
    HALF = "tensor(float16)"
    INT64 = "tensor(int64)"
    FP8 = "tensor(float8e4m3fn)"


class ILogger:
    """As the library's: to be derived from."""

    Severity = enum.Enum("Severity", "INTERNAL_ERROR ERROR WARNING INFO VERBOSE", start=0)

    def log(self, severity: enum.Enum, msg: str) -> None:
        raise NotImplementedError


class IOutputAllocator:
    """As the library's: to be derived from."""


class Runtime:
    """Deserializes plans."""

    def __init__(self, logger: ILogger) -> None:
        self._logger = logger

    def deserialize_cuda_engine(self, serialized_engine: bytes) -> Engine | None:
        """The engine; None, and a line in the log, for what is none."""
        try:
            plan = json.loads(serialized_engine)
        except ValueError:
            self._logger.log(ILogger.Severity.ERROR, "magic tag does not match")
            return None
        self._logger.log(ILogger.Severity.INFO, "loaded")
        return Engine(plan, self._logger)


class Engine:
    """``ICudaEngine``."""

    device_memory_size_v2 = 1 << 20

    def __init__(self, plan: dict[str, Any], logger: ILogger) -> None:
        self.session = onnxruntime.InferenceSession(
            base64.b64decode(plan["onnx"]), providers=["CPUExecutionProvider"]
        )
        nodes = onnx.load_from_string(base64.b64decode(plan["onnx"])).graph.node
        self.operators = {node.op_type for node in nodes}
        self.logger = logger
        self.ranges = plan["profiles"]
        self.num_optimization_profiles = max(1, len(self.ranges))
        self.inputs = {item.name: item for item in self.session.get_inputs()}
        self.outputs = {item.name: item for item in self.session.get_outputs()}
        self.tensors = {**self.inputs, **self.outputs}
        self.num_io_tensors = len(self.tensors)

    def get_tensor_name(self, index: int) -> str:
        return list(self.tensors)[index]

    def get_tensor_mode(self, name: str) -> TensorIOMode:
        return TensorIOMode.INPUT if name in self.inputs else TensorIOMode.OUTPUT

    def get_tensor_dtype(self, name: str) -> DataType:
        return DataType(self.tensors[name].type)

    def get_tensor_shape(self, name: str) -> tuple[int, ...]:
        """Its shape, -1 for what is free."""
        return tuple(dim if isinstance(dim, int) else -1 for dim in self.tensors[name].shape)

    def get_tensor_location(self, name: str) -> TensorLocation:
        sizes = name in self.inputs and self.get_tensor_dtype(name) == DataType.INT64
        host = sizes and len(self.get_tensor_shape(name)) < 2
        return TensorLocation.HOST if host else TensorLocation.DEVICE

    def get_tensor_profile_shape(self, name: str, profile_index: int) -> list[tuple[int, ...]]:
        return [tuple(shape) for shape in self.ranges[profile_index][name]]

    def create_execution_context(self) -> Context:
        return Context(self)

    def create_engine_inspector(self) -> Inspector:
        return Inspector()


class Inspector:
    """``EngineInspector``."""

    def get_engine_information(self, format: LayerInformationFormat) -> str:
        assert format == LayerInformationFormat.JSON
        return json.dumps({"Layers": [{"Name": "conv"}], "Bindings": []})


class Context:
    """``IExecutionContext``."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._profile = 0
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._addresses: dict[str, int] = {}
        self._allocators: dict[str, Any] = {}

    def set_optimization_profile_async(self, profile_index: int, stream_handle: int) -> bool:
        """Changes the profile; shapes have to be set again."""
        self._profile, self._shapes = profile_index, {}
        return bool(stream_handle)

    def set_input_shape(self, name: str, shape: tuple[int, ...]) -> bool:
        assert isinstance(shape, tuple)
        if self._engine.ranges and name in self._engine.ranges[self._profile]:
            low, _, high = self._engine.ranges[self._profile][name]
            if not all(a <= b <= c for a, b, c in zip(low, shape, high, strict=True)):
                self._engine.logger.log(ILogger.Severity.ERROR, "shape outside the profile")
                return False
        self._shapes[name] = shape
        return True

    def infer_shapes(self) -> list[str]:
        """The inputs without a shape."""
        return [name for name in self._engine.inputs if name not in self._shapes]

    def get_tensor_shape(self, name: str) -> tuple[int, ...]:
        """With what the inputs' shapes say of free dimensions; -1 where they say nothing."""
        if name in self._shapes:
            return self._shapes[name]
        known = {
            dim: size
            for item in self._engine.inputs.values()
            for dim, size in zip(item.shape, self._shapes[item.name], strict=True)
        }
        shape = self._engine.outputs[name].shape
        if self._decided():
            return self._sized(name)
        return tuple(known.get(dim, -1) if isinstance(dim, str) else dim for dim in shape)

    def _decided(self) -> bool:
        """Whether there are inputs that decide shapes, and all their values are there."""
        location = self._engine.get_tensor_location
        names = {name for name in self._engine.inputs if location(name) == TensorLocation.HOST}
        return bool(names) and names <= self._addresses.keys()

    def _sized(self, name: str) -> tuple[int, ...]:
        """An output's shape for these values: the rest are zeros."""
        feeds = {}
        for item in self._engine.inputs:
            on_host = self._engine.get_tensor_location(item) == TensorLocation.HOST
            feeds[item] = self._read(item) if on_host else np.zeros_like(self._empty(item))
        (value,) = self._engine.session.run([name], feeds)
        return tuple(value.shape)

    def set_tensor_address(self, name: str, memory: int) -> bool:
        self._addresses[name] = memory
        return memory != 0

    def set_output_allocator(self, name: str, output_allocator: IOutputAllocator) -> bool:
        self._allocators[name] = output_allocator
        return True

    def execute_async_v3(self, stream_handle: int) -> bool:
        if not stream_handle or self.infer_shapes():
            return False
        # The stand-in driver's stream begins with whether it is alive, and whether it captures.
        if "Loop" in self._engine.operators and (ctypes.c_int * 2).from_address(stream_handle)[1]:
            return False
        feeds = {name: self._read(name) for name in self._engine.inputs}
        values = self._engine.session.run(list(self._engine.outputs), feeds)
        for name, value in zip(self._engine.outputs, values, strict=True):
            self._write(name, np.ascontiguousarray(value), stream_handle)
        return True

    def _empty(self, name: str) -> np.ndarray[Any, Any]:
        dtypes = {DataType.FLOAT: "float32", DataType.HALF: "float16", DataType.INT64: "int64"}
        return np.empty(self._shapes[name], np.dtype(dtypes[self._engine.get_tensor_dtype(name)]))

    def _read(self, name: str) -> np.ndarray[Any, Any]:
        array = self._empty(name)
        on_host = self._engine.get_tensor_location(name) == TensorLocation.HOST
        address = ctypes.c_uint64(self._addresses[name])
        assert on_host != bool(ctypes.CDLL("libcuda.so.1").holds(address))
        ctypes.memmove(array.ctypes.data, self._addresses[name], array.nbytes)
        return array

    def _write(self, name: str, value: np.ndarray[Any, Any], stream: int) -> None:
        address = self._addresses.get(name, 0)
        if name in self._allocators:
            allocator = self._allocators[name]
            address = allocator.reallocate_output_async(name, 0, value.nbytes, 256, stream)
            allocator.notify_shape(name, value.shape)
        ctypes.memmove(address, value.ctypes.data, value.nbytes)
