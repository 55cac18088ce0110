"""Which source files the user's code brought in, as a key for caches."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import Dict, FrozenSet, List

# Parts of torch that it loads late.
_FRAMEWORK = frozenset({"functorch", "torchgen"})
_STDLIB = frozenset(getattr(sys, "stdlib_module_names", sys.builtin_module_names))


def top_packages() -> FrozenSet[str]:
    """The top-level names loaded now; taken before user code is imported."""
    return frozenset(name.partition(".")[0] for name in list(sys.modules))


def brought_in(before: FrozenSet[str]) -> List[Dict[str, str]]:
    """Modules loaded from files since `before`, sorted by name.

    Each is {name, path, sha256}. Packages that the framework had loaded itself and the standard
    library are left out: the framework's version stands for them.
    """
    found = []
    for name, module in sorted(sys.modules.items()):
        top = name.partition(".")[0]
        if top in before or top in _STDLIB or top in _FRAMEWORK:
            continue
        # Not getattr: a lazy module may import half a library on an unknown attribute.
        file = getattr(module, "__dict__", {}).get("__file__")
        if isinstance(file, str) and Path(file).is_file():
            digest = hashlib.sha256(Path(file).read_bytes()).hexdigest()
            found.append({"name": name, "path": file, "sha256": digest})
    return found
