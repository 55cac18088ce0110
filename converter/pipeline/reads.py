"""The files and folders of the user's that a run reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from converter.files.digest import file_digest
from converter.files.regular import require_regular, require_regular_inside
from converter.options.request import Request, all_fields, of_plugins, option_of
from converter.protocols.parser import Identity

_READ = (
    "weights", "samples", "calibration_samples", "labels", "label_names", "search_paths", "metric",
    "python", *(name for name in of_plugins() if option_of(name).reads),
)  # fmt: skip


_TOLD = (
    "samples", "calibration_samples", "labels", "label_names", "search_paths", "python"
)  # fmt: skip
"""Those whose contents a key has otherwise: by the digest of samples, by what a source imports, by
versions."""


def contents_of(params: Mapping[str, Any]) -> dict[str, Any]:
    """What stands in a key for options that name files: what these hold, not where they lie.

    Args:
        params: A step's, by the options' names; others' are passed over.
    """
    read = {name: value for name, value in params.items() if name in _READ}
    return {name: None if name in _TOLD else _contents(value) for name, value in read.items()}


def _contents(given: Any) -> Any:
    if isinstance(given, list):
        return [_contents(item) for item in given]
    text, path = next(_named(given), ("", None))
    return given if path is None else [file_digest(path), given[len(text) :]]


def without_folder(source: str) -> str:
    """A source by the name of its file or folder, and what follows that."""
    for text, path in _named(source):
        return path.absolute().name + source[len(text) :]
    return source


def paths_read(request: Request, identity: Identity) -> dict[str, Path]:
    """What a request names that is there, and the source's files, by how it was named."""
    found = {f"the source ({name})": path for name, path in identity.files.items()}
    for text, path in _named(request.source):
        found[f"the source ({text})"] = path
    for item in all_fields():
        if item.name not in _READ:
            continue
        value = request.value(item.name)
        for given in value if isinstance(value, list) else [value]:
            for text, path in _named(given):
                found[f"{option_of(item.name).flags[0]} {text}"] = path
    return found


def renamed(request: Request, name: Callable[[str], str]) -> Request:
    """A request with other names of what it reads, but for its interpreter.

    Args:
        request: Resolved.
        name: What is named otherwise, for each text of an option that may name a file.
    """

    def other(given: Any) -> Any:
        return [other(item) for item in given] if isinstance(given, list) else given and name(given)

    read = {item: other(request.value(item)) for item in ("source", *_READ) if item != "python"}
    own = {item: value for item, value in read.items() if item in request.plugin_options}
    core = {item.name for item in fields(request)}
    return replace(
        request,
        plugin_options={**request.plugin_options, **own},
        **{item: value for item, value in read.items() if item in core},
    )


def placed(text: str, place: Callable[[Path], str]) -> str:
    """``PATH`` or ``FILE:NAME`` with its path at another place; what names no file stays."""
    for found, path in _named(text):
        return place(path) + text[len(found) :]
    return text


def require_files(request: Request) -> None:
    """Refuses pipes and devices among what a request names; raises UsageError."""
    for name in ("source", *_READ):
        value = request.value(name)
        for given in value if isinstance(value, list) else [value]:
            for text, path in _named(given):
                require_regular(path, text)
    if Path(request.source).is_dir():
        require_regular_inside(Path(request.source))


def _named(given: str | None) -> Iterator[tuple[str, Path]]:
    """The path in ``PATH`` or ``FILE:NAME``, where there is such a one."""
    for text in (given, given.rsplit(":", 1)[0]) if given else ():
        if Path(text).exists():
            yield text, Path(text)
            return
