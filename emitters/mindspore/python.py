"""The Python that has mindspore-lite: of another version than ours, named by its user."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from converter.errors import DependencyError, ModelError
from converter.options.request import Request
from converter.runtime.child import Child, ChildError, worker_env
from converter.serving.environments import own_variables
from emitters.mindspore.request import mindspore

REQUIRES = ("mindspore-lite==2.0.0", "numpy==1.21.6")
"""What pip installs there: the last of MindSpore Lite in a package index, for Python 3.7 alone."""

INSTALL = f"python3.7 -m venv ms && ms/bin/pip install {' '.join(REQUIRES)}"

_CHILD = Path(__file__).resolve().parent / "child"
USAGE = _CHILD / "usage.py"
CONVERT = _CHILD / "convert.py"

_HINT = f"{INSTALL}\nThen name it: --mindspore-python ms"
_ASKED = "import mindspore_lite, numpy; print(mindspore_lite.__version__)"
_SECONDS = 60


def python_of(request: Request) -> str:
    """The interpreter that the request names.

    Raises:
        DependencyError: None is named, or it lacks mindspore-lite.
    """
    named = mindspore(request).mindspore_python
    if named is None:
        why = "mindspore needs mindspore-lite, which no Python but 3.7 has"
        raise DependencyError(why, code="package-missing", hint=_HINT)
    given = Path(named).expanduser().absolute()
    return _examined(str(given / "bin" / "python" if given.is_dir() else given))


@cache
def _examined(path: str) -> str:
    try:
        asked = subprocess.run(
            [path, "-c", _ASKED],
            env=own_variables(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DependencyError(
            f"--mindspore-python: it can't be run: {error}", code="python-unusable", hint=_HINT
        ) from error
    if asked.returncode:
        said = [line for line in asked.stderr.splitlines() if line.strip()][-1:]
        raise DependencyError(
            "--mindspore-python has no mindspore-lite",
            code="package-missing",
            details=said,
            hint=_HINT,
        )
    return path


class Lite:
    """A process of that Python, which answers requests.

    Args:
        python: The interpreter.
        script: What it runs: :data:`USAGE` or :data:`CONVERT`.
        what: What the process is called in messages.
    """

    def __init__(self, python: str, script: Path, what: str) -> None:
        foreign: dict[str, str | None] = dict.fromkeys(os.environ.keys() - own_variables().keys())
        changes = {**foreign, "PYTHONDONTWRITEBYTECODE": "1", **worker_env()}
        self._child = Child([python, str(script), "--serve"], what=what, env=changes)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """The answer of one method.

        Raises:
            ModelError: The library refuses; what it printed is in the details.
            MachineError: The process died.
        """
        try:
            return self._child.call(method, **params)
        except ChildError as error:
            raise ModelError(
                f"MindSpore Lite: {error.message}", code="runtime-failed", details=self.said()[-8:]
            ) from error

    def said(self) -> Sequence[str]:
        """What the library printed, without when, where in its code, and which files it was at."""
        lines = (line.rpartition("] ")[2].strip() for line in self._child.log_tail(60))
        told = dict.fromkeys(line for line in lines if any(map(str.isalpha, line)))
        return [line for line in told if tempfile.gettempdir() not in line]

    def close(self) -> None:
        """Ends the process."""
        self._child.close()
