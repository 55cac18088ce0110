"""What of our own packages goes along into the user's Python, so that a framework is enough there.

Some of what exports is compiled for one version of Python: it goes along where the user's loads the
same compiled modules as ours.
"""

from __future__ import annotations

import json
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from typing import TYPE_CHECKING

from converter.plugins.extras import canonical

if TYPE_CHECKING:
    from packaging.requirements import Requirement


@dataclass(frozen=True, eq=False)
class Lent:
    """What a framework may have of ours.

    Attributes:
        to: The framework's own distribution, which is there.
        modules: The distributions that may go along, and the modules of each.
        translating: What translates here what is only traced there, the exporter last; where that
            is there, nothing is needed.
    """

    to: str
    modules: Mapping[str, tuple[str, ...]]
    translating: tuple[str, ...]


def lent() -> list[Lent]:
    """What the frameworks that parsers declare may have."""
    from converter.runtime.frameworks import frameworks

    return [item.lends for item in frameworks() if item.lends is not None]


def carried(lent: Lent, packages: Mapping[str, str], abi: str) -> dict[str, str]:
    """The versions of what goes along into a Python: what it lacks of that.

    Args:
        lent: What may go.
        packages: The distributions installed there, by canonical name, and their versions.
        abi: The tag of the compiled modules that it loads (``SOABI``).

    Nothing goes where something there is older than what would go along needs.
    """
    if abi != sysconfig.get_config_var("SOABI"):
        return {}
    there = {canonical(name): text for name, text in packages.items()}
    ours = {name: text for name, text in _versions(*lent.modules).items() if name not in there}
    for name in ours:
        for needed in _requirements(name, *lent.modules):
            version = there.get(canonical(needed.name))
            if version and not needed.specifier.contains(version, prereleases=True):
                return {}
    return ours


def translating(lent: Lent, packages: Mapping[str, str], abi: str) -> dict[str, str]:
    """The versions of what translates here, for a Python that nothing can go along into.

    Nothing where it exports by itself, or may have ours, or the framework isn't here.

    Args:
        lent: What could go along, and what translates here.
        packages: The distributions installed there, by canonical name, and their versions.
        abi: The tag of the compiled modules that it loads (``SOABI``).
    """
    if lent.translating[-1] in packages or abi == sysconfig.get_config_var("SOABI"):
        return {}
    try:
        return {name: distribution(name).version for name in lent.translating}
    except PackageNotFoundError:
        return {}


def environment(names: Mapping[str, str]) -> dict[str, str]:
    """The variable that tells the worker what goes along (``parsers/worker/lent_packages.py``)."""
    if not names:
        return {}
    known = {name: modules for item in lent() for name, modules in item.modules.items()}
    folders = dict.fromkeys(str(distribution(name).locate_file("")) for name in names)
    told = {
        "folders": list(folders),
        "modules": [module for name in names for module in known[name]],
        "distributions": list(names),
    }
    return {"MODELYARD_CARRIED": json.dumps(told)}


@cache
def _versions(*names: str) -> dict[str, str]:
    found = {}
    for name in names:
        try:
            found[name] = distribution(name).version
        except PackageNotFoundError:
            continue
    return found


@cache
def _requirements(name: str, *among: str) -> tuple[Requirement, ...]:
    """What one of ours needs among those that may go along."""
    from packaging.requirements import Requirement

    items = [Requirement(text) for text in distribution(name).requires or ()]
    return tuple(
        item
        for item in items
        if canonical(item.name) in among and (not item.marker or item.marker.evaluate())
    )
