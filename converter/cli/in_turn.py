"""Does one thing with each artifact of an output folder."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

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
            raise UsageError(f"--to chooses among an output folder's artifacts, and {path} is none")
        show(run(path, given(values)), as_json)
        return
    others = given({**values, "to": None, "precision": None})  # the folder's manifest says these
    errors, told = [], []
    for item in found:
        made, error = _attempt(partial(run, str(item.path), others))
        if made is not None and not as_json:
            echo(item.title, bold=True)
            show(made, False)
        if error is not None:
            errors.append(error)
            say(error)
        said = as_dict(made) if made is not None else error.as_dict() if error else {}
        told.append({"target": item.target, "precision": item.precision, "path": str(item.path),
                     **said})  # fmt: skip
    if as_json:
        echo_json({"artifacts": told})
    if errors:
        sys.exit(max(error.exit_code for error in errors))


def _attempt(run: Callable[[], T]) -> tuple[T | None, ModelyardError | None]:
    try:
        return run(), None
    except (ModelError, GateError, DependencyError) as error:
        return None, error
