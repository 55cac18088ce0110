"""One Python file out of modules that are tested one by one, for where nothing of ours is.

Imports of our own modules are left out, those of the standard library and of what the file needs
go to the top, and the rest follows module by module, in an order in which everything is there
before it is used.
"""

from __future__ import annotations

import ast
import gc
import re
import threading
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files

from converter.errors import InternalError

_OURS = ("converter.", "emitters.")

_PARSING = threading.Lock()


def compose(head: str, parts: Sequence[str], end: str) -> str:
    """The file's text; the same every time.

    Args:
        head: Its first lines: what it is.
        parts: The modules (``converter.check.sums``), each after those that it imports.
        end: Its last lines.

    Raises:
        InternalError: Two of the modules have a name in common, or one imports what isn't there.
    """
    imports: set[str] = set()
    bodies: list[str] = []
    owners: dict[str, str] = {}
    for part in parts:
        text, tree = _read(part)
        missing = [name for name in _siblings(tree) if name not in owners]
        if missing:
            raise InternalError(f"{part} imports {missing[0]}, which is in no module before it")
        for name in _names(tree):
            if owners.setdefault(name, part) != part:
                raise InternalError(f"{part} and {owners[name]} both have a {name}")
        imports.update(_outer_imports(tree))
        title = part.rsplit(".", 1)[-1].replace("_", " ")
        bodies.append(f"# {'-' * 20} {title}\n\n{_body(text, tree)}")
    future = "from __future__ import annotations"
    lines = sorted(imports - {future}, key=lambda line: (line.startswith("from"), line))
    return "\n\n".join([f"{head}\n{future}\n\n" + "\n".join(lines), *bodies, end])


@cache
def _read(part: str) -> tuple[str, ast.Module]:
    package, _, name = part.rpartition(".")
    text = files(package).joinpath(f"{name}.py").read_text(encoding="utf-8")
    return text, _parse(text)


def _parse(text: str) -> ast.Module:
    """Its tree, made without another thread in between.

    Before 3.11.9 Python counts the depth of all trees that are being made in one number
    (gh-106905), so that a thread that makes one, as NumPy does to read a header, ends the other
    with a SystemError. Threads change while a tree is made only where garbage is collected.
    """
    with _PARSING:
        collects = gc.isenabled()
        gc.disable()
        try:
            return ast.parse(text)
        finally:
            if collects:
                gc.enable()


def _is_sibling(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and (node.module or "").startswith(_OURS)


def _siblings(tree: ast.Module) -> Iterator[str]:
    """What a module imports of its siblings."""
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and _is_sibling(node):
            yield from (alias.name for alias in node.names)


def _outer_imports(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and not _is_sibling(node):
            for alias in node.names:
                if alias.name != "TYPE_CHECKING":
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
    """The module's text without its docstring, its imports and what is for type checkers alone,
    comments and all."""
    lines = text.splitlines()
    for node in tree.body:
        docstring = node is tree.body[0] and isinstance(node, ast.Expr)
        typing = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        if docstring or typing or isinstance(node, (ast.Import, ast.ImportFrom)):
            for number in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                lines[number - 1] = ""
    return re.sub(r"\n{4,}", "\n\n\n", "\n".join(lines)).strip("\n") + "\n"
