"""What a recipe says of preparation and answers, filled up with what is known without it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar, cast, get_args

from pydantic import BaseModel, ValidationError

from converter.errors import UsageError
from converter.files.scrub import scrub
from converter.ir.model import TensorSpec
from converter.preparation.answers import Meaning
from converter.preparation.declared import Declaration
from converter.preparation.inputs import Prepare

Known = TypeVar("Known", bound=BaseModel)

PREPARE: Mapping[str, type[BaseModel]] = {
    kind.model_fields["kind"].default: kind for kind in get_args(get_args(Prepare)[0])
}
ANSWER: Mapping[str, type[BaseModel]] = {
    kind.model_fields["kind"].default: kind for kind in get_args(get_args(Meaning)[0])
}
"""What may be written, by its kind."""

_BY_SHAPE = {"sound": {"length": 1}}
"""Fields that a model's shapes fill in, on which others hang, and a value that stands in."""

_SOLE = ("input", "output")
"""Fields that may be left out where the model has one."""


def require_written(prepare: Sequence[Any], answer: Sequence[Any]) -> None:
    """Refuses what no model makes right.

    Raises:
        UsageError: A kind or a key isn't there; every problem is listed.
    """
    problems = [*_problems("prepare", prepare, PREPARE), *_problems("answer", answer, ANSWER)]
    if problems:
        raise UsageError(
            "the declaration of preparation and answers isn't right",
            code="preparation",
            details=problems,
        )


def with_code(written: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What was written, with the text of each file that it names.

    Raises:
        UsageError: A file isn't there, is no text, or holds a path of this machine.
    """
    return [
        _with_code(item) if item["kind"] == "step" and not item.get("code") else dict(item)
        for item in written
    ]


def _with_code(item: Mapping[str, Any]) -> dict[str, Any]:
    file, _, function = item["step"].rpartition(":")
    path = Path(file).expanduser()
    try:
        code = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"step: {item['step']} can't be read: {error}", code="preparation"
        ) from error
    if scrub(code) != code:
        raise UsageError(
            f"step: {path.name} contains a path of this machine, and would be part of the output",
            code="preparation",
            hint="The function may only read what it is given.",
        )
    return {**item, "step": f"{path.name}:{function}", "code": code}


def _problems(
    where: str, written: Sequence[Any], kinds: Mapping[str, type[BaseModel]]
) -> list[str]:
    found = []
    for number, item in enumerate(written, 1):
        place = f"{where} {number}" if len(written) > 1 else where
        kind = item.get("kind") if isinstance(item, Mapping) else item
        if not isinstance(kind, str) or kind not in kinds:
            found.append(f"{place}: kind is {kind!r}; it is one of {', '.join(kinds)}")
            continue
        known = kinds[kind].model_fields
        for key in item:
            if key not in known:
                near = get_close_matches(str(key), known, 1)
                hint = f"; did you mean {near[0]}?" if near else f"; it has {', '.join(known)}"
                found.append(f"{place} ({kind}): no such key {key}{hint}")
        try:
            kinds[kind].model_validate({**_BY_SHAPE.get(kind, {}), **item})
        except ValidationError as error:
            found += _told(f"{place} ({kind})", error, {"missing", "extra_forbidden"})
    return found


def _told(where: str, error: ValidationError, but: Collection[str] = ()) -> list[str]:
    """What is wrong, a line each, but for errors of these types."""
    wrong = [item for item in error.errors() if item["type"] not in but]
    return [f"{where}: {'.'.join(map(str, item['loc']))}: {item['msg']}" for item in wrong]


def require_declared(declared: Declaration | None) -> Declaration:
    """The declaration of a package whose server prepares.

    Raises:
        UsageError: Nothing says how files become the model's inputs.
    """
    fixed = ("constant", "state")
    if declared is None or not any(item.kind not in fixed for item in declared.prepare):
        raise UsageError(
            "--prepare server: there is no description of how files become the model's inputs",
            code="preparation",
            hint="Write it under prepare: in a recipe, give --image-size, --image-mean and "
            "--image-std, or give samples of the kind that users send.",
        )
    return declared


def filled(
    where: str,
    written: Sequence[Mapping[str, Any]],
    known: Sequence[Known],
    specs: Sequence[TensorSpec],
) -> tuple[tuple[Known, ...], list[str]]:
    """What was written, what it leaves out filled in.

    Args:
        where: ``prepare`` or ``answer``.
        written: As people wrote it; with nothing written, what is known stays as it is.
        known: What is known without it: of the same kind, and of the same input or output where
            that was written, it fills in.
        specs: The model's inputs, or outputs.

    Returns:
        Each of them; and where what was written is other than what was known, both values.

    Raises:
        UsageError: Something is missing or wrong, or names what the model doesn't have.
    """
    if not written:
        return tuple(known), []
    made: list[Known] = []
    notes: list[str] = []
    problems: list[str] = []
    for item in written:
        base = _base(item, known)
        whole = {**base, **item}
        if len(specs) == 1:
            whole.setdefault("input" if where == "prepare" else "output", specs[0].name)
        told = f"{where} ({item['kind']})"
        kind = (PREPARE if where == "prepare" else ANSWER)[item["kind"]]
        own = {key: value for key, value in whole.items() if key in kind.model_fields}
        try:
            made.append(cast(Known, kind.model_validate(own)))
        except ValidationError as error:
            problems += _told(told, error)
            continue
        names = {spec.name for spec in specs}
        problems += (
            f"{told}: the model has no {name}; it has {', '.join(names)}"
            for name in names_in(made[-1].model_dump())
            if name not in names
        )
        notes += (
            f"{told}: {key} is {value!r} as written, and {base[key]!r} without that"
            for key, value in item.items()
            if key in base
            and base[key] != kind.model_fields[key].default
            and _plain(base[key]) != _plain(value)
        )
    if problems:
        raise UsageError(
            "the declaration of preparation and answers isn't right",
            code="preparation",
            details=problems,
        )
    return tuple(made), notes


def _base(item: Mapping[str, Any], known: Sequence[BaseModel]) -> dict[str, Any]:
    for one in known:
        said = one.model_dump()
        alike = all(item[name] == said[name] for name in _SOLE if name in item and name in said)
        if said["kind"] == item["kind"] and alike:
            return said
    return {}


def names_in(said: Mapping[str, Any]) -> list[str]:
    """The inputs or outputs that it speaks of."""
    more = {"boxes": ("scores", "classes"), "sound": ("mask",), "text": ("scores",)}.get(
        said["kind"], ()
    )
    names = [said[key] for key in (*_SOLE, *more) if said.get(key)]
    return [*names, *(part["name"] for part in said.get("inputs", ()))]


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
