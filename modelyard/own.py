"""Loads Modelyard's packages from where they lie, whatever else has their names.

``converter``, ``parsers``, ``zoo``... are names that a user's own files may have too, in the
folder or on PYTHONPATH; those must break neither the command nor a call from Python. As a script
(``python -P .../modelyard/own.py MODULE``), it runs a module of ours in a child.
"""

from __future__ import annotations

import runpy
import sys
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

NAMES = ("converter", "emitters", "modelyard", "parsers", "recipes", "zoo")
"""The top-level packages of Modelyard."""

_ROOT = Path(__file__).resolve().parents[1]


class _Finder:
    """Finds the packages of :data:`NAMES` beside this one, before anything else is asked."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Ours for a name of ours; None for all others, and for what is in a package."""
        if path is not None or name not in NAMES:
            return None
        return PathFinder.find_spec(name, [str(_ROOT)])


def claim() -> None:
    """Has the names of :data:`NAMES` mean our packages from now on.

    Raises:
        ImportError: Another module of such a name is loaded already; its file is named.
    """
    for name in NAMES:
        place = _place(sys.modules[name]) if name in sys.modules else _ROOT / name
        if not place.is_relative_to(_ROOT / name):
            raise ImportError(
                f"modelyard has a package called {name!r}, and another module of that name is "
                f"loaded already, from {place}. Rename that file, or call modelyard in a process "
                "of its own: python -m modelyard",
                name=name,
                path=str(place),
            )
    if _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)


def _place(module: ModuleType) -> Path:
    """Where a module was loaded from: its file, or its folder where it has none."""
    places = [module.__file__] if getattr(module, "__file__", None) else module.__path__
    return next((Path(str(place)).resolve() for place in places), Path(module.__name__))


if __name__ == "__main__":
    claim()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
