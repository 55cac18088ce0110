"""Does one thing with each of several: with the artifacts of an output folder, with recipes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from converter.cli.errors import say
from converter.cli.options import given
from converter.cli.printing import echo, echo_json
from converter.errors import DependencyError, GateError, ModelError, ModelyardError, UsageError

T = TypeVar("T")


def in_turn(
    path: str,
    values: Mapping[str, Any],
    as_json: bool,
    run: Callable[[str, dict[str, Any]], T],
    show: Callable[[T, bool], None],
    as_dict: Callable[[T], Mapping[str, Any]],
) -> None:
    """Runs and shows what a command does with ``path``: an artifact, or a folder of them.

    An artifact that fails doesn't keep the others from their turn; the exit code is the highest.

    Args:
        path: What the user named.
        values: The command's options; ``to`` and ``precision`` narrow a folder.
        as_json: One object is printed: for a folder, a list of artifacts in it.
        run: Does it with one artifact, given its path and the options for it.
        show: Prints what ``run`` gave.
        as_dict: The same for JSON.
    """
    from converter import api

    found = api.artifacts_of(path, values.get("to") or (), values.get("precision") or ())
    if found is None or (len(found) == 1 and found[0].path.samefile(path)):
        if values.get("to"):
            raise UsageError(
                f"--to chooses among the artifacts of an output folder, and {path} isn't an "
                "output folder",
                code="not-an-artifact",
            )
        show(run(path, given(values)), as_json)
        return
    others = given({**values, "to": None, "precision": None})  # the folder's manifest says these
    each(
        "artifacts",
        [
            (
                item.title,
                {"target": item.target, "precision": item.precision, "path": str(item.path)},
                partial(run, str(item.path), others),
            )
            for item in found
        ],
        as_json,
        show,
        as_dict,
        (ModelError, GateError, DependencyError),
    )


def source_of(path: str, sources: Sequence[str], named: str) -> str | None:
    """The source that ``--against`` names for an artifact.

    Args:
        path: An artifact.
        named: What the user named: it, or a folder that holds it.
        sources: What was given: one source, or ``PART=SOURCE`` for each part of an output.

    Raises:
        UsageError: It is of a part, and that has none, or a source has no part.
    """
    from converter.pipeline.folders import part_of

    part, parts = part_of(path)
    by_part = {name: rest for text in sources for name, _, rest in (text.partition("="),)
               if name in parts}  # fmt: skip
    if part in by_part:
        return by_part[part]
    if not by_part and len(sources) < 2 and (part_of(named) == (part, parts) or not sources):
        return sources[0] if sources else None
    raise UsageError(
        f"{path} belongs to the part {part}, and --against names no source for that part"
        if part
        else f"{path} has no parts, and --against names {len(sources)} sources",
        code="option-missing",
        hint=" ".join(f"--against {name}=SOURCE" for name in parts) or "Name one.",
    )


@dataclass(frozen=True)
class Attempt(Generic[T]):
    """What came of one: what was made, the error, or both where some of it missed a gate."""

    title: str
    made: T | None
    error: ModelyardError | None


def each(
    what: str,
    items: Iterable[tuple[str, Mapping[str, Any], Callable[[], T]]],
    as_json: bool,
    show: Callable[[T, bool], None],
    as_dict: Callable[[T], Mapping[str, Any]],
    own: tuple[type[ModelyardError], ...],
    conclude: Callable[[Sequence[Attempt[T]]], Mapping[str, Any]] | None = None,
) -> None:
    """Runs and shows one after the other, and ends with the highest exit code where one failed.

    Args:
        what: The key of the list in the object that ``as_json`` prints.
        items: For each, its title, what is said of it in JSON whatever comes of it, what runs it.
        as_json: Whether one JSON object is printed at the end, and nothing before.
        show: Prints a result; its second argument is whether as JSON.
        as_dict: A result as JSON holds it.
        own: Errors that don't keep the others from their turn.
        conclude: Shows what came of all; gives what more the object says.
    """
    attempts, told = [], []
    for title, facts, run in items:
        made, error = _attempt(run, own)
        if not as_json:
            echo(title, bold=True, err=made is None)
        if made is not None and not as_json:
            show(made, False)
        if error is not None:
            say(error)
        attempts.append(Attempt(title, made, error))
        failed = error.as_dict() if error is not None else {}
        told.append({**facts, **(as_dict(made) if made is not None else {}), **failed})
    errors = [item.error for item in attempts if item.error is not None]
    more: Mapping[str, Any] = {}
    if conclude is not None:
        try:
            more = conclude(attempts)
        except own as error:
            say(error)
            errors.append(error)
            more = error.as_dict()
    if as_json:
        echo_json({what: told, **more})
    if errors:
        sys.exit(max(error.exit_code for error in errors))


def _attempt(
    run: Callable[[], T], own: tuple[type[ModelyardError], ...]
) -> tuple[T | None, ModelyardError | None]:
    """What came of it, and the error: both where some of it missed a gate."""
    try:
        return run(), None
    except own as error:
        return getattr(error, "converted", None), error
