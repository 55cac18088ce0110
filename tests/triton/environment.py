"""Provision a real Triton server in an environment of its own, once per machine.

The server ships inside a Python package, so it needs neither a container nor a GPU driver. It
gets its own virtual environment because its Python backend only works with NumPy 1.x, which the
rest of the test suite has left behind.
"""

import contextlib
import fcntl
import functools
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from emitters.serving.triton.running import REQUIREMENTS, lay_out

_LAYOUT_VERSION = 1  # raise it whenever what `_build` writes changes
_INSTALL_TIMEOUT_S = 600.0


class TritonEnvironmentError(RuntimeError):
    """An environment could not be made on this machine."""


@dataclass(frozen=True)
class TritonEnvironment:
    """Where an installed server and its parts lie."""

    root: Path

    @property
    def site_packages(self) -> Path:
        """The environment's own packages."""
        return self.root / "lib" / _python_name() / "site-packages"

    @property
    def server_binary(self) -> Path:
        """The `tritonserver` executable."""
        return self._bundle / "bin" / "tritonserver"

    @property
    def cache_directory(self) -> Path:
        """The response cache implementations, for `--cache-config=local,size=...`."""
        return self._bundle / "caches"

    @property
    def _bundle(self) -> Path:
        return self.site_packages / "pytriton" / "tritonserver"

    def make_backend_directory(self, folder: Path) -> Path:
        """Lay out a backend directory: the Python backend, and the product's for ONNX models."""
        return lay_out(self.site_packages, folder)

    def process_environment(self) -> dict[str, str]:
        """Environment variables of a server process.

        `PATH` decides which interpreter the Python backend takes its packages from, and without
        the bundled libraries the backend's stub process never comes up.
        """
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PYTHON", "COV_", "COVERAGE")) and name != "VIRTUAL_ENV"
        }
        environment["PATH"] = f"{self.root / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"
        environment["LD_LIBRARY_PATH"] = str(self.site_packages / "nvidia_pytriton.libs")
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
        environment["PYTHONNOUSERSITE"] = "1"
        return environment


def cache_root() -> Path:
    """The folder that outlives test runs."""
    chosen = os.environ.get("MODELYARD_TEST_CACHE")
    if chosen:
        return Path(chosen).expanduser().absolute()
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(caches).expanduser().absolute() / "modelyard-tests"


@functools.cache
def provide_triton_environment() -> TritonEnvironment:
    """The server's environment, made first where this machine has none."""
    folder = cache_root() / f"triton-{_fingerprint()}"
    installed(folder, Path(sys.executable), REQUIREMENTS, _check_install)
    return TritonEnvironment(folder)


def installed(folder: Path, python: Path, packages: Sequence[str],
              check: Callable[[Path], None]) -> None:  # fmt: skip
    """A virtual environment with these packages (pip's arguments) and no others, made first where
    it isn't there; ``check`` looks at it before it is.

    The folder only ever appears whole, by a rename, so its existence is proof enough.
    """
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _exclusive(folder.with_name(folder.name + ".lock")):
            if not folder.is_dir():
                _build(folder, python, packages, check)


def _build(folder: Path, python: Path, packages: Sequence[str],
           check: Callable[[Path], None]) -> None:  # fmt: skip
    """Install into a sibling and rename it, so that a killed build leaves nothing half-made."""
    for leftover in folder.parent.glob(f"{folder.name}.partial-*"):
        shutil.rmtree(leftover, ignore_errors=True)
    partial = Path(tempfile.mkdtemp(prefix=f"{folder.name}.partial-", dir=folder.parent))
    try:
        _run([str(python), "-m", "venv", "--symlinks", str(partial)])
        pip = [str(partial / "bin" / "python"), "-m", "pip", "install", "--no-deps", "--quiet"]
        pip += ["--only-binary=:all:", "--no-input", "--disable-pip-version-check"]
        _run([*pip, *packages])
        check(partial)
        # A virtual environment may be moved as long as nobody runs its scripts, whose first
        # line names the old place: only `bin/python` is used from here on.
        partial.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _run(command: list[str]) -> None:
    """Run one step of a build; what a killed one leaves, the next build removes."""
    ignored = ("PYTHON", "PIP_TARGET", "PIP_PREFIX", "PIP_USER", "PIP_CONSTRAINT", "VIRTUAL_ENV")
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(ignored)
    }
    try:
        done = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, errors="replace", timeout=_INSTALL_TIMEOUT_S,
            check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise TritonEnvironmentError(
            f"installing took more than {_INSTALL_TIMEOUT_S:.0f} s"
        ) from error
    if done.returncode != 0:
        raise TritonEnvironmentError(f"cannot install:\n{done.stderr}")


def _check_install(folder: Path) -> None:
    environment = TritonEnvironment(folder)
    for part in (environment.server_binary, environment.site_packages / "nvidia_pytriton.libs"):
        if not part.exists():
            raise TritonEnvironmentError(f"the installed server package lacks {part.name}")


def _fingerprint() -> str:
    """Name everything that the environment's content depends on."""
    facts = [str(_LAYOUT_VERSION), *REQUIREMENTS, platform.machine()]
    facts += [sys.version, sys.base_prefix]
    return hashlib.sha256("\0".join(facts).encode()).hexdigest()[:16]


def _python_name() -> str:
    return f"python{sys.version_info.major}.{sys.version_info.minor}"


@contextlib.contextmanager
def _exclusive(path: Path) -> Iterator[None]:
    """Hold a lock that the kernel gives back when its holder dies."""
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
