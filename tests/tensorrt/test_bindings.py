"""Every name of the vendor's that we use is in the bindings of 10.x, 11.x and TensorRT-RTX."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import emitters.tensorrt
from emitters.tensorrt.child_settings import _FLAGS, _HARDWARE
from emitters.tensorrt.engine import _INVALID
from emitters.tensorrt.engine_script.running import DTYPES
from tests.tensorrt.bindings import names

FOLDER = Path(emitters.tensorrt.__file__).parent
VERSIONS = ("10.16.1.11", "11.4.0.106", "rtx")
MODULES = ("trt", "self.library", "library")

USES = {
    "building": ("build_child.py child_settings.py child_network.py", {
        "config": "IBuilderConfig", "builder": "Builder", "network": "INetworkDefinition",
        "parser": "OnnxParser", "error": "ParserError", "layer": "ILayer", "tensor": "ITensor",
        "made": "IOptimizationProfile",
    }),
    "script": ("engine_script/running.py engine_script/building.py", {
        "self._runtime": "Runtime", "self._engine": "ICudaEngine",
        "self._context": "IExecutionContext", "context": "IExecutionContext",
        "builder": "Builder", "network": "INetworkDefinition", "parser": "OnnxParser",
    }),
    "loading": ("engine.py", {
        "self._runtime": "Runtime", "self._engine": "ICudaEngine", "inspector": "EngineInspector",
        "config": "IRuntimeConfig", "self._cache": "IRuntimeCache", "refitter": "Refitter",
        "parser": "OnnxParserRefitter", "strategy": "CudaGraphStrategy",
    }),
    "running": ("execution_context.py", {"self._context": "IExecutionContext"}),
}  # fmt: skip
"""Files, and what their variables hold. Names are all that can be looked at without a GPU: the part
of ``build_engine.py`` that runs an engine has not been run."""

ONLY_SOME = {
    ("", "ComputeCapability"),  # TensorRT-RTX alone, and asked for by name first
    ("IBuilderConfig", "num_compute_capabilities"),
    ("IBuilderConfig", "set_compute_capability"),
    ("ICudaEngine", "device_memory_size"),  # of older ones, where there is no other
    ("", "init_libnvinfer_plugins"),  # not TensorRT-RTX, and asked for by name first
}
RTX_ALONE = {
    "CudaGraphStrategy", "DynamicShapesKernelSpecializationStrategy", "EngineValidity",
    "EngineInvalidityDiagnostics", "IRuntimeCache", "IRuntimeConfig", "create_runtime_config",
    "get_engine_validity", "is_stream_capturable",
}  # fmt: skip
"""Classes and methods of a session, asked for where the class or the library has them."""
OTHERS = {("ParserError", "missing"), ("ParserError", "kind")}  # other exceptions of that name


def used(part: str) -> Iterator[tuple[str, str]]:
    """Class (``""`` for the module) and attribute, for each use in files."""
    files, held_by = USES[part]
    trees = [ast.parse((FOLDER / file).read_text()) for file in files.split()]
    for node in (node for tree in trees for node in ast.walk(tree)):
        if isinstance(node, ast.Attribute):
            owner = ast.unparse(node.value)
            module, _, name = owner.rpartition(".")
            if owner in MODULES and not node.attr.startswith("__"):  # of the package around it
                yield "", node.attr
            elif owner in held_by:
                yield held_by[owner], node.attr
            elif module in MODULES and name.isidentifier():
                yield name, node.attr


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("part", USES)
def test_every_name_is_there(version: str, part: str) -> None:
    known, wanted = names(version), set(used(part)) - OTHERS
    assert len(wanted) > 5
    missing = {(owner, name) for owner, name in wanted if name not in known.get(owner, ())}
    if version != "rtx":
        missing = {found for found in missing if not RTX_ALONE.intersection(found)}
    assert missing <= ONLY_SOME


@pytest.mark.parametrize("version", VERSIONS)
def test_every_name_of_a_table_is_there(version: str) -> None:
    known = names(version)
    assert set(_FLAGS.values()) | {"TF32"} <= known["BuilderFlag"]
    assert set(_HARDWARE.values()) <= known["HardwareCompatibilityLevel"]
    assert "STRONGLY_TYPED" in known["NetworkDefinitionCreationFlag"]
    assert known["DataType"] >= DTYPES.keys()
    assert version != "rtx" or known["EngineInvalidityDiagnostics"] >= _INVALID.keys()


def test_what_the_versions_differ_in() -> None:
    """Why no precision flag may be relied on: they are gone from 11 and TensorRT-RTX."""
    old, new, rtx = (names(version) for version in VERSIONS)
    assert {"FP16", "INT8", "BF16"} <= old["BuilderFlag"]
    assert not {"FP16", "INT8", "BF16"} & (new["BuilderFlag"] | rtx["BuilderFlag"])
    assert "int8_calibrator" in old["IBuilderConfig"] - new["IBuilderConfig"]
    assert "ComputeCapability" in rtx[""] - new[""] - old[""]
