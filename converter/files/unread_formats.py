"""Formats that are known and not read: how each is told, and what to do about it.

Parsers and targets declare them (``refused`` in their specs). Contents count where a format has a
mark of its own; nothing of a file is loaded or run.
"""

from __future__ import annotations

import ast
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from converter import plugins
from converter.errors import ModelError, ModelyardError, UsageError

_HEAD = 4096


@dataclass(frozen=True)
class Foreign:
    """A format that isn't read.

    Attributes:
        title: What such a file is, with an article.
        advice: What to do; ``{stem}``, ``{name}`` and ``{folder}`` are the source's, quoted.
        is_one: Whether a file (or folder) is one, from its path and its first bytes.
        error: What it is refused as.
    """

    title: str
    advice: str
    is_one: Callable[[Path, bytes], bool]
    error: type[ModelyardError] = ModelError


def ends_with(*suffixes: str) -> Callable[[Path, bytes], bool]:
    """A file whose name ends so."""
    return lambda path, head: path.is_file() and path.name.lower().endswith(suffixes)


def starts_with(*marks: bytes) -> Callable[[Path, bytes], bool]:
    """What begins with one of these."""
    return lambda path, head: head.startswith(marks)


def ends_and_has(suffix: str, *parts: bytes) -> Callable[[Path, bytes], bool]:
    """A file that ends so and has all of these in its first bytes."""
    return lambda path, head: path.suffix.lower() == suffix and all(p in head for p in parts)


def holds(*names: str) -> Callable[[Path, bytes], bool]:
    """A folder that holds one of these."""
    return lambda path, head: any((path / name).exists() for name in names)


def any_of(*rules: Callable[[Path, bytes], bool]) -> Callable[[Path, bytes], bool]:
    """What one of the rules takes."""
    return lambda path, head: any(rule(path, head) for rule in rules)


def refuse_foreign(source: str) -> None:
    """Refuses what is of a format that is known and not read.

    Raises:
        ModelError, UsageError: It is; with what to do.
    """
    path = Path(source)
    if not path.exists():
        return
    head = b""
    if path.is_file():
        with path.open("rb") as file:
            head = file.read(_HEAD)
    known = (
        item
        for _, spec in plugins.specs("parsers", "emitters")
        for item in getattr(spec, "refused", ())
    )
    found = next((item for item in known if item.is_one(path, head)), None)
    if found is not None:
        raise found.error(
            f"{path.name} is {found.title}, which isn't read", hint=_filled(found.advice, path)
        )


def _filled(advice: str, path: Path) -> str:
    texts = {"stem": path.stem, "name": path.name, "folder": str(path.parent)}
    for name, text in texts.items():
        advice = advice.replace(f"{{{name}}}", shlex.quote(text))
    return advice


def bare_python(source: str) -> UsageError | None:
    """What to say of a Python file without ``:CLASS``; None for what is no Python file."""
    path = Path(source)
    if path.suffix != ".py" or not path.is_file():
        return None
    names = _models_in(path)
    more = f"It defines {', '.join(names)}: " if names else ""
    return UsageError(
        f"{path.name} is Python code, and the command doesn't say which class or function "
        "makes the model",
        code="choose-one",
        hint=f"{more}modelyard convert {shlex.quote(source)}:{names[0] if names else 'CLASS'} "
        "--weights FILE --input NAME:DIMxDIM",
    )


def _models_in(path: Path) -> list[str]:
    """The classes of a file that look like modules; else all classes, else all functions."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # nested too deeply
        return []
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    modules = [c.name for c in classes if any("Module" in ast.unparse(base) for base in c.bases)]
    functions = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    return modules or [node.name for node in classes] or functions


def _nowhere(source: str) -> str | None:
    return None


def missing(source: str) -> UsageError:
    """What to say of a source that isn't there: a parser may know the name, and where it leads."""
    for _, item in plugins.specs("parsers"):
        if (found := getattr(item, "elsewhere", _nowhere)(source)) is not None:
            return UsageError(
                f"there is no {source} here, and Modelyard reads models only from local "
                "files and folders",
                code="file-not-found",
                hint=f"{found} `modelyard zoo list` shows the models that Modelyard can fetch.",
            )
    return UsageError(
        f"there is no {source}",
        code="file-not-found",
        hint="Name a model's file or folder, FILE.py:CLASS, package.module:factory, or zoo:NAME.",
    )
