"""The Triton server that the product starts, in the environment that it sets up, once per machine.

The server ships inside a Python package, so it needs neither a container nor a GPU driver. It
gets its own virtual environment because its Python backend only works with NumPy 1.x, which the
rest of the test suite has left behind.
"""

import functools
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from converter.protocols.server import Environment
from converter.serving.environments import own_variables, set_up
from emitters.serving.triton.running import REQUIREMENTS, lay_out


@dataclass(frozen=True)
class TritonEnvironment:
    """Where an installed server and its parts lie."""

    root: Path

    @property
    def site_packages(self) -> Path:
        """The environment's own packages."""
        return self.root / "lib" / "python{}.{}".format(*sys.version_info[:2]) / "site-packages"

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
        return own_variables() | {
            "PATH": f"{self.root / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}",
            "LD_LIBRARY_PATH": str(self.site_packages / "nvidia_pytriton.libs"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONNOUSERSITE": "1",
        }


@functools.cache
def provide_triton_environment(*more: str) -> TritonEnvironment:
    """The server's environment, with ``more`` packages, made first where this machine has none."""
    wanted = Environment("triton", (*REQUIREMENTS, *more), 95, dependencies=False)
    return TritonEnvironment(set_up(wanted, lambda text: None))
