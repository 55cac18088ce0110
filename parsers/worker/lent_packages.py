"""Packages that travel: found in the folders they came from, behind everything that is installed.

The parent says which, where its Python and this one load the same compiled modules, so that
exporting needs nothing here but the framework. Nothing else of those folders is found.
"""

from __future__ import annotations

import json
import os
import sys
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import Distribution, DistributionFinder, MetadataPathFinder
from pathlib import Path
from typing import Any, FrozenSet, Iterable, List, Optional

VARIABLE = "MODELYARD_CARRIED"


class _Carried(DistributionFinder):
    """Asked last: for a module, or a distribution, that nobody else has."""

    def __init__(self, folders: List[str], modules: List[str], distributions: List[str]) -> None:
        self._folders = folders
        self._modules: FrozenSet[str] = frozenset(modules)
        self._distributions = distributions

    def find_spec(
        self, name: str, path: Optional[Iterable[str]] = None, target: Any = None
    ) -> Optional[ModuleSpec]:
        """A module by its full name; one within a package of namespaces (google.protobuf) too."""
        if not any(name == own or own.startswith(f"{name}.") for own in self._modules):
            return None
        *above, _ = name.split(".")
        folders = [str(Path(folder, *above)) for folder in self._folders]
        return PathFinder.find_spec(name, folders)

    def find_distributions(
        self,
        context: Any = DistributionFinder.Context(),  # noqa: B008 - as the base class has it
    ) -> Iterable[Distribution]:
        """What is carried of the distributions that are asked for."""
        for name in self._distributions if context.name is None else [context.name]:
            if name.lower().replace("_", "-").replace(".", "-") in self._distributions:
                wanted = DistributionFinder.Context(name=name, path=self._folders)
                yield from MetadataPathFinder.find_distributions(wanted)


def install() -> None:
    """Have what the parent carries be found; nothing without its word."""
    told = os.environ.pop(VARIABLE, "")
    if told:
        sys.meta_path.append(_Carried(**json.loads(told)))
