"""The names in the catalogue, without reading the rest: completion has to be quick."""

from __future__ import annotations

import re
from pathlib import Path

_NAME = re.compile(r"^([a-z0-9][\w.-]*):", re.MULTILINE)


def names() -> list[str]:
    """Every model's name, in the catalogue's order."""
    return _NAME.findall((Path(__file__).parent / "catalogue.yaml").read_text(encoding="utf-8"))
