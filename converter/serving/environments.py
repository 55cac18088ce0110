"""Environments that servers run in, one for each list of requirements, kept in the cache.

A server's packages rarely go together with ours, so each gets a virtual environment of the Python
that runs, at the versions that its plug-in names, those of all that comes along too. It is made
where it stays, since scripts in it hold its path, and counts as there once its note is written,
which comes last.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

from converter.errors import DependencyError
from converter.files.cache_root import cache_root
from converter.protocols.server import Environment
from converter.runtime.session import Progress

FOLDER = "servers"
"""Of the cache."""

_NOTE = "modelyard.json"
_CONSTRAINTS = "constraints.txt"
_LAYOUT = 1  # raise it whenever what `_install` writes changes
_FOREIGN = ("PYTHON", "PIP_TARGET", "PIP_PREFIX", "PIP_USER", "PIP_CONSTRAINT", "VIRTUAL_ENV",
            "COV_", "COVERAGE")  # fmt: skip


def place(environment: Environment) -> Path:
    """Its folder in the cache, whether it is there or not; our own where it holds nothing."""
    if not environment.requirements:
        return Path(sys.prefix)
    facts = [str(_LAYOUT), *environment.requirements, str(environment.dependencies)]
    facts += [environment.constraints] if environment.constraints else []
    facts += [platform.machine(), sys.version, sys.base_prefix]
    digest = hashlib.sha256("\0".join(facts).encode()).hexdigest()[:16]
    return (cache_root() / FOLDER).resolve() / f"{environment.name}-{digest}"


def is_there(environment: Environment) -> bool:
    """Whether it has been set up."""
    return not environment.requirements or (place(environment) / _NOTE).is_file()


def require_programs(environment: Environment) -> None:
    """Raises DependencyError where a program that the server needs isn't there."""
    for program, install in environment.programs.items():
        if shutil.which(program) is None:
            raise DependencyError(
                f"{environment.name} needs {program}", code="package-missing", hint=install
            )


def set_up(environment: Environment, progress: Progress) -> Path:
    """The folder of the environment, made first where it isn't there.

    Raises:
        DependencyError: pip couldn't install it; its last lines are in the details.
    """
    folder = place(environment)
    if is_there(environment):
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(folder.name + ".lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        if not is_there(environment):
            shutil.rmtree(folder, ignore_errors=True)  # what a killed run left
            _install(environment, folder, progress)
    return folder


def own_variables() -> dict[str, str]:
    """Our environment variables, without those that would change another Python."""
    return {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}


def _install(environment: Environment, folder: Path, progress: Progress) -> None:
    progress("making a virtual environment")
    _run([sys.executable, "-m", "venv", str(folder)], environment)
    python = folder / "bin" / "python"
    pip = [str(python), "-m", "pip", "install", "--quiet", "--no-input", "--prefer-binary"]
    pip += ["--disable-pip-version-check"] + ["--no-deps"] * (not environment.dependencies)
    if environment.constraints:
        (folder / _CONSTRAINTS).write_text(environment.constraints, encoding="utf-8")
        pip += ["--constraint", str(folder / _CONSTRAINTS)]
    progress(f"installing {', '.join(environment.requirements)}")
    _run([*pip, *environment.requirements], environment)
    note = {"requirements": list(environment.requirements)}
    (folder / _NOTE).write_text(json.dumps(note))


def _run(line: list[str], environment: Environment) -> None:
    done = subprocess.run(
        line, env=own_variables(), stdin=subprocess.DEVNULL, capture_output=True, text=True,
        errors="replace", check=False,
    )  # fmt: skip
    if done.returncode:
        said = [text for text in (done.stderr or done.stdout).splitlines() if text.strip()]
        raise DependencyError(
            f"setting up {environment.name} failed: {' '.join(environment.requirements)}",
            code="setup-failed",
            details=said[-8:],
            hint=environment.hint,
        )
