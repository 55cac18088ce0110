"""``build_engine.py`` as it is shipped: one file, run in a process of its own.

What needs a GPU, running the engine, is not tested here: it has not been run yet.
"""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from converter.digest import file_digest
from converter.ir import Model
from emitters.tensorrt.build import build
from emitters.tensorrt.libraries import find, installed
from emitters.tensorrt.options import EngineOptions
from emitters.tensorrt.plan_header import read_header
from emitters.tensorrt.script import script_text
from tests.serving.engines import batches, deferred_artifact, package_artifact
from tests.serving.models import classifier
from tests.tensorrt.pythons import oldest_python

NO_TENSORRT = pytest.mark.skipif(
    installed("tensorrt") is not None, reason="TensorRT is installed here"
)
RTX = ["--library", "tensorrt_rtx", "--compute-capability", "8.6"]


def packaged(folder: Path, model: Model | None = None, *, checked: bool = True) -> Path:
    """A version's folder with what its engine is built from."""
    model = model or classifier()
    shapes = batches((1, 2, 4))
    artifact = deferred_artifact(model, folder, shapes=shapes)
    made = package_artifact(artifact, model, folder, checked=checked, shapes=shapes)
    return made.path / "1"


def run(
    version: Path,
    *arguments: str | Path,
    python: str = sys.executable,
    prefix: tuple[str, ...] = (),
) -> subprocess.CompletedProcess[str]:
    """The script in a Python that knows nothing of this project."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    command = [*prefix, python, str(version / "build_engine.py"), *map(str, arguments)]
    return subprocess.run(
        command, env=kept, cwd="/", capture_output=True, text=True, timeout=120, check=False
    )


def snapshot(folder: Path) -> dict[str, str]:
    """Every file of a folder with its digest."""
    return {
        path.relative_to(folder).as_posix(): file_digest(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


# -- the file ----------------------------------------------------------------------------


def test_it_is_one_file_of_python_3_9() -> None:
    text = script_text()
    assert text == script_text()
    tree = ast.parse(text, feature_version=(3, 9))
    imported = {
        name.split(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert imported <= set(sys.stdlib_module_names)


def test_no_name_is_missing_in_it(tmp_path: Path) -> None:
    ruff = shutil.which("ruff", path=str(Path(sys.executable).parent)) or shutil.which("ruff")
    if ruff is None:
        pytest.skip("ruff is not there")
    (tmp_path / "build_engine.py").write_text(script_text())
    command = [ruff, "check", "--isolated", "--select", "F,E9", "build_engine.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_it_runs_in_the_oldest_python_that_is_promised(tmp_path: Path) -> None:
    done = run(packaged(tmp_path), "--dry-run", python=oldest_python())
    assert done.returncode == 0, done.stderr
    assert "would compare it with onnxruntime" in done.stdout


def test_a_dry_run_changes_nothing(tmp_path: Path) -> None:
    version = packaged(tmp_path)
    before = snapshot(version.parent)
    done = run(version, "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "would build it with tensorrt, 1 optimization profiles" in done.stdout
    assert "would put model.plan into" in done.stdout
    assert snapshot(version.parent) == before


def test_the_artifact_alone_has_a_script_that_builds(tmp_path: Path) -> None:
    artifact = deferred_artifact(classifier(), tmp_path, shapes=batches((1, 2, 4)))
    assert [file.name for file in artifact.files] == [
        "model.onnx",
        "engine.lock.json",
        "build_engine.py",
    ]
    done = run(artifact.path.parent, *RTX, "--build-only", tmp_path / "x.plan")
    assert done.returncode == 0, done.stderr
    done = run(artifact.path.parent, "--dry-run")
    assert done.returncode == 2
    assert "no version of a Triton model" in done.stderr


# -- the build ---------------------------------------------------------------------------


def test_it_builds_the_engine_that_modelyard_builds(tmp_path: Path) -> None:
    """Byte for byte, once neither has its memory at random addresses."""
    setarch = shutil.which("setarch")
    if setarch is None:
        pytest.skip("setarch (util-linux) is not there: addresses can't be fixed")
    version = packaged(tmp_path)
    done = run(version, *RTX, "--build-only", tmp_path / "a.plan", prefix=(setarch, "-R"))
    assert done.returncode == 0, done.stderr
    assert "not verified" in done.stdout
    lock = json.loads((version / "engine.lock.json").read_text())
    profiles = tuple(lock["options"]["profiles"])
    options = {**lock["options"], "profiles": profiles, "compute_capabilities": ("8.6",)}
    build(
        version / "model.onnx",
        tmp_path / "b.plan",
        EngineOptions(**options),
        find("tensorrt-rtx"),
        lambda text: None,
    )
    assert (tmp_path / "a.plan").read_bytes() == (tmp_path / "b.plan").read_bytes()
    assert read_header(tmp_path / "a.plan").compute_capabilities == ("8.6",)


def test_a_graph_that_is_not_of_its_precision_says_so(tmp_path: Path) -> None:
    artifact = deferred_artifact(classifier(), tmp_path, "fp16", shapes=batches((1, 2, 4)))
    done = run(artifact.path.parent, *RTX, "--build-only", tmp_path / "x.plan")
    assert done.returncode == 0, done.stderr
    assert "unlowered: locked as fp16, and no layer of it is float16" in done.stdout


def test_what_the_library_refuses_is_said(tmp_path: Path) -> None:
    version = packaged(tmp_path)
    lock = json.loads((version / "engine.lock.json").read_text())
    lock["options"]["profiles"] = []
    (version / "engine.lock.json").write_text(json.dumps(lock))
    done = run(version, *RTX, "--build-only", tmp_path / "x.plan")
    assert done.returncode == 3
    assert "built no engine" in done.stderr
    assert "profile" in done.stderr


# -- refusals ----------------------------------------------------------------------------


@NO_TENSORRT
def test_without_tensorrt_it_says_what_to_do(tmp_path: Path) -> None:
    version = packaged(tmp_path)
    before = snapshot(version.parent)
    done = run(version)
    assert done.returncode == 5
    assert "the Python package tensorrt can't be used" in done.stderr
    assert snapshot(version.parent) == before


@pytest.mark.parametrize("file", ["model.onnx", "engine.lock.json"])
def test_another_file_than_the_locked_one_is_refused(tmp_path: Path, file: str) -> None:
    version = packaged(tmp_path)
    path = version / file
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content[:-20])
    done = run(version, "--dry-run")
    assert done.returncode == 2
    assert file in done.stderr


def test_a_missing_model_is_refused(tmp_path: Path) -> None:
    version = packaged(tmp_path)
    (version / "model.onnx").unlink()
    done = run(version, "--dry-run")
    assert done.returncode == 2
    assert "model.onnx is not there" in done.stderr


def test_rtx_never_goes_into_a_triton_folder(tmp_path: Path) -> None:
    version = packaged(tmp_path)
    before = snapshot(version.parent)
    done = run(version, *RTX)
    assert (done.returncode, "Triton can't load plans of TensorRT-RTX" in done.stderr) == (2, True)
    for place in (version / "model.plan", version.parent / "model.plan"):
        done = run(version, *RTX, "--build-only", place)
        assert (done.returncode, "is a Triton folder" in done.stderr) == (2, True)
    assert snapshot(version.parent) == before


def test_without_samples_it_wants_a_word(tmp_path: Path) -> None:
    version = packaged(tmp_path, checked=False)
    done = run(version, "--dry-run")
    assert done.returncode == 4
    assert "--unverified" in done.stderr
    assert run(version, "--dry-run", "--unverified").returncode == 0


def test_a_changed_configuration_is_not_thrown_away(tmp_path: Path) -> None:
    version = packaged(tmp_path)
    config = version.parent / "config.pbtxt"
    config.write_text(config.read_text() + "# mine\n")
    done = run(version, "--dry-run")
    assert done.returncode == 2
    assert "would be lost" in done.stderr
    assert run(version, "--dry-run", "--replace-config").returncode == 0


def test_another_served_version_needs_a_plan_too(tmp_path: Path) -> None:
    model = classifier()
    artifact = deferred_artifact(model, tmp_path)
    made = package_artifact(artifact, model, tmp_path, version_policy="all")
    (made.path / "2").mkdir()
    done = run(made.path / "1", "--dry-run")
    assert done.returncode == 2
    assert "version 2 is served as well, and has no model.plan" in done.stderr


def test_plugins_are_held_to_the_lock(tmp_path: Path) -> None:
    version = packaged(tmp_path)
    lock = json.loads((version / "engine.lock.json").read_text())
    library = tmp_path / "libmine.so"
    library.write_bytes(b"no library")
    lock["plugins"] = [{"name": library.name, "sha256": file_digest(library)}]
    (version / "engine.lock.json").write_text(json.dumps(lock))
    done = run(version, "--dry-run")
    assert (done.returncode, "libmine.so" in done.stderr) == (2, True)
    assert run(version, "--dry-run", "--plugin", library).returncode == 0
    library.write_bytes(b"another")
    assert run(version, "--dry-run", "--plugin", library).returncode == 2
