"""Every name of the vendor's that ``build_engine.py`` uses is in the bindings of 10, 11 and RTX.

Names are all that can be looked at without a GPU: the part that runs an engine has not been run.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import emitters.tensorrt.engine_script
from tests.tensorrt.bindings import names

FOLDER = Path(emitters.tensorrt.engine_script.__file__).parent

HELD_BY = {
    "trt": "",
    "self._runtime": "Runtime",
    "self._engine": "ICudaEngine",
    "self._context": "IExecutionContext",
    "context": "IExecutionContext",
    "trt.ILogger": "ILogger",
    "builder": "Builder",
    "network": "INetworkDefinition",
    "parser": "OnnxParser",
}
"""What the expressions of those files hold."""

OTHERS = {("", "__name__"), ("", "__version__"), ("", "init_libnvinfer_plugins")}
"""Of every module; and what is asked for by name first."""


def used(file: str) -> set[tuple[str, str]]:
    """The class and the attribute of every use."""
    tree = ast.parse((FOLDER / file).read_text())
    found = {
        (HELD_BY[held], node.attr)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and (held := ast.unparse(node.value)) in HELD_BY
    }
    return found - OTHERS


def test_the_uses_are_found() -> None:
    assert ("IExecutionContext", "execute_async_v3") in used("running.py")
    assert ("Builder", "build_serialized_network") in used("building.py")


@pytest.mark.parametrize("version", ["10.16.1.11", "11.4.0.106", "rtx"])
@pytest.mark.parametrize("file", ["running.py", "building.py"])
def test_every_name_is_there(version: str, file: str) -> None:
    known = names(version)
    missing = [f"{held}.{name}" for held, name in used(file) if name not in known[held]]
    assert missing == []
