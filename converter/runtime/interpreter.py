"""The Python in which frameworks run: the tool's own, or the user's (``--python``)."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import site
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from converter.errors import DependencyError, UsageError
from converter.runtime.child import changed_environment
from converter.runtime.lent_packages import carried, environment, lent, translating

OLDEST = (3, 9)
"""The oldest Python that the worker runs in."""

STARTUP_SECONDS = 60
"""How long an interpreter may take to say what is installed in it."""

_MARK = "modelyard-interpreter "

# Runs in any Python, 2 included, to say that it is too old. The current folder comes first on
# the path of a -c program, where a json.py of the user's would be in the way.
_LIST = """
import sys
sys.path[:] = [entry for entry in sys.path if entry]
import json
found = {}
abi = ""
if sys.version_info >= (3, 8):
    import sysconfig
    from importlib import metadata
    abi = sysconfig.get_config_var("SOABI") or ""
    for item in metadata.distributions():
        named = item.metadata
        if named is not None and named["Name"] and named["Version"]:
            name = named["Name"].lower().replace("_", "-").replace(".", "-")
            found.setdefault(name, named["Version"])
told = [list(sys.version_info[:3]), sys.prefix, sys.path, found, abi]
print("\\nMARK" + json.dumps(told))
""".replace("MARK", _MARK)


@dataclass(frozen=True)
class Interpreter:
    """A Python and what is installed in it.

    Attributes:
        path: The executable. A virtual environment's is a link, and isn't followed.
        foreign: Whether it is another than the tool's own.
        python: Its version.
        packages: Installed distributions and their versions; of a foreign one only.
        prefix: The folder of its environment; of a foreign one only.
        carried: Packages of ours that go along, and their versions: what it lacks of those that
            export a model; of a foreign one only.
        translated: Packages of ours, and their versions, that translate to ONNX what it traces,
            where they can't go along; of a foreign one only.
    """

    path: str
    foreign: bool
    python: tuple[int, int, int]
    packages: Mapping[str, str]
    prefix: str = ""
    carried: Mapping[str, str] = field(default_factory=dict)
    translated: Mapping[str, str] = field(default_factory=dict)

    @property
    def version_text(self) -> str:
        """``3.12.1``."""
        return ".".join(map(str, self.python))

    @property
    def option(self) -> str:
        """`` --python PATH``, for a command line that means this one."""
        return f" --python {shlex.quote(self.path)}" if self.foreign else ""

    def version(self, package: str) -> str | None:
        """The version of a distribution that is installed, goes along or translates, or None."""
        if self.foreign:
            name = package.lower().replace("_", "-").replace(".", "-")
            return self.packages.get(name) or {**self.carried, **self.translated}.get(name)
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
            doing: What they are needed for: ``reading a model``.
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
                + (f" in {self.path}{_not_along(missing, self.python)}" if self.foreign else ""),
                code="package-missing",
                hint=self.install_line(missing, extra),
            )
        if self.foreign:
            found["python"] = self.version_text
        for name in (item.to for item in lent() if item.translating[-1] in found):
            if name in self.translated:
                found[f"translating {name}"] = self.translated[name]
        return found

    def install_line(self, packages: Sequence[str], extra: str = "") -> str:
        """The line that installs what is missing; here, with all else that our extra lacks."""
        from converter.plugins.extras import brings, in_range, lacking, pip_line

        if not self.foreign:
            ours = extra and all(brings(extra, name) for name in packages)
            more = [name for name in lacking(extra) if name not in packages] if ours else []
            return pip_line(in_range(name, extra) for name in [*packages, *more])
        return f"{shlex.quote(self.path)} -m pip install {' '.join(map(shlex.quote, packages))}"

    def outdated(self, extra: str) -> list[str]:
        """What is there of an extra's packages in a version older than it asks for."""
        from packaging.version import InvalidVersion, Version

        from converter.plugins.extras import requirements

        found = []
        for needed in requirements(extra):
            try:
                here = Version(self.version(needed.name) or "")
            except InvalidVersion:  # not there, or numbered in a way of its own
                continue
            if not needed.specifier.contains(here, prereleases=True):
                found.append(f"{needed.name} {here} ({needed.specifier})")
        return found

    def environment(self) -> dict[str, str | None]:
        """Changes to our own environment for a process that it runs; None takes one out.

        What would lead a foreign Python into our packages goes, and it writes no bytecode:
        the user's environment stays as it is.
        """
        if not self.foreign:
            return {}
        told = {"MODELYARD_TRANSLATED": "1"} if self.translated else {}
        return {**_environment(self.prefix), **environment(self.carried), **told}


def _not_along(missing: Sequence[str], python: tuple[int, int, int]) -> str:
    """Why packages that can go along don't, where that is their Python's version."""
    ours = sys.version_info[:2]
    lacking = [i.to for i in lent() if i.to not in missing and {*missing} & {*i.modules}]
    if python[:2] == ours or not lacking:
        return ""
    return (
        f", which is Python {python[0]}.{python[1]}: ours go along into {ours[0]}.{ours[1]} only, "
        f"and there is no {lacking[0]} here to translate with"
    )


