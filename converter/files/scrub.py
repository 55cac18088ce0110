"""Takes the paths of this machine out of what is written for others to read.

Names of nodes look like paths too (``/encoder/layer.0/MatMul``), and have to stay. So an
absolute path counts as one of this machine where it lies under the home, current or
temporary folder, the interpreter's folder or a folder that holds users' homes, or where its
first two parts (or all of it) are there on this machine.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from converter.errors import InternalError
from converter.files.temporary import outside

_END = r"\s'\"<>|:;,()\[\]{}=*?"
_POSIX = re.compile(rf"(?<![\w./~-])(?:file://)?(?:~|)/[^{_END}/]+(?:/[^{_END}/]+)*/?")
_WINDOWS = re.compile(rf"(?<!\w)[A-Za-z]:\\[^{_END}]+")
_HOMES = (*(f"/{name}/" for name in ("home", "Users", "root", "tmp", "private")), "~/")


def scrub(value: Any) -> Any:
    """``value`` with every path of this machine reduced to its last part.

    Args:
        value: A string, or lists, tuples and mappings of them; anything else is given back as
            it is. A Path becomes its name.
    """
    if isinstance(value, str):
        return _scrub_text(value)
    if isinstance(value, Path):
        return value.name
    if isinstance(value, Mapping):
        return {scrub(key): scrub(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(scrub(item) for item in value)
    return value


def assert_no_paths(value: Any, what: str) -> None:
    """Raises InternalError where a string in ``value`` holds a path of this machine.

    Args:
        value: As for :func:`scrub`.
        what: What is being written, for the message.
    """
    found = [f"{where}: {text}" for where, text in _strings(value, "") if scrub(text) != text]
    if found:
        raise InternalError(f"{what} holds a path of this machine", details=found)


def base_name(text: str) -> str:
    """A path that the user gave, without its folders; ``FILE:CLASS`` keeps its class.

    What only looks like a path (``random:4``, a hub's ``name/of-model``, an URL) stays.
    """
    file, colon, rest = text.partition(":")
    if rest.startswith("//"):
        return text
    if len(file) == 1 and rest.startswith(("\\", "/")):  # a Windows drive
        return PureWindowsPath(text).name
    given = Path(file).expanduser()
    if given.is_absolute() or file.startswith((".", "~")) or given.exists():
        return (given.name or PurePosixPath(file).name) + colon + rest
    return text


def _scrub_text(text: str) -> str:
    text = _WINDOWS.sub(lambda match: PureWindowsPath(match[0]).name, text)
    for root in _roots():  # may hold spaces, which end a path in the pattern below
        text = text.replace(root + "/", _HOMES[0] + "x/") if " " in root else text
    return _POSIX.sub(lambda match: _reduced(match[0]), text)


def _reduced(found: str) -> str:
    path = found.removeprefix("file://")
    return PurePosixPath(path).name if _is_ours(path) else found


def _is_ours(path: str) -> bool:
    if path.startswith(_HOMES) or any(
        path == root or path.startswith(root + "/") for root in _roots()
    ):
        return True
    parts = PurePosixPath(path).parts
    return len(parts) > 2 and os.path.lexists("/".join(parts[:3])[1:])


@cache
def _fixed_roots() -> tuple[str, ...]:
    roots = (Path.home(), outside(), Path(sys.prefix), Path(sys.base_prefix))
    return tuple(str(root) for root in roots if len(root.parts) > 1)


def _roots() -> tuple[str, ...]:
    here = os.getcwd()  # noqa: PTH109 - asked for each text
    return (*_fixed_roots(), here) if here != "/" else _fixed_roots()


def _strings(value: Any, where: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield where or "/", value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield f"{where}/{key}", str(key)
            yield from _strings(item, f"{where}/{key}")
    elif isinstance(value, (list, tuple)):
        for number, item in enumerate(value):
            yield from _strings(item, f"{where}/{number}")
