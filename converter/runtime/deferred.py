"""Has a module imported when it is first used: for those that a library imports and seldom needs.

onnx-ir computes with symbolic dimensions by sympy, whose import takes longer than that of all the
rest; most runs never compute with one.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType
from typing import Any


class _Deferred(ModuleType):
    """Stands for a module until an attribute of it is asked for."""

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(importlib.import_module(self.__name__), name)


def defer(name: str) -> None:
    """Has ``import NAME`` cost nothing until the module is used; nothing where it is loaded."""
    if name not in sys.modules:
        stand_in = _Deferred(name)
        if "." not in name:  # of a module within a package, asking would import that
            stand_in.__spec__ = importlib.util.find_spec(name)
        sys.modules[name] = stand_in
