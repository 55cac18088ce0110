"""Several models in one request: its parts, each with a source and options of its own.

A recipe has them under ``parts:``, a Python call as a mapping. What stands beside them is of all
parts; what a part says itself counts more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from converter.errors import ModelyardError, UsageError
from converter.files.output_guard import NAME, REPORT, STEPS

if TYPE_CHECKING:
    from converter.options.request import Request

OF_ALL = ("flow", "out", "overwrite", "keep_going", "dry_run", "offline", "cache")
"""Options of a whole run, which no part has for itself."""

OF_ONE = (
    *(
        "weights",
        "weights_key",
        "args",
        "kwargs",
        "inputs",
        "outputs",
        "dims",
        "batch",
        "signature",
    ),
    *("fix", "submodule", "task", "samples", "samples_pattern", "calibration_samples", "labels"),
    *("label_names", "metric", "preparation", "answer"),
)
"""Options that say what a model is, what it is fed, and what it means; and all of ``image_``."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_TAKEN = {NAME, *REPORT, STEPS, "serving", "readme.md"}
"""What lies beside the parts' folders."""


def require_name(name: str) -> None:
    """Refuses what can't be a model's, or a part's, name; raises UsageError."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} can't be a model's name",
            code="option-value",
            hint="Pass --name with letters, digits, '.', '_' and '-'.",
        )


def require_parts(
    parts: Any, beside: Mapping[str, Any], where: str = "the request", key: str = "parts"
) -> None:
    """Refuses what can't be parts.

    Args:
        parts: The options of each, by the part's name.
        beside: The options of all.
        where: What they are from, for messages.
        key: What they are called there.

    Raises:
        UsageError: They are none, a name can't be a folder's, or an option isn't a part's.
    """
    if not isinstance(parts, Mapping) or not parts:
        raise UsageError(
            f"{where} has {key} that aren't a mapping of names to options",
            code="recipe-parts",
            hint="For example: parts: {detect: {source: det.onnx}, read: {source: rec.onnx}}",
        )
    if "source" in beside:
        raise UsageError(
            f"{where} has a source beside its {key}",
            code="recipe-parts",
            hint="Each part has a source of its own.",
        )
    seen: dict[str, str] = {}
    for name, own in parts.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name) or name.lower() in _TAKEN:
            raise UsageError(
                f"{where}: {name!r} can't be a part's name",
                code="recipe-parts",
                hint="Use letters, digits, '.', '_' and '-'; the output has a folder of that name.",
            )
        if (other := seen.setdefault(name.lower(), name)) != name:
            raise UsageError(
                f"{where}: the parts {other} and {name} would have the same folder",
                code="recipe-parts",
            )
        if not isinstance(own, Mapping) or "source" not in own:
            raise UsageError(f"{where}, part {name}: it names no source", code="recipe-parts")
        if wrong := [option for option in OF_ALL if option in own]:
            raise UsageError(
                f"{where}, part {name}: {', '.join(wrong)} holds for the whole run",
                code="recipe-parts",
                hint=f"Write it beside {key}.",
            )


def require_of_all(options: Mapping[str, Any], source: str, told: str) -> None:
    """Refuses options of one model where the source is several.

    Args:
        options: Fields of a request, as far as they were given.
        source: What the user named, for the error.
        told: Which models that is, in words.

    Raises:
        UsageError: There are some.
    """
    wrong = [name for name, value in options.items() if value not in (None, [], {})
             and (name in OF_ONE or name.startswith("image_"))]  # fmt: skip
    if wrong:
        names = ", ".join(name.replace("_", "-") for name in wrong)
        raise UsageError(
            f"{names} can't be given for several models at once, and {source} is {told}",
            code="recipe-parts",
            hint="Write a recipe in which each part has its own. modelyard zoo show names the "
            "recipe that joins the models.",
        )


def named(error: ModelyardError, part: str) -> ModelyardError:
    """An error that says which part it is of, where there are parts."""
    if part and not error.message.startswith(f"{part}: "):
        error.message = f"{part}: {error.message}"
    return error


@contextmanager
def of_part(name: str) -> Iterator[None]:
    """Has an error say which part it is of."""
    try:
        yield
    except ModelyardError as error:
        named(error, name)
        raise


@dataclass(frozen=True)
class Whole:
    """What all parts of an output have together.

    Attributes:
        title: The output's name.
        request: The options that are of all parts.
        wanted: Outputs of what the parts were made of, on each sample of the first part.
        unread: Why parts couldn't be read at all, by name; with ``--keep-going``.
    """

    title: str
    request: Request
    unread: Mapping[str, ModelyardError] = field(default_factory=dict)
    wanted: Sequence[Mapping[str, Any]] = ()
