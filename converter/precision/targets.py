"""What the targets of a request allow of a lower precision."""

from __future__ import annotations

from converter import plugins
from converter.options.request import Request


def has_grouped_tables(request: Request) -> bool:
    """Whether palettized weights may have a table for each group of channels in every target."""
    targets = (plugins.load("emitters", name) for name in request.to)
    return all(target.has_grouped_tables(request) for target in targets)
