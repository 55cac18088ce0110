"""The Python that frameworks run in: found, examined, kept apart from ours."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import modelyard
from converter.errors import DependencyError, UsageError
from converter.plugins.extras import brings, requirements
from converter.runtime.interpreter import Interpreter, interpreter

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with nothing in it, its Python a link to the base's."""
    folder = tmp_path_factory.mktemp("venv")
    command = [sys.executable, "-m", "venv", "--symlinks", "--without-pip", str(folder)]
    subprocess.run(command, check=True, timeout=60)
    return folder


@contextmanager
def installed(venv: Path, name: str, version: str) -> Iterator[None]:
    """A distribution of ``name`` is there, by its metadata alone."""
    packages = next((venv / "lib").glob("python*/site-packages"))
    info = packages / f"{name}-{version}.dist-info"
    info.mkdir()
    text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    (info / "METADATA").write_text(text)
    yield
    shutil.rmtree(info)


def test_a_virtual_environment_is_not_followed_to_its_base(venv: Path) -> None:
    python = venv / "bin" / "python"
    assert python.is_symlink()
    found = interpreter(str(python))
    assert found.path == str(python)
    assert found.prefix == str(venv)
    assert interpreter(str(venv)) == found  # by its folder
    assert found.foreign and found.version_text == "{}.{}.{}".format(*sys.version_info)


def test_relative_paths(venv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(venv / "bin")
    assert interpreter("./python").path == str(venv / "bin" / "python")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError):
        interpreter("./python")
    monkeypatch.setenv("PATH", str(venv / "bin"))
    assert interpreter("python").path == str(venv / "bin" / "python")


def test_what_is_installed_meanwhile_is_seen(venv: Path) -> None:
    python = str(venv / "bin" / "python")
    assert interpreter(python).version("some.thing") is None
    with installed(venv, "Some_Thing", "1.2"):
        assert interpreter(python).version("some.thing") == "1.2"
    assert interpreter(python).version("some-thing") is None


def test_all_that_is_missing_at_once(venv: Path) -> None:
    python = interpreter(str(venv))
    with pytest.raises(DependencyError) as error:
        python.require(("a-thing|another", "b-thing"), "reading it", "torch")
    assert error.value.message == f"reading it needs a-thing, b-thing in {python.path}"
    assert error.value.hint == f"{python.path} -m pip install a-thing b-thing"
    with pytest.raises(DependencyError) as own:
        interpreter(None).require(("numpy", "no-such-thing"), "reading it", "torch")
    assert own.value.message == "reading it needs no-such-thing"


def test_the_python_is_part_of_what_a_result_depends_on(venv: Path) -> None:
    with installed(venv, "torch", "9.9"):
        versions = interpreter(str(venv)).require(("torch",), "reading it", "torch")
    assert versions == {"torch": "9.9", "python": "{}.{}.{}".format(*sys.version_info)}
    assert "python" not in interpreter(None).require(("numpy",), "reading it", "torch")


OLD = 'modelyard-interpreter [[2, 7, 18], \\"/usr\\", [], {}, \\"\\"]'
MISSING = "(isn't a program|no such program)"


@pytest.mark.parametrize(("text", "says"), [
    ("exit 3", "ended with code 3"),
    ("echo the reason >&2; exit 1", "the reason"),
    ("echo 3.12", "isn't a working Python"),
    (f'echo "{OLD}"', "Python 2.7.18; Modelyard needs 3.9 or newer"),
    (None, MISSING),
])  # fmt: skip
def test_what_is_no_python(text: str | None, says: str, tmp_path: Path) -> None:
    path = tmp_path / "python"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755 if text else 0o644)
    for named in [path] if text else [path, tmp_path / "nothing", tmp_path, "no-such-python"]:
        with pytest.raises(UsageError, match=says):
            interpreter(str(named))


def test_our_own_environment_stays_ours(venv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = next(entry for entry in sys.path if entry.endswith("site-packages"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), site, "/mine", ""]))
    monkeypatch.setenv("PYTHONHOME", "/usr")
    monkeypatch.setenv("VIRTUAL_ENV", str(ROOT / ".venv"))
    monkeypatch.setenv("CONDA_PREFIX", str(venv))
    monkeypatch.setenv("__PYVENV_LAUNCHER__", "/usr/bin/python3")
    python = interpreter(str(venv))  # which PYTHONHOME would have kept from starting
    changes = python.environment()
    assert changes["PYTHONPATH"] == "/mine"
    gone = {name for name, text in changes.items() if text is None}
    assert {"PYTHONHOME", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__"} <= gone
    assert "CONDA_PREFIX" not in changes  # it is this very environment's
    assert changes["PYTHONDONTWRITEBYTECODE"] == "1"
    assert interpreter(None).environment() == {}


def test_the_line_that_installs_names_tested_versions_for_this_python() -> None:
    own = interpreter(None)
    tested = Path(modelyard.__file__).parents[1] / "constraints.txt"
    line = f"{sys.executable} -m pip install -c {tested}"
    wanted = f"{line} 'torch>=2.9' 'onnxscript>=0.6'"
    assert own.install_line(["torch", "onnxscript"], "torch") == wanted
    assert own.install_line(["transformers"], "huggingface") == f"{line} 'transformers>=4.50'"
    assert own.install_line(["ai-edge-litert"], "tflite") == f"{line} 'ai-edge-litert>=2.0'"
    assert own.install_line(["timm"], "torch") == f"{line} timm"
    printed = own.install_line(["flatbuffers"], "tflite")  # works as printed: pip reads it all
    subprocess.run(f"{printed} --dry-run --no-deps --no-index", shell=True, check=True)
    spaced = Interpreter("/my venv/bin/python", True, (3, 12, 1), {})
    assert spaced.install_line(["torch>=2"]) == "'/my venv/bin/python' -m pip install 'torch>=2'"


def test_what_is_older_than_what_is_tested() -> None:
    old = Interpreter("python", True, (3, 9, 1), {"torch": "2.4.1+cpu", "safetensors": "0.9"})
    (told,) = old.outdated("torch")
    assert told.startswith("torch 2.4.1+cpu (>=")
    assert not Interpreter("python", True, (3, 9, 1), {"torch": "99.0"}).outdated("torch")


def test_extras_hold_those_that_they_include() -> None:
    names = {needed.name for needed in requirements("huggingface")}
    assert {"torch", "safetensors", "transformers"} <= names
    assert "modelyard" not in names
    assert brings("torch", "onnx_ir") and not brings("torch", "tensorflow")
