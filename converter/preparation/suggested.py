"""What is known of preparation and answers besides what was written: a source's own files say it,
shapes and names of columns do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import ValidationError

from converter.ir.model import TensorSpec
from converter.preparation.inputs import Cells, Row
from converter.preparation.written import ANSWER, PREPARE, names_in

DECLARED = "declared"
"""The key in ``Model.source`` of a :class:`Suggested`, as :meth:`Suggested.told` has it."""

IMAGES = "image_options"
"""The key of options of images, where a source says how they become its input."""

Said = dict[str, Any]


@dataclass(frozen=True)
class Suggested:
    """What a source's own files say.

    Attributes:
        prepare, answer: As people write them in a recipe, each whole.
        origins: Where each is from, by its place: ``prepare (picture)``.
        notes: What a declaration can't say, or isn't used.
    """

    prepare: Sequence[Mapping[str, Any]] = ()
    answer: Sequence[Mapping[str, Any]] = ()
    origins: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()

    def told(self) -> dict[str, Any]:
        """As an entry of ``Model.source``; empty where nothing is said."""
        said = {
            "prepare": list(map(dict, self.prepare)),
            "answer": list(map(dict, self.answer)),
            "origins": dict(self.origins),
            "notes": list(self.notes),
        }
        return {DECLARED: said} if any(said.values()) else {}

    @classmethod
    def of(cls, source: Mapping[str, Any]) -> Suggested:
        """That of a model's ``source``."""
        return cls(**source.get(DECLARED, {}))

    def fitting(self, where: str, specs: Sequence[TensorSpec]) -> tuple[list[Any], list[str]]:
        """Those of ``prepare`` or ``answer`` that speak of ``specs``, and a note for each that
        isn't used, since an input or output has been left out or has another name."""
        names, kinds = {spec.name for spec in specs}, PREPARE if where == "prepare" else ANSWER
        found, notes = [], []
        for item in getattr(self, where):
            try:
                made = kinds[item["kind"]].model_validate(dict(item))
            except ValidationError as error:
                notes.append(f"{where} ({item['kind']}) isn't used: {error.errors()[0]['msg']}")
                continue
            missing = [name for name in names_in(made.model_dump()) if name not in names]
            if missing:
                notes.append(
                    f"{where} ({item['kind']}) isn't used: the model has no {', '.join(missing)}"
                )
            else:
                found.append(made)
        return found, notes


def completed(
    written: Sequence[Mapping[str, Any]], known: Sequence[Mapping[str, Any]]
) -> list[Said]:
    """What was written, each filled up with what is known of the same kind and, where that was
    written, of the same input or output; with nothing written, what is known."""
    if not written:
        return [dict(item) for item in known]
    return [{**_alike(item, known), **item} for item in written]


def _alike(item: Mapping[str, Any], known: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    def fits(one: Mapping[str, Any]) -> bool:
        names = [n for n in ("input", "output") if n in item and n in one]
        return one["kind"] == item.get("kind") and all(item[n] == one[n] for n in names)

    return next((one for one in known if fits(one)), {})


def shaped(written: Sequence[Mapping[str, Any]], inputs: Sequence[TensorSpec]) -> list[Said]:
    """What was written of preparation, with what inputs say by their shapes: of a sound how long a
    window is, and where its channel stands; of what is the same for all files its own shape."""
    fixed = {item.get("input") for item in written if item.get("kind") in _FIXED}
    known = {spec.name: spec for spec in inputs}
    made = []
    for item in written:
        said: Said = {}
        if item.get("kind") == "sound":
            said = _of_shape(item, [spec for spec in inputs if spec.name not in fixed])
        elif item.get("kind") in _FIXED and (spec := known.get(item.get("input", ""))):
            sizes = [side if isinstance(side, int) else 1 for side in spec.shape or ()]
            said = {"dtype": spec.dtype, **({} if spec.shape is None else {"shape": sizes})}
        made.append({**said, **item})
    return made


_FIXED = ("constant", "state")


def _of_shape(item: Mapping[str, Any], inputs: Sequence[TensorSpec]) -> Said:
    floats = [spec for spec in inputs if spec.is_float]
    named = item.get("input", floats[0].name if len(floats) == 1 else None)
    shape = next((spec.shape or () for spec in inputs if spec.name == named), ())
    found: Said = {"input": named} if named else {}
    if len(shape) == 3 and 1 in shape[1:]:
        found["channel"] = "last" if shape[2] == 1 else "first"
        shape = tuple(dim for axis, dim in enumerate(shape) if axis != (2 if shape[2] == 1 else 1))
    if shape and isinstance(shape[-1], int):
        found["length"] = shape[-1]
    return found


def row_of(inputs: Sequence[TensorSpec]) -> Row | None:
    """How a table's lines become the inputs of a model that was trained on named columns; an input
    of one column may stand for the column of its name. None where nothing names columns."""
    if not any(spec.columns for spec in inputs):
        return None
    found = []
    for spec in inputs:
        width = (spec.shape or (None,))[-1]
        columns = spec.columns if len(spec.columns or ()) == width else None
        if columns is None and width != 1:
            return None
        found.append(Cells(name=spec.name, columns=columns or (spec.name,), dtype=spec.dtype))
    return Row(inputs=tuple(found))


def with_columns(
    inputs: tuple[TensorSpec, ...], written: Sequence[Mapping[str, Any]]
) -> tuple[TensorSpec, ...]:
    """A model's inputs, with the columns that a ``row`` was written to have."""
    rows = [item for item in written if item.get("kind") == "row"]
    columns = {part.get("name"): tuple(part.get("columns", ()))
               for item in rows for part in item.get("inputs", ())}  # fmt: skip
    return tuple(
        replace(spec, columns=columns[spec.name]) if columns.get(spec.name) else spec
        for spec in inputs
    )
