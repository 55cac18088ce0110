"""What the install extras bring, as our own metadata has them, and the lines that install it.

The lines name the packages themselves, in the versions that were tested together, for the Python
that runs: they work as printed, wherever modelyard was installed from.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterable
from functools import cache
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import TYPE_CHECKING

from converter.errors import DependencyError

if TYPE_CHECKING:
    from packaging.requirements import Requirement

_OURSELVES = "modelyard"
_ROOT = Path(__file__).resolve().parents[2]
_PLACES = (_ROOT / _OURSELVES / "constraints.txt", _ROOT / "constraints.txt")
_TESTED = next(filter(Path.is_file, _PLACES), None)
"""The tested versions: in the package where it was installed, beside it in a checkout."""


@cache
def requirements(extra: str = "") -> tuple[Requirement, ...]:
    """What an extra asks for on this machine, the extras that it includes in its place.

    Args:
        extra: Its name; ``""`` for what is always installed.
    """
    found: dict[str, Requirement] = {}
    for needed in _all():
        if needed.marker is None or needed.marker.evaluate({"extra": ""}):
            asked = not extra
        else:
            asked = bool(extra) and needed.marker.evaluate({"extra": extra})
        if not asked:
            continue
        inner = sorted(needed.extras) if needed.name == _OURSELVES else None
        for item in [needed] if inner is None else [i for e in inner for i in requirements(e)]:
            found[item.name] = item
    return tuple(found.values())


def extras() -> tuple[str, ...]:
    """The names of all extras."""
    from importlib.metadata import metadata

    return tuple(metadata(_OURSELVES).get_all("Provides-Extra") or ())


def brings(extra: str, package: str) -> bool:
    """Whether installing us with that extra installs a distribution."""
    wanted = canonical(package)
    both = (*requirements(), *requirements(extra))
    return any(canonical(needed.name) == wanted for needed in both)


def lacking(extra: str) -> list[str]:
    """The packages of an extra that aren't installed."""
    return [needed.name for needed in requirements(extra) if installed(needed.name) is None]


def installed(package: str) -> str | None:
    """The version of a distribution in our own environment, or None."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def in_range(package: str, extra: str = "") -> str:
    """A package with the versions that we, or an extra of ours, ask for: ``onnx>=1.20``."""
    wanted = canonical(package)
    for needed in (*requirements(), *requirements(extra)):
        if canonical(needed.name) == wanted:
            return f"{needed.name}{needed.specifier}"
    return package


def pip_line(texts: Iterable[str]) -> str:
    """The line that installs requirements into our own environment, at tested versions."""
    tested = ["-c", str(_TESTED)] if _TESTED else []
    words = [sys.executable, "-m", "pip", "install", *tested, *texts]
    return " ".join(map(shlex.quote, words))


def install_line(extra: str) -> str:
    """The line that installs what an extra lacks here; all of it where nothing is lacking."""
    names = lacking(extra) or [needed.name for needed in requirements(extra)]
    return pip_line(in_range(name, extra) for name in names)


def damaged(error: Exception) -> DependencyError | None:
    """What to say of an exception that tells that a package of ours isn't there, or isn't whole.

    A package that another has overwritten, or left half of, imports and has nothing in it.
    """
    said = re.match(r"(?:partially initialized )?module '(\w+)[.\w]*' has no attribute", str(error))
    module = said[1] if said and isinstance(error, AttributeError) else ""
    if isinstance(error, ImportError):
        module = (error.name or "").split(".")[0]
    for needed in requirements() if module else ():
        name = canonical(needed.name)
        if name.removesuffix("-gpu").replace("-", "_") == module:
            return DependencyError(
                f"{needed.name} is missing or damaged: {error}",
                code="package-missing",
                hint=f"{pip_line(['--force-reinstall', '--no-deps', in_range(name)])}\nmodelyard "
                "doctor shows what is wrong.",
            )
    return None


def canonical(package: str) -> str:
    """A distribution's name as it is compared: PyPA's "Names and normalization"."""
    from packaging.utils import canonicalize_name

    return canonicalize_name(package)


@cache
def _all() -> tuple[Requirement, ...]:
    from packaging.requirements import Requirement

    return tuple(Requirement(text) for text in requires(_OURSELVES) or ())
