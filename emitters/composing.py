"""One Python file out of modules that are tested one by one, for where nothing of ours is.

Imports of our own modules are left out, those of the standard library and of what the file needs
go to the top, and the rest follows module by module, in an order in which everything is there
before it is used.
"""

from __future__ import annotations

import ast
import gc
import re
import sys
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
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
    imports: dict[str, set[str]] = {}
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
        for module, names in _outer_imports(tree):
            imports.setdefault(module, set()).update(names)
        title = part.rsplit(".", 1)[-1].replace("_", " ")
        bodies.append(f"# {'-' * 20} {title}\n\n{_body(text, tree)}")
    first = f"{head}\n\nfrom __future__ import annotations"
    return "\n\n".join([first, *_written(imports), *bodies, end]).rstrip("\n") + "\n"


def _written(imports: Mapping[str, Collection[str]]) -> Iterator[str]:
    """Imports of the standard library, then others, as isort has them."""
    for ours in (True, False):
        whole, parts = [], []
        for module, names in sorted(imports.items()):
            if (module.split()[0].split(".")[0] in sys.stdlib_module_names) is not ours:
                continue
            whole += [f"import {module}"] if "" in names else []
            chosen = sorted(filter(None, names), key=_kind_of_name)
            parts += [f"from {module} import {', '.join(chosen)}"] if chosen else []
        if whole or parts:
            yield "\n".join([*whole, *parts])


def _kind_of_name(name: str) -> tuple[int, str]:
    """Constants, classes, functions; each by the alphabet."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)


def beside(text: str, siblings: str, module: str) -> str:
    """A module's text for where what it imports of its siblings stands in one module.

    Args:
        text: The module's.
        siblings: A pattern of their names.
        module: What they all are there.
    """
    lines = re.compile(rf"^from (?:{siblings}) import (.+)\n", re.MULTILINE)
    names = sorted({n for part in lines.findall(text) for n in part.split(", ")}, key=_kind_of_name)
    line = f"from {module} import {', '.join(names)}\n"
    first = lines.search(text)
    assert first is not None
    before, after = text[: first.start()].rstrip("\n"), lines.sub("", text[first.start() :])
    return f"{before}\n{line}{after}"  # a file beside it is no package of its own to isort


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


def _outer_imports(tree: ast.Module) -> Iterator[tuple[str, set[str]]]:
    """Modules, and what is imported of each; the empty name stands for the module itself."""
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and not _is_sibling(node):
            names = {ast.unparse(alias) for alias in node.names} - {"TYPE_CHECKING"}
            if node.module != "__future__":
                yield str(node.module), names
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield ast.unparse(alias), {""}


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
