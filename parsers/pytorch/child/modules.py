"""Which source files the user's code brought in, as a key for caches."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

# Parts of torch that it loads late.
_FRAMEWORK = frozenset({"functorch", "torchgen"})
_STDLIB = frozenset(getattr(sys, "stdlib_module_names", sys.builtin_module_names))


def top_packages() -> frozenset[str]:
    """The top-level names loaded now; taken before user code is imported."""
    return frozenset(name.partition(".")[0] for name in list(sys.modules))


def brought_in(before: frozenset[str]) -> list[dict[str, str]]:
    """Modules loaded from files since `before`, sorted by name.

    Each is {name, path, sha256}; a file that is gone since is left out.
    """
    found = []
    for name, file in files_since(before):
        if Path(file).is_file():
            digest = hashlib.sha256(Path(file).read_bytes()).hexdigest()
            found.append({"name": name, "path": file, "sha256": digest})
    return found


def files_since(before: frozenset[str]) -> list[tuple[str, str]]:
    """Modules loaded since `before` and their files, sorted by name.

    Packages that the framework had loaded itself and the standard library are left out: the
    framework's version stands for them.
    """
    found = []
    for name, module in sorted(sys.modules.items()):
        top = name.partition(".")[0]
        if top in before or top in _STDLIB or top in _FRAMEWORK:
            continue
        # Not getattr: a lazy module may import half a library on an unknown attribute.
        file = getattr(module, "__dict__", {}).get("__file__")
        if isinstance(file, str):
            found.append((name, file))
    return found


def folders(before: frozenset[str]) -> list[str]:
    """Folders without an ``__init__.py`` that were imported as packages since `before`."""
    found = []
    for name, module in sorted(sys.modules.items()):
        held = getattr(module, "__dict__", {})
        if name.partition(".")[0] not in before and not held.get("__file__"):
            paths = [str(path) for path in held.get("__path__", ())]
            if paths and not any("site-packages" in path for path in paths):
                found.append(name)
    return found
