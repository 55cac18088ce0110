"""Every version that a server's environment holds: ``requirements.lock`` in the server's folder.

    python -m emitters.serving.python.lock [SERVER...]

asks pip what the server's requirements come to and writes the files anew. They are constraints, as
pip has them (``pip install -r requirements.txt -c requirements.lock``): either runtime's packages
stand there, and what prepares files; of these, as of what belongs to other systems, only what is
needed is installed.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from packaging.utils import parse_sdist_filename, parse_wheel_filename

from converter import plugins
from emitters.packaging.stages import REQUIRES
from emitters.serving.python.served import RUNTIMES
from emitters.serving.python.server import LOCK, PythonServer

_HEAD = (
    "# about {megabytes} MB to download, with either runtime and all that prepares files; "
    "Linux x86-64, Python {python}"
)


def locked(server: PythonServer) -> str:
    """The text of a server's lock, by what pip downloads for it here and now.

    Raises:
        subprocess.CalledProcessError: pip can't; it says why on stderr.
    """
    with tempfile.TemporaryDirectory() as folder:
        line = [sys.executable, "-m", "pip", "download", "--quiet", "--prefer-binary"]
        wanted = (*server.requires, *RUNTIMES.values(), *REQUIRES.values())
        subprocess.run([*line, "--dest", folder, *wanted], check=True)
        files = list(Path(folder).iterdir())
        size = sum(file.stat().st_size for file in files) / 1e6
        pins = [f"{name}=={version}" for name, version in sorted(map(_pinned, files))]
    python = ".".join(map(str, sys.version_info[:2]))
    return "\n".join((_HEAD.format(megabytes=round(size), python=python), *pins, ""))


def _pinned(file: Path) -> tuple[str, str]:
    """Name and version, without a build's own label (``+cpu``), which an index may not have."""
    if file.suffix == ".whl":
        name, version = parse_wheel_filename(file.name)[:2]
    else:
        name, version = parse_sdist_filename(file.name)
    return name, version.public


def main(names: list[str]) -> None:
    """Writes the locks of these servers; of all where none is named."""
    for name in names or plugins.available("servers"):
        server = plugins.load("servers", name)
        if isinstance(server, PythonServer):
            (server.home() / LOCK).write_text(locked(server), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
