"""Every name of the vendor's that we use is in the bindings of 10.x, 11.x and TensorRT-RTX."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import emitters.tensorrt
from emitters.tensorrt.child_settings import _FLAGS, _HARDWARE
from tests.tensorrt.bindings import names

FOLDER = Path(emitters.tensorrt.__file__).parent
FILES = ("build_child.py", "child_settings.py", "child_network.py")
SCRIPT = ("engine_script/running.py", "engine_script/building.py")
VERSIONS = ("10.16.1.11", "11.4.0.106", "rtx")

HELD_BY = {
    "config": "IBuilderConfig",
    "builder": "Builder",
    "network": "INetworkDefinition",
    "parser": "OnnxParser",
    "error": "ParserError",
    "layer": "ILayer",
    "tensor": "ITensor",
    "made": "IOptimizationProfile",
}
SCRIPT_HELD_BY = {
    "self._runtime": "Runtime",
    "self._engine": "ICudaEngine",
    "self._context": "IExecutionContext",
    "context": "IExecutionContext",
    "builder": "Builder",
    "network": "INetworkDefinition",
    "parser": "OnnxParser",
}
"""What the variables of those files hold."""

ONLY_SOME = {
    ("", "ComputeCapability"),  # TensorRT-RTX alone, and asked for by name first
    ("IBuilderConfig", "num_compute_capabilities"),
    ("IBuilderConfig", "set_compute_capability"),
    ("", "init_libnvinfer_plugins"),  # not TensorRT-RTX, and asked for by name first
}
OTHERS = {("ParserError", "missing"), ("ParserError", "kind")}  # other exceptions of that name


def used(held_by: dict[str, str], *files: str) -> Iterator[tuple[str, str]]:
    """Class (``""`` for the module) and attribute, for each use in files."""
    nodes = (node for file in files for node in ast.walk(ast.parse((FOLDER / file).read_text())))
    for node in nodes:
        if isinstance(node, ast.Attribute):
            owner = ast.unparse(node.value)
            if owner == "trt" and not node.attr.startswith("__"):  # of the package around it
                yield "", node.attr
            elif owner in held_by:
                yield held_by[owner], node.attr
            elif owner.startswith("trt.") and owner[4:].isidentifier():
                yield owner[4:], node.attr


@pytest.mark.parametrize("version", VERSIONS)
def test_every_name_is_there(version: str) -> None:
    known = names(version)
    wanted = set(used(HELD_BY, *FILES)) - OTHERS
    assert len(wanted) > 30
    missing = {(owner, name) for owner, name in wanted if name not in known.get(owner, ())}
    assert missing <= ONLY_SOME
    assert set(_FLAGS.values()) | {"TF32"} <= known["BuilderFlag"]
    assert set(_HARDWARE.values()) <= known["HardwareCompatibilityLevel"]
    assert "STRONGLY_TYPED" in known["NetworkDefinitionCreationFlag"]


@pytest.mark.parametrize("version", VERSIONS)
def test_every_name_of_the_script_is_there(version: str) -> None:
    """Names are all that can be looked at without a GPU: the part of ``build_engine.py`` that runs
    an engine has not been run."""
    known, wanted = names(version), set(used(SCRIPT_HELD_BY, *SCRIPT))
    assert ("IExecutionContext", "execute_async_v3") in wanted
    assert ("Builder", "build_serialized_network") in wanted
    missing = {(owner, name) for owner, name in wanted if name not in known.get(owner, ())}
    assert missing <= {("", "init_libnvinfer_plugins")}  # asked for by name first


def test_what_the_versions_differ_in() -> None:
    """Why no precision flag may be relied on: they are gone from 11 and TensorRT-RTX."""
    old, new, rtx = (names(version) for version in VERSIONS)
    assert {"FP16", "INT8", "BF16"} <= old["BuilderFlag"]
    assert not {"FP16", "INT8", "BF16"} & (new["BuilderFlag"] | rtx["BuilderFlag"])
    assert "int8_calibrator" in old["IBuilderConfig"] - new["IBuilderConfig"]
    assert "ComputeCapability" in rtx[""] - new[""] - old[""]
