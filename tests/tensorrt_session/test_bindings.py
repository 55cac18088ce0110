"""What is asked of the library by name is there in its bindings, where they can be imported."""

from __future__ import annotations

from pathlib import Path

import pytest

from converter.errors import DependencyError, ModelError
from emitters.tensorrt.cuda import Device
from emitters.tensorrt.engine import _INVALID, DTYPES, Engine

trt = pytest.importorskip("tensorrt_rtx")

_NAMES = {
    "Runtime": ("deserialize_cuda_engine", "get_engine_validity"),
    "ICudaEngine": (
        "get_tensor_name", "num_io_tensors", "get_tensor_mode", "get_tensor_dtype",
        "get_tensor_shape", "get_tensor_location", "get_tensor_profile_shape",
        "num_optimization_profiles", "device_memory_size_v2", "create_engine_inspector",
        "create_execution_context", "create_runtime_config",
    ),
    "IExecutionContext": (
        "set_optimization_profile_async", "set_input_shape", "infer_shapes", "get_tensor_shape",
        "set_tensor_address", "set_output_allocator", "execute_async_v3", "is_stream_capturable",
    ),
    "IRuntimeConfig": (
        "cuda_graph_strategy", "dynamic_shapes_kernel_specialization_strategy",
        "create_runtime_cache", "set_runtime_cache",
    ),
    "IRuntimeCache": ("serialize", "deserialize"),
    "EngineInspector": ("get_engine_information",),
    "CudaGraphStrategy": ("DISABLED", "WHOLE_GRAPH_CAPTURE"),
    "DynamicShapesKernelSpecializationStrategy": ("EAGER",),
    "EngineValidity": ("INVALID",),
    "TensorIOMode": ("INPUT", "OUTPUT"),
    "TensorLocation": ("HOST",),
    "LayerInformationFormat": ("JSON",),
}  # fmt: skip

DEVICE = Device(0, "no device", "9.0", 0, "13.0", None)


@pytest.mark.parametrize("kind", _NAMES)
def test_names(kind: str) -> None:
    missing = [name for name in _NAMES[kind] if not hasattr(getattr(trt, kind), name)]
    assert not missing


def test_types() -> None:
    assert DTYPES.keys() <= trt.DataType.__members__.keys()
    assert _INVALID.keys() == trt.EngineInvalidityDiagnostics.__members__.keys()


def test_the_library_s_verdict_on_what_is_no_engine(tmp_path: Path) -> None:
    plan = tmp_path / "model.plan"
    plan.write_bytes(b"no engine at all" * 10)
    with pytest.raises(ModelError, match=r"refuses the engine model\.plan: MALFORMED_ENGINE"):
        Engine(plan, "tensorrt_rtx", DEVICE, cuda_graph=False, runtime_cache=None)


def test_no_library(tmp_path: Path) -> None:
    with pytest.raises(DependencyError, match="needs the Python package tensorrt_absent"):
        Engine(tmp_path / "p", "tensorrt_absent", DEVICE, cuda_graph=False, runtime_cache=None)
