"""Functions that code calls: written as Python beside a table, and copied where they are needed."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import cache
from pathlib import Path


@cache
def functions_in(folder: Path) -> dict[str, tuple[str, frozenset[str]]]:
    """The functions of a folder's modules: their texts, and the names in them."""
    found = {}
    for file in sorted(folder.glob("*.py")):
        text = file.read_text(encoding="utf-8")
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef):
                names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
                source = ast.get_source_segment(text, node)
                assert source is not None
                decorators = "".join(
                    f"@{ast.get_source_segment(text, each)}\n" for each in node.decorator_list
                )
                found[node.name] = (decorators + source, frozenset(names))
    return found


def texts(folder: Path, wanted: Iterable[str]) -> list[str]:
    """Functions, and those that they call, in the order of the folder's files."""
    known = functions_in(folder)
    needed, waiting = set[str](), set(wanted)
    while waiting:
        name = waiting.pop()
        needed.add(name)
        waiting |= (known[name][1] & known.keys()) - needed
    return [text for name, (text, _) in known.items() if name in needed]
