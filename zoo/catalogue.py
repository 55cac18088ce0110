"""The catalogue of real models: what each is, where its files come from, how it is converted.

``zoo/catalogue.yaml`` holds an entry for each model, and for several that a recipe joins
(``zoo/entry.py`` is its schema);
:func:`resolve` turns ``zoo:NAME`` into the fields of a :class:`converter.options.request.Request`
with every file in the cache.
"""

from __future__ import annotations

import difflib
import json
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, Discriminator, Field, Tag, TypeAdapter

from converter.errors import ModelError, UsageError, from_os_error
from converter.files.cache_root import cache_root
from converter.options.request import all_fields
from zoo.entry import OURS, PLACEHOLDER, Entry, Joined, SampleSet

PREFIX = "zoo:"


def _kind(written: Any) -> str:
    return "several" if isinstance(written, dict) and "recipe" in written else "one"


_Any = Annotated[Annotated[Entry, Tag("one")] | Annotated[Joined, Tag("several")],
                 Discriminator(_kind)]  # fmt: skip
Entries = TypeAdapter(
    dict[Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*$")], _Any],
)
"""The whole catalogue."""


def entries() -> Mapping[str, Entry]:
    """All models by name, in alphabetical order.

    Raises:
        pydantic.ValidationError: The catalogue is wrong: a bug of ours.
    """
    return {name: entry for name, entry in _load().items() if isinstance(entry, Entry)}


def joined() -> Mapping[str, Joined]:
    """What is several models, by name; as :func:`entries`."""
    return {name: entry for name, entry in _load().items() if isinstance(entry, Joined)}


@cache
def _load() -> dict[str, Entry | Joined]:
    text = Path(__file__).with_name("catalogue.yaml").read_text(encoding="utf-8")
    return parse(text)


def parse(text: str) -> dict[str, Entry | Joined]:
    """The entries of a catalogue's YAML; raises pydantic.ValidationError."""
    return dict(sorted(Entries.validate_python(yaml.safe_load(text)).items()))


def find(reference: str) -> tuple[str, Entry]:
    """The name and entry of ``zoo:NAME`` (or just ``NAME``), a model.

    Raises:
        UsageError: There is none, and the nearest names are given; or it is several models.
    """
    name, entry = find_any(reference)
    if isinstance(entry, Joined):
        raise UsageError(
            f"zoo:{name} is {len(entry.parts)} models, and the command needs one: {entry.told()}",
            code="choose-one",
            hint=f"Name one of them. modelyard convert zoo:{name} converts and joins all of them.",
        )
    return name, entry


def find_any(reference: str) -> tuple[str, Entry | Joined]:
    """The name and entry of ``zoo:NAME`` (or just ``NAME``), a model or several.

    Raises:
        UsageError: There is none; the nearest names are given.
    """
    name = reference.removeprefix(PREFIX)
    known = _load()
    if name not in known:
        near = difflib.get_close_matches(name.lower(), known, 3)
        hint = f"Did you mean {' or '.join(near)}?" if near else f"There are: {', '.join(known)}."
        raise UsageError(f"there is no model {name!r} in the zoo", code="unknown-name", hint=hint)
    return name, known[name]


def select(task: str | None = None, framework: str | None = None) -> dict[str, Entry | Joined]:
    """The entries for a task, of a framework, or of both, by name.

    Raises:
        UsageError: There is no such task or framework; those that there are are given.
    """
    found = dict(_load())
    for field, wanted in (("task", task), ("framework", framework)):
        known = sorted({getattr(entry, field) for entry in _load().values()})
        if wanted is not None and wanted not in known:
            raise UsageError(
                f"the zoo has no model of the {field} {wanted!r}",
                code="unknown-name",
                hint=f"There are: {', '.join(known)}.",
            )
        found = {n: e for n, e in found.items() if wanted in (None, getattr(e, field))}
    return found


def fetch(reference: str, offline: bool = False) -> dict[str, Path]:
    """The files of a model by role, from the cache or fetched now.

    Raises:
        UsageError: There is no such model.
        DependencyError, ModelError, MachineError: As ``fetch`` of ``zoo.providers``.
    """
    _, entry = find(reference)
    return {role: file.fetch(offline=offline) for role, file in entry.files.items()}


def fetch_model(reference: str, offline: bool = False) -> dict[str, Path]:
    """The files that a model itself is made of, without its samples; as :func:`fetch`.

    Raises:
        UsageError: There is no such model, or its source comes with modelyard.
        Others: As :func:`fetch`.
    """
    name, entry = find(reference)
    if not entry.model_roles:
        raise UsageError(
            f"{name} has no files, because its source, {entry.model.source}, comes with Modelyard",
            code="option-not-applicable",
            hint=f"modelyard convert zoo:{name}",
        )
    return {role: entry.files[role].fetch(offline=offline) for role in entry.model_roles}


def resolve(reference: str, offline: bool = False) -> dict[str, Any]:
    """The fields of a :class:`converter.options.request.Request` for ``zoo:NAME``.

    Only what the entry declares is in it, so that a user's own options go on top. All files are
    in the cache afterwards, and the paths are theirs.

    Raises:
        As :func:`fetch`.
    """
    name, entry = find(reference)
    return fields_of(name, entry, fetch(reference, offline))


def fields_of(name: str, entry: Entry, paths: Mapping[str, Path]) -> dict[str, Any]:
    """The fields of a request that an entry declares.

    Args:
        name: The entry's.
        entry: The entry.
        paths: Its files in the cache, by role.
    """
    places = {**paths, OURS: Path(__file__).parent}
    found: dict[str, Any] = {"name": name, **_given(entry.model)}
    found |= {f"image_{key}": value for key, value in _given(entry.preprocessing).items()}
    declared = {"preparation": entry.prepare, "answer": entry.answer}
    found |= {key: value for key, value in declared.items() if value}
    if entry.samples:
        found |= _sample_fields(entry.samples, places)
    assert found.keys() <= {field.name for field in all_fields()}
    filled: dict[str, Any] = _fill(found, places)
    return filled


def _given(part: BaseModel) -> dict[str, Any]:
    return part.model_dump(exclude_unset=True)


def _sample_fields(samples: SampleSet, paths: Mapping[str, Path]) -> dict[str, Any]:
    found: dict[str, Any] = {"samples": samples.path}
    optional = {
        "samples_pattern": samples.pattern,
        "samples_limit": samples.limit,
        "labels": samples.labels,
        "metric": samples.metric,
    }
    found |= {key: value for key, value in optional.items() if value}
    if samples.label_names:
        path = paths[samples.label_names.file]
        as_json = samples.label_names.format == "json" and path.exists()
        found["label_names"] = str(_names_by_line(path) if as_json else path)
    return found


def _fill(value: Any, paths: Mapping[str, Path]) -> Any:
    """``value`` with the placeholders in all of its strings replaced by paths."""
    if isinstance(value, str):
        return PLACEHOLDER.sub(lambda m: str(paths[m[1]].parent if m[2] else paths[m[1]]), value)
    if isinstance(value, list):
        return [_fill(item, paths) for item in value]
    if isinstance(value, dict):
        return {key: _fill(item, paths) for key, item in value.items()}
    return value


def _names_by_line(path: Path) -> Path:
    """A JSON file of class names as text, one a line by index, kept in the cache."""
    target = cache_root().absolute() / "zoo" / f"{path.parent.name}.txt"
    text = "".join(f"{name}\n" for name in _names(path))
    try:
        if target.is_file() and target.read_text(encoding="utf-8") == text:
            return target
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".part-") as folder:
            part = Path(folder, target.name)
            part.write_text(text, encoding="utf-8")
            part.replace(target)
    except OSError as error:
        raise from_os_error(error, "writing the names of the classes") from error
    return target


def _names(path: Path) -> list[str]:
    stored = json.loads(path.read_text(encoding="utf-8"))
    if isinstance(stored, dict):
        if sorted(map(int, stored)) != list(range(len(stored))):
            raise ModelError(
                f"{path.name}: the classes are not numbered from 0 without gaps",
                code="model-invalid",
            )
        stored = [stored[key] for key in sorted(stored, key=int)]
    return [" ".join(str(name).split()) for name in stored]
