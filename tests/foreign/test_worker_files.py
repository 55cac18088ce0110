"""The worker's own files, in every Python that they are meant for."""

import ast
import json
import subprocess
from pathlib import Path

import pytest

from converter.runtime.frameworks import frameworks
from tests.foreign.environments import find_python
from tests.worker.client import MAIN, Client

PARSERS = MAIN.parents[1]
FILES = sorted([*PARSERS.glob("worker/*.py"), *PARSERS.glob("*/child/*.py")])
VERSIONS = ("3.9", "3.10", "3.11", "3.12", "3.13")
FREE = (
    *("worker.protocol", "worker.errors", "worker.packages", "worker.timing"),
    *("pytorch.child.contents", "pytorch.child.modules"),
)
"""Modules that need no framework, nor numpy."""

# Compiles every file, then imports all that it can: what fails for want of a framework's or
# numpy's module is told by that module's name.
LOOK = """
import importlib, json, runpy, sys
from pathlib import Path
folder = Path(sys.argv[1])
files = sorted([*folder.glob("worker/*.py"), *folder.glob("*/child/*.py")])
for path in files:
    compile(path.read_text(encoding="utf-8"), str(path), "exec")
main = runpy.run_path(str(folder / "worker" / "main.py"))
main["_load_package"]()
lacking = {}
for path in files:
    if path.stem not in ("main", "__init__"):
        name = ".".join(path.relative_to(folder).with_suffix("").parts)
        try:
            importlib.import_module("_modelyard_parsers." + name)
        except ModuleNotFoundError as error:
            lacking[name] = error.name
print(json.dumps(lacking))
"""
FOREIGN = {
    *("numpy", "torch", "onnx", "onnx_ir", "onnxscript", "tensorflow", "keras", "tf2onnx"),
    *("transformers", "sklearn", "skl2onnx"),
}


@pytest.mark.parametrize("version", VERSIONS)
def test_they_compile_and_load_in(version: str) -> None:
    command = [str(find_python(version)), "-I", "-B", "-W", "error", "-c", LOOK, str(PARSERS)]
    said = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert said.returncode == 0, said.stderr
    lacking = json.loads(said.stdout)
    assert not set(FREE) & set(lacking)
    assert set(lacking.values()) <= FOREIGN, lacking


@pytest.mark.parametrize("version", VERSIONS)
def test_a_backend_answers_without_its_framework_in(version: str, tmp_path: Path) -> None:
    python, env = str(find_python(version)), {"PYTHONDONTWRITEBYTECODE": "1"}
    for item in frameworks():
        with Client(cwd=tmp_path, python=python, env=env, backend=item.backend) as client:
            assert client.call("hello")["python"].startswith(version)


def test_no_syntax_or_call_newer_than_39() -> None:
    for path in FILES:  # in one test: CI runs a part of the cases of a test that has many
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 9))):
            if not isinstance(node, ast.Call):
                continue
            if getattr(node.func, "id", "") == "zip":
                assert not node.keywords, f"{path}:{node.lineno}: zip() has no strict= before 3.10"
            if ast.unparse(node.func).endswith("dataclass"):
                named = {item.arg for item in node.keywords}
                assert not named & {"slots", "kw_only"}, f"{path}:{node.lineno}: not before 3.10"


def test_nothing_of_ours_is_imported() -> None:
    ours = {"converter", "parsers", "emitters", "zoo"}
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [item.name for item in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or ""]
            assert not ours & {name.partition(".")[0] for name in names}, path.name
