"""Puts ``build_engine.py`` together: one file out of modules that are tested one by one.

Imports of siblings are left out, those of the standard library go to the top, and the rest follows
module by module, in an order in which everything is there before it is used. The file needs Python
3.9, the standard library and TensorRT.
"""

from __future__ import annotations

import ast
import re
import threading
from collections.abc import Iterator
from functools import cache
from importlib.resources import files

from converter.errors import InternalError

SCRIPT_NAME = "build_engine.py"

PARTS = (
    "engine_script/refusals.py",
    "engine_script/lock.py",
    "child_network.py",
    "child_settings.py",
    "engine_script/building.py",
    "engine_script/comparing.py",
    "engine_script/driver.py",
    "engine_script/running.py",
    "engine_script/switching.py",
    "engine_script/command.py",
)
"""The modules, each after those that it imports."""

_HEAD = '''#!/usr/bin/env python3
"""Builds the TensorRT engine that engine.lock.json beside this file describes, on this machine's
GPU; compares it with the source framework's outputs; turns the Triton folder to it.

    python3 build_engine.py --dry-run      # what it would do
    python3 build_engine.py                # does it
    python3 build_engine.py --help

It needs Python 3.9 or newer and TensorRT's Python package, and nothing else. Written by Modelyard.
"""
'''


_PARSING = threading.Lock()
"""Held while ``ast`` parses: Python 3.11 ends two threads that do so at once by a SystemError."""


@cache
def script_text() -> str:
    """The file's text; the same every time.

    Raises:
        InternalError: Two of the modules have a name in common, or one imports what isn't there.
    """
    imports: set[str] = set()
    bodies: list[str] = []
    owners: dict[str, str] = {}
    for part in PARTS:
        text = files("emitters.tensorrt").joinpath(part).read_text(encoding="utf-8")
        with _PARSING:
            tree = ast.parse(text)
        missing = [name for name in _siblings(tree) if name not in owners]
        if missing:
            raise InternalError(f"{part} imports {missing[0]}, which is in no module before it")
        for name in _names(tree):
            if owners.setdefault(name, part) != part:
                raise InternalError(f"{part} and {owners[name]} both have a {name}")
        imports.update(_outer_imports(tree))
        title = part.rsplit("/", 1)[-1].removesuffix(".py").replace("_", " ")
        bodies.append(f"# {'-' * 20} {title}\n\n{_body(text, tree)}")
    future = "from __future__ import annotations"
    lines = sorted(imports - {future}, key=lambda line: (line.startswith("from"), line))
    end = 'if __name__ == "__main__":\n    sys.exit(main())\n'
    return "\n\n".join([f"{_HEAD}\n{future}\n\n" + "\n".join(lines), *bodies, end])


def _is_sibling(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and (node.module or "").startswith("emitters.")


def _siblings(tree: ast.Module) -> Iterator[str]:
    """What a module imports of its siblings."""
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and _is_sibling(node):
            yield from (alias.name for alias in node.names)


def _outer_imports(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and not _is_sibling(node):
            for alias in node.names:
                yield f"from {node.module} import {ast.unparse(alias)}"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield f"import {ast.unparse(alias)}"


def _names(tree: ast.Module) -> Iterator[str]:
    """What a module defines."""
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.Assign):
            yield from (item.id for item in node.targets if isinstance(item, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


def _body(text: str, tree: ast.Module) -> str:
    """The module's text without its docstring and its imports, comments and all."""
    lines = text.splitlines()
    for node in tree.body:
        docstring = node is tree.body[0] and isinstance(node, ast.Expr)
        if docstring or isinstance(node, (ast.Import, ast.ImportFrom)):
            for number in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                lines[number - 1] = ""
    return re.sub(r"\n{4,}", "\n\n\n", "\n".join(lines)).strip("\n") + "\n"
