"""``build_engine.py`` as it is shipped: one file, run in a process of its own.

What needs a GPU, running the engine, is not tested here: it has not been run yet.
"""

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from converter.files.digest import file_digest
from emitters.tensorrt.build import build
from emitters.tensorrt.libraries import find, installed
from emitters.tensorrt.options import EngineOptions
from emitters.tensorrt.plan_header import read_header
from emitters.tensorrt.script import script_text
from tests.acceptance.cli import tree
from tests.foreign.environments import find_python
from tests.serving.engines import batches, deferred_artifact, deferred_version
from tests.serving.models import classifier

RTX = ["--library", "tensorrt_rtx", "--compute-capability", "8.6"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model's folder, to be copied."""
    return deferred_version(tmp_path_factory.mktemp("made")).parent


@pytest.fixture
def version(made: Path, tmp_path: Path) -> Path:
    """A version's folder of the test's own."""
    return Path(shutil.copytree(made, tmp_path / "repository" / made.name)) / "1"


def change_lock(version: Path, **changed: Any) -> None:
    """Writes these fields of the lock anew."""
    lock = json.loads((version / "engine.lock.json").read_text())
    (version / "engine.lock.json").write_text(json.dumps({**lock, **changed}))


def run(
    version: Path, *arguments: str | Path, code: int = 0, says: str = "",
    python: str = sys.executable, prefix: tuple[str, ...] = (),
) -> None:  # fmt: skip
    """The script in a Python that knows nothing of this project, and what it ends with."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    command = [*prefix, python, str(version / "build_engine.py"), *map(str, arguments)]
    done = subprocess.run(
        command, env=kept, cwd="/", capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == code, done.stderr
    assert says in (done.stderr if code else done.stdout), done


# -- the file ----------------------------------------------------------------------------


def test_it_is_one_file_of_python_3_9() -> None:
    text = script_text()
    assert text == script_text()
    nodes = list(ast.walk(ast.parse(text, feature_version=(3, 9))))
    imported = {alias.name for n in nodes if isinstance(n, ast.Import) for alias in n.names}
    imported |= {n.module or "" for n in nodes if isinstance(n, ast.ImportFrom)}
    assert {name.split(".")[0] for name in imported} <= set(sys.stdlib_module_names)


def test_no_name_is_missing_in_it(tmp_path: Path) -> None:
    ruff = shutil.which("ruff", path=str(Path(sys.executable).parent)) or shutil.which("ruff")
    if ruff is None:
        pytest.skip("ruff is not there")
    (tmp_path / "build_engine.py").write_text(script_text())
    command = [ruff, "check", "--isolated", "--select", "F,E9", "build_engine.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_a_dry_run_changes_nothing(version: Path) -> None:
    before = tree(version.parent)
    run(version, "--dry-run", says="would build it with tensorrt, 1 optimization profiles")
    run(version, "--dry-run", says="would put model.plan into")
    assert tree(version.parent) == before


def test_it_runs_in_the_oldest_python_that_is_promised(version: Path) -> None:
    python = str(find_python("3.9"))
    run(version, "--dry-run", python=python, says="would compare it with onnxruntime")


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_the_artifact_alone_has_a_script_that_builds(tmp_path: Path, precision: str) -> None:
    """And says so of a graph that is not of its precision."""
    artifact = deferred_artifact(classifier(), tmp_path, precision, shapes=batches((1, 2, 4)))
    names = [file.name for file in artifact.files]
    assert names == ["model.onnx", "engine.lock.json", "build_engine.py"]
    unlowered = "unlowered: locked as fp16, and no layer of it is float16"
    says = unlowered if precision == "fp16" else ""
    run(artifact.path.parent, *RTX, "--build-only", tmp_path / "x.plan", says=says)
    run(artifact.path.parent, "--dry-run", code=2, says="isn't a version of a Triton model")


# -- the build ---------------------------------------------------------------------------


def test_it_builds_the_engine_that_modelyard_builds(version: Path, tmp_path: Path) -> None:
    """Byte for byte, once neither has its memory at random addresses."""
    setarch = shutil.which("setarch")
    if setarch is None:
        pytest.skip("setarch (util-linux) is not there: addresses can't be fixed")
    plans, fixed = (tmp_path / "a.plan", tmp_path / "b.plan"), (setarch, "-R")
    run(version, *RTX, "--build-only", plans[0], prefix=fixed, says="not verified")
    locked = json.loads((version / "engine.lock.json").read_text())["options"]
    profiles = tuple(locked["profiles"])
    options = EngineOptions(**{**locked, "profiles": profiles, "compute_capabilities": ("8.6",)})
    build(version / "model.onnx", plans[1], options, find("tensorrt-rtx"), lambda text: None)
    assert plans[0].read_bytes() == plans[1].read_bytes()
    assert read_header(plans[0]).compute_capabilities == ("8.6",)


def test_what_the_library_refuses_is_said(version: Path, tmp_path: Path) -> None:
    options = json.loads((version / "engine.lock.json").read_text())["options"]
    change_lock(version, options={**options, "profiles": []})
    for says in ("built no engine", "profile"):
        run(version, *RTX, "--build-only", tmp_path / "x.plan", code=3, says=says)


# -- refusals ----------------------------------------------------------------------------


@pytest.mark.skipif(installed("tensorrt") is not None, reason="TensorRT is installed here")
def test_without_tensorrt_it_says_what_to_do(version: Path) -> None:
    before = tree(version.parent)
    run(version, code=5, says="the Python package tensorrt can't be used")
    assert tree(version.parent) == before


@pytest.mark.parametrize(("file", "cut", "says"), [
    ("model.onnx", 20, "model.onnx"),
    ("engine.lock.json", 20, "engine.lock.json"),
    ("model.onnx", None, "model.onnx is not there"),
])  # fmt: skip
def test_another_file_than_the_locked_one_is_refused(version: Path, file: str, cut: int | None,
                                                     says: str) -> None:  # fmt: skip
    content = (version / file).read_bytes()
    (version / file).unlink()
    if cut:
        (version / file).write_bytes(content[:-cut])
    run(version, "--dry-run", code=2, says=says)


def test_rtx_never_goes_into_a_triton_folder(version: Path) -> None:
    before = tree(version.parent)
    run(version, *RTX, code=2, says="Triton can't load plans of TensorRT-RTX")
    for place in (version / "model.plan", version.parent / "model.plan"):
        run(version, *RTX, "--build-only", place, code=2, says="is a Triton folder")
    assert tree(version.parent) == before


def test_without_samples_it_wants_a_word(tmp_path: Path) -> None:
    version = deferred_version(tmp_path, checked=False)
    run(version, "--dry-run", code=4, says="--unverified")
    run(version, "--dry-run", "--unverified")


def test_a_changed_configuration_is_not_thrown_away(version: Path) -> None:
    config = version.parent / "config.pbtxt"
    config.write_text(config.read_text() + "# mine\n")
    run(version, "--dry-run", code=2, says="would be lost")
    run(version, "--dry-run", "--replace-config")


def test_another_served_version_needs_a_plan_too(tmp_path: Path) -> None:
    version = deferred_version(tmp_path, version_policy="all")
    (version.parent / "2").mkdir()
    run(version, "--dry-run", code=2, says="version 2 is served as well, but has no model.plan")


def test_plugins_are_held_to_the_lock(version: Path, tmp_path: Path) -> None:
    library = tmp_path / "libmine.so"
    library.write_bytes(b"no library")
    change_lock(version, plugins=[{"name": library.name, "sha256": file_digest(library)}])
    run(version, "--dry-run", code=2, says="libmine.so")
    run(version, "--dry-run", "--plugin", library)
    library.write_bytes(b"another")
    run(version, "--dry-run", "--plugin", library, code=2)
