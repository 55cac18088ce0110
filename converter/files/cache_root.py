"""The folder of everything that can be made or fetched again."""

from __future__ import annotations

import os
from pathlib import Path


def cache_root() -> Path:
    """The folder of everything that can be made or fetched again."""
    own = os.environ.get("MODELYARD_CACHE")
    if own:
        return Path(own).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base).expanduser() if base else Path.home() / ".cache") / "modelyard"