class _NotRun(Interpreter):
    """One of a dry run, of which nothing is known but where it is."""

    def require(self, packages: Iterable[str], doing: str, extra: str) -> dict[str, str]:
        """No versions: whether packages are there shows when it runs."""
        return {}


_running: ContextVar[bool] = ContextVar("_running", default=True)


@contextmanager
def none_runs() -> Iterator[None]:
    """Has :func:`interpreter` run none within the block, for dry runs."""
    token = _running.set(False)
    try:
        yield
    finally:
        _running.reset(token)


def interpreter(path: str | None) -> Interpreter:
    """The interpreter at ``path`` (or of that name on PATH); the tool's own where it is None.

    Args:
        path: A program, or the folder of a virtual environment.

    Raises:
        UsageError: It isn't there, isn't a Python, or is older than :data:`OLDEST`.
    """
    if path is None:
        return Interpreter(sys.executable, False, sys.version_info[:3], {})
    executable = _executable(path)
    if not _running.get():
        return _NotRun(executable, True, (0, 0, 0), {})
    asked = (executable, _python_path())
    known = _known.get(asked)
    if known is None or known[0] != _stamps(known[1]):
        found, folders = _examined(path, executable)
        known = _known[asked] = (_stamps(folders), folders, found)
    return known[2]


_Stamps = list[tuple[str, int]]

# By executable and PYTHONPATH: the state of the folders that it imports from, those, and what was
# found.
_known: dict[tuple[str, str | None], tuple[_Stamps, list[str], Interpreter]] = {}


def _stamps(folders: Sequence[str]) -> _Stamps:
    """When something was last installed into, or removed from, each of the folders."""
    present = [folder for folder in folders if Path(folder).exists()]
    return [(folder, Path(folder).stat().st_mtime_ns) for folder in present]


def _executable(path: str) -> str:
    given = Path(os.path.expanduser(path))  # noqa: PTH111 - no error where there is no such user
    if (given / "bin" / "python").exists():
        found = shutil.which(given.absolute() / "bin" / "python")
    else:
        found = shutil.which(given.absolute() if os.sep in path else path)
    if found is None:
        there = "it isn't a program that can be run" if given.exists() else "no such program"
        raise UsageError(
            f"--python {path}: {there}",
            code="python-unusable",
            hint="Name the Python that has the framework, as in --python ~/venv/bin/python.",
        )
    return str(Path(found).absolute())


def _examined(path: str, executable: str) -> tuple[Interpreter, list[str]]:
    """What an interpreter says of itself, and the folders that it imports from."""
    told = _ask(path, executable)
    numbers, prefix, folders, packages, abi = told
    if tuple(numbers) < OLDEST:
        raise UsageError(
            f"--python {path}: it is Python {'.'.join(map(str, numbers))}; Modelyard needs "
            f"{'.'.join(map(str, OLDEST))} or newer",
            code="python-unusable",
        )
    version = (numbers[0], numbers[1], numbers[2])
    along: dict[str, str] = {}
    here: dict[str, str] = {}
    for item in (item for item in lent() if item.to in packages):
        along |= carried(item, packages, abi)
        here |= translating(item, packages, abi)
    return Interpreter(executable, True, version, packages, prefix, along, here), folders


def _ask(path: str, executable: str) -> Any:
    try:
        answer = subprocess.run(
            [executable, "-c", _LIST],
            env=changed_environment(_environment("")),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=STARTUP_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise UsageError(
            f"--python {path}: it didn't answer within {STARTUP_SECONDS} s, so it isn't a "
            "working Python",
            code="python-unusable",
        ) from None
    except OSError as error:
        raise UsageError(
            f"--python {path}: it can't be run: {error.strerror}", code="python-unusable"
        ) from error
    lines = [line for line in answer.stdout.splitlines() if line.startswith(_MARK)]
    if not lines:
        raise UsageError(
            f"--python {path}: it isn't a working Python: it ended with code "
            f"{answer.returncode} and printed",
            code="python-unusable",
            details=_last_lines(answer.stderr) or ["nothing"],
        )
    return json.loads(lines[-1].removeprefix(_MARK))


def _last_lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()][-6:]


def _environment(prefix: str) -> dict[str, str | None]:
    changes: dict[str, str | None] = dict.fromkeys(
        ("PYTHONHOME", "PYTHONEXECUTABLE", "PYTHONPLATLIBDIR", "__PYVENV_LAUNCHER__")
    )
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        if os.environ.get(name) != prefix:
            changes[name] = None
    changes["PYTHONPATH"] = _python_path()
    changes["PYTHONDONTWRITEBYTECODE"] = "1"
    return changes


def _python_path() -> str | None:
    """The user's PYTHONPATH, less the folders that hold us and what was installed for us."""
    ours = {Path(__file__).resolve().parents[2]}
    ours.update(Path(folder).resolve() for folder in site.getsitepackages())
    entries = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    kept = [entry for entry in entries if entry and Path(entry).resolve() not in ours]
    return os.pathsep.join(kept) or None
