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
"""What the variables of those files hold."""

ONLY_SOME = {
    ("", "ComputeCapability"),  # TensorRT-RTX alone, and asked for by name first
    ("IBuilderConfig", "num_compute_capabilities"),
    ("IBuilderConfig", "set_compute_capability"),
    ("", "init_libnvinfer_plugins"),  # not TensorRT-RTX, and asked for by name first
}
OTHERS = {("ParserError", "missing"), ("ParserError", "kind")}  # other exceptions of that name


def used(file: str) -> Iterator[tuple[str, str]]:
    """Class (``""`` for the module) and attribute, for each use in a file."""
    for node in ast.walk(ast.parse((FOLDER / file).read_text())):
        if not isinstance(node, ast.Attribute):
            continue
        owner = node.value
        if isinstance(owner, ast.Name) and owner.id == "trt":
            if not node.attr.startswith("__"):  # of the package around the bindings
                yield "", node.attr
        elif isinstance(owner, ast.Name) and owner.id in HELD_BY:
            yield HELD_BY[owner.id], node.attr
        elif (
            isinstance(owner, ast.Attribute)
            and isinstance(owner.value, ast.Name)
            and owner.value.id == "trt"
        ):
            yield owner.attr, node.attr


@pytest.mark.parametrize("version", VERSIONS)
def test_every_name_is_there(version: str) -> None:
    known = names(version)
    wanted = {item for file in FILES for item in used(file)} - OTHERS
    assert len(wanted) > 30
    missing = {(owner, name) for owner, name in wanted if name not in known.get(owner, ())}
    assert missing <= ONLY_SOME


@pytest.mark.parametrize("version", VERSIONS)
def test_every_flag_and_level_is_there(version: str) -> None:
    known = names(version)
    assert set(_FLAGS.values()) | {"TF32"} <= known["BuilderFlag"]
    assert set(_HARDWARE.values()) <= known["HardwareCompatibilityLevel"]


@pytest.mark.parametrize("version", VERSIONS)
def test_networks_can_be_strongly_typed(version: str) -> None:
    assert "STRONGLY_TYPED" in names(version)["NetworkDefinitionCreationFlag"]


def test_what_the_versions_differ_in() -> None:
    """Why no precision flag may be relied on: they are gone from 11 and TensorRT-RTX."""
    old, new, rtx = (names(version) for version in VERSIONS)
    assert {"FP16", "INT8", "BF16"} <= old["BuilderFlag"]
    assert not {"FP16", "INT8", "BF16"} & (new["BuilderFlag"] | rtx["BuilderFlag"])
    assert "int8_calibrator" in old["IBuilderConfig"] - new["IBuilderConfig"]
    assert "ComputeCapability" in rtx[""] - new[""] - old[""]
