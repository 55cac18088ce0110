"""What of our own packages goes along into the user's Python, so that torch is enough there.

torch exports to ONNX with onnxscript, and that with onnx and others. Two of those are compiled
for one version of Python: they go along where the user's loads the same compiled modules as ours.
"""

from __future__ import annotations

import json
import sysconfig
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from typing import TYPE_CHECKING

from converter.extras import canonical

if TYPE_CHECKING:
    from packaging.requirements import Requirement

MODULES = {
    "onnxscript": ("onnxscript",),
    "onnx": ("onnx",),
    "onnx-ir": ("onnx_ir",),
    "ml-dtypes": ("ml_dtypes",),
    "protobuf": ("google.protobuf", "google._upb"),
    "numpy": ("numpy",),
    "packaging": ("packaging",),
    "typing-extensions": ("typing_extensions",),
    "sympy": ("sympy", "mpmath"),
}
"""What may go along, and the modules of each."""

_TRANSLATING = ("torch", "onnxscript")


def carried(packages: Mapping[str, str], abi: str) -> dict[str, str]:
    """The versions of what goes along into a Python: what it lacks of :data:`MODULES`.

    Args:
        packages: The distributions installed there, by canonical name, and their versions.
        abi: The tag of the compiled modules that it loads (``SOABI``).

    Nothing goes where something there is older than what would go along needs.
    """
    if abi != sysconfig.get_config_var("SOABI"):
        return {}
    there = {canonical(name): text for name, text in packages.items()}
    ours = {name: text for name, text in _versions().items() if name not in there}
    for name in ours:
        for needed in _requirements(name):
            version = there.get(canonical(needed.name))
            if version and not needed.specifier.contains(version, prereleases=True):
                return {}
    return ours


def translating(packages: Mapping[str, str], abi: str) -> dict[str, str]:
    """The versions of what translates here what a Python traces that nothing can go along into.

    Args:
        packages, abi: As for :func:`carried`.

    Nothing where it exports by itself, or may have ours, or there is no torch here.
    """
    if "onnxscript" in packages or abi == sysconfig.get_config_var("SOABI"):
        return {}
    try:
        return {name: distribution(name).version for name in _TRANSLATING}
    except PackageNotFoundError:
        return {}


def environment(names: Mapping[str, str]) -> dict[str, str]:
    """The variable that tells the worker what goes along (``parsers/worker/carried.py``)."""
    if not names:
        return {}
    folders = dict.fromkeys(str(distribution(name).locate_file("")) for name in names)
    told = {
        "folders": list(folders),
        "modules": [module for name in names for module in MODULES[name]],
        "distributions": list(names),
    }
    return {"MODELYARD_CARRIED": json.dumps(told)}


@cache
def _versions() -> dict[str, str]:
    found = {}
    for name in MODULES:
        try:
            found[name] = distribution(name).version
        except PackageNotFoundError:
            continue
    return found


@cache
def _requirements(name: str) -> tuple[Requirement, ...]:
    """What one of ours needs among those that may go along."""
    from packaging.requirements import Requirement

    items = [Requirement(text) for text in distribution(name).requires or ()]
    return tuple(
        item
        for item in items
        if canonical(item.name) in MODULES and (not item.marker or item.marker.evaluate())
    )
