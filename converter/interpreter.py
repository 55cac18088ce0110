"""The Python in which frameworks run: the tool's own, or the user's (``--python``)."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from converter.errors import DependencyError, UsageError

OLDEST = (3, 9)
"""The oldest Python that the worker runs in."""

_LIST = """
import sys; sys.path.pop(0)
import json
from importlib import metadata
found = {}
for item in metadata.distributions():
    name = item.metadata["Name"]
    if name:
        found.setdefault(name.lower().replace("_", "-"), item.version)
print(json.dumps([list(sys.version_info[:3]), found]))
"""


@dataclass(frozen=True)
class Interpreter:
    """A Python and what is installed in it.

    Attributes:
        path: The executable.
        foreign: Whether it is another than the tool's own.
        python: Its version.
        packages: Installed distributions and their versions; of a foreign one only.
    """

    path: str
    foreign: bool
    python: tuple[int, int, int]
    packages: Mapping[str, str]

    def version(self, package: str) -> str | None:
        """The version of an installed distribution, or None."""
        if self.foreign:
            return self.packages.get(package.lower().replace("_", "-"))
        try:
            return version(package)
        except PackageNotFoundError:
            return None

    def first(self, packages: Iterable[str]) -> str | None:
        """The first of several distributions of one module that is installed."""
        return next((name for name in packages if self.version(name)), None)

    def require(self, packages: Iterable[str], doing: str, extra: str) -> dict[str, str]:
        """The versions of packages that have to be there.

        Args:
            packages: Distribution names; ``a|b`` where either will do.
            doing: What they are needed for: ``reading a PyTorch model``.
            extra: The install extra of ours that brings them.

        Raises:
            DependencyError: Some are missing; all of them, with the line that installs them.
        """
        found, missing = {}, []
        for choice in packages:
            name = self.first(choice.split("|"))
            if name is None:
                missing.append(choice.split("|")[0])
            else:
                found[name] = self.version(name) or ""
        if missing:
            raise DependencyError(
                f"{doing} needs {', '.join(missing)}"
                + (f" in {self.path}" if self.foreign else ""),
                hint=self.install_line(missing, extra),
            )
        if self.foreign:
            found["python"] = ".".join(map(str, self.python))
        return found

    def install_line(self, packages: Iterable[str], extra: str) -> str:
        """The line that installs what is missing."""
        if self.foreign:
            return f"{self.path} -m pip install {' '.join(packages)}"
        return f"pip install 'modelyard[{extra}]'"


def interpreter(path: str | None) -> Interpreter:
    """The interpreter at ``path`` (or of that name on PATH); the tool's own where it is None.

    Raises:
        UsageError: It isn't there, isn't a Python, or is older than :data:`OLDEST`.
    """
    if path is None:
        return Interpreter(sys.executable, False, sys.version_info[:3], {})
    return _foreign(path)


@cache
def _foreign(path: str) -> Interpreter:
    found = shutil.which(str(Path(path).expanduser()))
    if found is None:
        raise UsageError(f"--python {path}: there is no such program")
    executable = str(Path(found).absolute())
    try:
        answer = subprocess.run(
            [executable, "-c", _LIST], capture_output=True, text=True, timeout=60, check=True
        )
        numbers, packages = json.loads(answer.stdout.splitlines()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError) as error:
        raise UsageError(f"--python {path}: it isn't a Python that runs: {error}") from error
    if tuple(numbers) < OLDEST:
        raise UsageError(
            f"--python {path}: it is Python {'.'.join(map(str, numbers))}; the oldest that "
            f"works is {'.'.join(map(str, OLDEST))}"
        )
    return Interpreter(executable, True, (numbers[0], numbers[1], numbers[2]), packages)
