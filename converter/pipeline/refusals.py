"""Artifacts that can't be: told all at once, or left out with ``--keep-going``."""

from __future__ import annotations

from collections.abc import Mapping

from converter import plugins
from converter.errors import ModelError, ModelyardError, UnsupportedError, UsageError
from converter.options.request import Request
from converter.options.resolved import io_dtype_of
from converter.protocols.emitter import Emitter

GOES_ON = "--keep-going leaves these out, and makes the others."


def impossible(request: Request) -> dict[str, str]:
    """Why artifacts that are asked for can't be, whatever the model, by ``target:precision``.

    Raises:
        UsageError: There are some, and the request doesn't say to leave them out; or all are.
    """
    found: dict[str, UsageError] = {}
    for target in request.to:
        emitter: Emitter = plugins.load("emitters", target)
        for precision in request.precision:
            try:
                emitter.require_precision(precision, request)
                _require_border(emitter, precision, request)
            except UsageError as error:
                found[f"{target} {precision}"] = error
    all_of_them = len(found) == len(request.to) * len(request.precision)
    if not request.keep_going or all_of_them:
        refuse(found, others=not all_of_them)
    return {what.replace(" ", ":"): error.message for what, error in found.items()}


def _require_border(emitter: Emitter, precision: str, request: Request) -> None:
    dtype = io_dtype_of(request, precision)
    able = emitter.integer_io if "int" in dtype else emitter.half_io
    if dtype != "float32" and not able:
        raise UsageError(
            f"--io-dtype {dtype}: {emitter.name} has no such inputs and outputs",
            code="option-not-applicable",
            hint=f"Leave it out, or convert to {emitter.name} in a run of its own.",
        )


def refuse(errors: Mapping[str, ModelyardError], *, others: bool) -> None:
    """Raises all of some refusals as one; nothing where there are none.

    Args:
        errors: By what was refused, for people.
        others: Whether something else was asked for that isn't refused.
    """
    distinct = {error.message: error for error in errors.values()}
    if not distinct:
        return
    made = next(iter(distinct.values()))
    if len(distinct) > 1:
        models = any(isinstance(error, ModelError) for error in errors.values())
        kind: type[ModelyardError] = ModelError if models else UsageError
        if all(isinstance(error, UnsupportedError) for error in errors.values()):
            kind = UnsupportedError
        made = _joined(kind, errors)
    if others:
        made.hint = f"{made.hint} {GOES_ON}".strip()
    raise made


def _joined(kind: type[ModelyardError], errors: Mapping[str, ModelyardError]) -> ModelyardError:
    message = f"these artifacts can't be made: {', '.join(errors)}"
    details = []
    for what, error in errors.items():
        named = error.message.startswith(what.split()[0])
        details.append(error.message if named else f"{what}: {error.message}")
        details += [f"{what}: {item}" for item in error.details]
    if kind is UnsupportedError:
        items = [i for e in errors.values() if isinstance(e, UnsupportedError) for i in e.items]
        made: ModelyardError = UnsupportedError(message, items)
        made.details = tuple(details)
    else:
        made = kind(message, details=details)
    return made
