"""Has a module imported when it is first used: for those that a library imports and seldom needs.

onnx-ir computes with symbolic dimensions by sympy, whose import takes longer than that of all the
rest; most runs never compute with one.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class _Deferred(ModuleType):
    """Stands for a module until an attribute of it is asked for."""

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(importlib.import_module(self.__name__), name)


class _Loaded(MetaPathFinder, Loader):
    """Finds what is loaded: where ``import NAME.PART`` asks the stand-in for its path, NAME is
    imported with PART, which Python would load a second time."""

    names: frozenset[str] = frozenset()

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        there = sys.modules.get(name)
        if there is None or target is not None or name.partition(".")[0] not in self.names:
            return None
        return ModuleSpec(name, self, loader_state=there.__spec__)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return sys.modules[spec.name]

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state


_LOADED = _Loaded()


def defer(name: str) -> None:
    """Has ``import NAME`` cost nothing until the module is used; nothing where it is loaded."""
    if name not in sys.modules:
        stand_in = _Deferred(name)
        if "." not in name:  # of a module within a package, asking would import that
            stand_in.__spec__ = importlib.util.find_spec(name)
        sys.modules[name] = stand_in
        _LOADED.names |= {name}
        if _LOADED not in sys.meta_path:
            sys.meta_path.insert(0, _LOADED)
