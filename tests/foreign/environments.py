"""Other Pythons for the tests: those of this machine, and environments with a framework each.

An environment is made once and kept in the user's cache folder, under its requirements.
"""

import functools
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from filelock import FileLock

from converter.serving.environments import own_variables

REQUIREMENTS = Path(__file__).resolve().parent / "requirements"
"""``NAME.txt``: everything that the environment NAME holds, at exact versions."""

KEPT = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "modelyard-tests"
"""The folder that outlives test runs."""

_LAYOUT = 2  # raise it whenever what `_install` writes changes
_WHOLE = "whole"  # a file in an environment that was made to its end


class NoSuchPython(RuntimeError):
    """This machine has no Python of that version."""


@functools.cache
def find_python(version: str) -> Path:
    """The Python of a version, as ``3.12``: on PATH, or among pyenv's.

    Where there is none, the test that asks is skipped; in CI it fails.

    Raises:
        NoSuchPython: There is none, in CI.
    """
    named = shutil.which(f"python{version}")
    for path in [*([Path(named)] if named else []), *_pyenv(version)]:
        program = "import sys; print('%d.%d' % sys.version_info[:2], sys.executable)"
        command = [str(path), "-I", "-c", program]
        said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        if said.returncode == 0 and said.stdout.startswith(version + " "):
            return Path(said.stdout.split(maxsplit=1)[1].strip())  # a shim's own Python
    reason = f"Python {version} is needed, on PATH or from pyenv, and there is none"
    if not os.environ.get("CI"):
        pytest.skip(reason)
    raise NoSuchPython(reason)


def _pyenv(version: str) -> list[Path]:
    roots = [os.environ.get("PYENV_ROOT"), Path.home() / ".pyenv"]
    shim = shutil.which("pyenv")
    roots.append(Path(shim).resolve().parents[1] if shim else None)
    folders = [Path(root) / "versions" for root in roots if root]
    return [path for folder in folders for path in sorted(folder.glob(f"{version}.*/bin/python"))]


@functools.cache
def provide(name: str, version: str) -> Path:
    """The Python of the environment ``name``, made first where this machine has none.

    Raises:
        NoSuchPython: There is no Python of that version to make it with.
        subprocess.CalledProcessError: Installing failed.
    """
    base, requirements = find_python(version), REQUIREMENTS / f"{name}.txt"
    facts = [str(_LAYOUT), str(base), version, requirements.read_text()]
    digest = hashlib.sha256("\0".join(facts).encode()).hexdigest()[:16]
    folder = KEPT / f"{name}-{version}-{digest}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if not (folder / _WHOLE).exists():
            shutil.rmtree(folder, ignore_errors=True)  # what a killed test left
            _install(folder, base, requirements)
    return folder / "bin" / "python"


def _install(folder: Path, base: Path, requirements: Path) -> None:
    pip = [str(folder / "bin" / "python"), "-m", "pip"]
    install = [*pip, "install", "--no-deps", "--only-binary=:all:", "-qr", str(requirements)]
    for line in ([str(base), "-m", "venv", "--symlinks", str(folder)], install, [*pip, "check"]):
        subprocess.run(line, env=own_variables(), check=True, timeout=600)
    (folder / _WHOLE).touch()


def bare(folder: Path, version: str) -> Path:
    """The Python of a new environment in ``folder`` with nothing installed in it."""
    command = [str(find_python(version)), "-m", "venv", "--without-pip", str(folder)]
    subprocess.run(command, check=True, timeout=60, capture_output=True)
    return folder / "bin" / "python"


def claim(folder: Path, name: str, version: str) -> None:
    """Makes ``folder`` one in which the package seems to be installed."""
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")


def snapshot(folder: Path) -> dict[str, tuple[int, int]]:
    """Size and time of the last change of all under ``folder``: to see that nothing is touched."""
    found = {str(path.relative_to(folder)): path.lstat() for path in folder.rglob("*")}
    return {name: (stat.st_size, stat.st_mtime_ns) for name, stat in found.items()}
