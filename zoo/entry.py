"""What the catalogue says of a model."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from zoo.providers import AnyFile, Strict, Text

PLACEHOLDER = re.compile(r"\{(\w+)(\.parent)?\}")
"""``{role}`` stands for the path of the file of that role, ``{role.parent}`` for its folder."""

OURS = "zoo"
"""The role of the folder that this module lies in: ``{zoo}/architectures.py:resnet50``."""


class ModelSource(Strict):
    """The fields of a request that say what the model is; placeholders stand for files.

    ``trust_source`` is the catalogue's word that a file may run code of its own. It can give it
    because the file's sha256 is declared beside it: what runs is what was looked at.
    """

    source: Text
    weights: str | None = None
    weights_key: str | None = None
    args: list[Any] = Field(default=[])
    kwargs: dict[str, Any] = Field(default={})
    inputs: list[str] = Field(default=[])
    outputs: list[str] = Field(default=[])
    dims: dict[str, int] = Field(default={})
    batch: str | None = None
    search_paths: list[str] = Field(default=[])
    trust_source: bool = False
    signature: str | None = None
    task: str | None = None
    submodule: str | None = None


class Preprocessing(Strict):
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


class LabelNames(Strict):
    """Where the names of the classes are: text with one a line, or JSON (a list, or a table
    by index)."""

    file: Text
    format: Literal["lines", "json"] = "lines"


class SampleSet(Strict):
    """Samples to check the model on, with their labels and the metric that suits them."""

    path: Text
    pattern: str | None = None
    limit: int | None = None
    labels: str | None = None
    label_names: LabelNames | None = None
    metric: list[str] = Field(default=[])


class Entry(Strict):
    """One model of the catalogue.

    Attributes:
        prepare, answer: As in a recipe: how users' files become inputs, what outputs mean.
        weights: ``random`` marks an architecture without trained weights: good for speed and
            for how close outputs are, never for accuracy.
        expected: The share (0 to 1) of the samples that the source framework gets right.
        broken: Why it can't be converted, where it can't.
    """

    title: Text
    task: Text
    framework: Literal[
        "pytorch", "torchscript", "tensorflow", "keras", "onnx", "tflite", "huggingface", "coreml"
    ]
    licence: Text
    weights: Literal["trained", "random"] = "trained"
    files: dict[Annotated[str, Field(pattern=r"^[a-z_]\w*$")], AnyFile] = Field(default={})
    model: ModelSource
    preprocessing: Preprocessing = Preprocessing()
    prepare: list[dict[str, Any]] = Field(default=[])
    answer: list[dict[str, Any]] = Field(default=[])
    samples: SampleSet | None = None
    expected: dict[str, Annotated[float, Field(ge=0, le=1)]] = Field(default={})
    broken: Text | None = None

    @model_validator(mode="after")
    def _names_its_own_files(self) -> Self:
        if OURS in self.files:
            raise ValueError(f"no file can have the role {OURS}")
        named = {role for text in self._texts() for role, _ in PLACEHOLDER.findall(text)} - {OURS}
        if self.samples and self.samples.label_names:
            named.add(self.samples.label_names.file)
        if unknown := sorted(named - set(self.files)):
            raise ValueError(f"no file has the role {', '.join(unknown)}")
        if unused := sorted(set(self.files) - named):
            raise ValueError(f"no use is made of the file {', '.join(unused)}")
        return self

    @model_validator(mode="after")
    def _claims_nothing_of_random_weights(self) -> Self:
        judged = self.samples and (self.samples.metric or self.samples.labels)
        if self.weights == "random" and (self.expected or judged):
            raise ValueError("random weights have no accuracy: no metric, labels or expected")
        return self

    @property
    def model_roles(self) -> list[str]:
        """The roles of the files that the model itself is made of, without its samples."""
        texts = list(_strings(self.model.model_dump()))
        named = [role for text in texts for role, _ in PLACEHOLDER.findall(text)]
        return [role for role in self.files if role in named]

    def _texts(self) -> Iterator[str]:
        yield from _strings(self.model.model_dump())
        if self.samples:
            yield from _strings(self.samples.model_dump())


class Joined(Strict):
    """Several models of the catalogue that a recipe joins.

    Attributes:
        recipe: Its name, one of those that come with modelyard.
        parts: The models by the recipe's parts.
    """

    title: Text
    task: Text
    framework: Text
    licence: Text
    recipe: Text
    parts: dict[str, Text]

    def told(self) -> str:
        """``detect (zoo:det) and read (zoo:rec)``."""
        return " and ".join(f"{part} (zoo:{name})" for part, name in self.parts.items())


def _strings(value: Any) -> Iterator[str]:
    """All texts in a value, however deep."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
