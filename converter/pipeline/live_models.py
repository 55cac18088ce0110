"""Models that are alive in the caller's process, each under a name while a call lasts.

A request names its source by a text. That of a live model is a path that isn't there, in a folder
that nothing else has: so no cache knows it, and reports show its last part.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from converter import plugins
from converter.errors import UsageError
from converter.files.signatures import all_marks, one_of
from converter.options.request import Request
from converter.protocols.parser import Identity, Living, Parser

_held: dict[str, object] = {}


@contextmanager
def holding(value: object, folder: Path) -> Iterator[str]:
    """Holds a model; gives what names it as a source.

    Args:
        value: The model.
        folder: A folder for this call alone; what is written of the model goes there.
    """
    name = str(folder / type(value).__name__)
    _held[name] = value
    try:
        yield name
    finally:
        del _held[name]


def is_live(source: str) -> bool:
    """Whether a source's name is a live model's."""
    return source in _held


def find_living(request: Request) -> tuple[Parser, Identity]:
    """What reads the live model that a request names, and what it is.

    Raises:
        UsageError: No format has such models, or the request asks for what isn't for them.
    """
    value = _held[request.source]
    if request.python:
        raise UsageError(
            "python= is only for files: a model object stays in the process that holds it",
            code="python-argument",
            hint="Leave it out, or save the model and convert the file.",
        )
    for name in plugins.working("parsers"):
        parser = plugins.load("parsers", name)
        found = (
            parser.living(value, Path(request.source).parent)
            if isinstance(parser, Living)
            else None
        )
        if found is not None:
            return found, found.identify(request)
    lives = [marks.live for marks in all_marks() if marks.live]
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    raise UsageError(
        f"Modelyard can't read a {kind} as a model"
        if not isinstance(value, type)
        else f"{value.__module__}.{value.__qualname__} is a class, not an instance of it",
        code="python-argument",
        hint=f"A source is {one_of(['a path or a name (str, Path)', *lives])}.",
    )
