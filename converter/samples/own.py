"""Samples from files that a function of the user's prepares, as ``prepare`` declares it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from converter.errors import UsageError
from converter.files.digest import digest_of, file_digest
from converter.ir.model import TensorSpec
from converter.options.request import Request
from converter.preparation.prepared import stages_of, told
from converter.preparation.staged.base import Item, Seen
from converter.preparation.written import filled
from converter.samples.base import Array, Sample, Samples
from converter.samples.files import SampleFile, limit_samples, readable
from converter.samples.fit import finish
from converter.samples.labels import FOLDER, classes_of, labels_of_files


class OwnSamples(Samples):
    """A sample of each file.

    Args:
        files: In order.
        inputs: The model's inputs.
        request: Its ``preparation``, ``labels``, ``samples_limit`` and ``skip_bad`` count.
        label_names: Names of the classes, where known.
        origin: Where they came from, for the report.

    Raises:
        UsageError: The function fails, or gives not what the model takes.
    """

    def __init__(
        self,
        files: Sequence[SampleFile],
        inputs: tuple[TensorSpec, ...],
        request: Request,
        *,
        label_names: tuple[str, ...] | None,
        origin: str,
    ) -> None:
        self.inputs, self.label_names, self.origin = inputs, label_names, origin
        self.skipped = []
        made: tuple[Any, ...]
        made, _ = filled("prepare", request.preparation, (), inputs)
        self._prepare = [item.model_dump() for item in made]
        self._stages = stages_of({"prepare": self._prepare, "answer": []})
        if request.skip_bad:
            files = readable(files, self._feeds, self.skipped)
        if request.samples_limit is not None:
            files = files[: limit_samples(request.samples_limit, 1)]
        named = [file.name for file in files]
        if request.labels == FOLDER and label_names is None:
            self.label_names = label_names = classes_of(named)
        labels = labels_of_files(named, request.labels, label_names, request.metric)
        self._files = list(zip(files, labels, strict=True))
        self.files = [(file.path, file.name) for file in files]

    def _feeds(self, file: SampleFile) -> tuple[dict[str, Array], Seen]:
        with told():
            feeds, seen = self._stages.prepare(Item(self._stages.kinds[0], file.path, file.name))
        if missing := [spec.name for spec in self.inputs if spec.name not in feeds]:
            raise UsageError(
                f"{file.name}: its preparation gives {', '.join(feeds)}, but not "
                f"{', '.join(missing)}, which the model takes",
                code="preparation",
            )
        return feeds, seen

    def __len__(self) -> int:
        return len(self._files)

    def __iter__(self) -> Iterator[Sample]:
        for file, label in self._files:
            feeds, seen = self._feeds(file)
            found = {spec.name: self._fitted(feeds[spec.name], spec, file) for spec in self.inputs}
            yield Sample(file.name, found, label, seen)

    def _fitted(self, array: Array, spec: TensorSpec, file: SampleFile) -> Array:
        """An array as the model takes it, whose type and rank it has to have."""
        if spec.shape is not None and array.ndim != len(spec.shape):
            raise UsageError(
                f"{file.name}: its preparation gives {spec.name} as "
                f"{array.dtype}{list(array.shape)}, but the model takes {spec.describe()}",
                code="preparation",
            )
        same = np.can_cast(array.dtype, np.dtype(spec.dtype), "same_kind")
        if spec.dtype != "string" and not same:
            raise UsageError(
                f"{file.name}: its preparation gives {spec.name} as {array.dtype}, but the "
                f"model takes {spec.dtype}",
                code="preparation",
            )
        return finish(array, spec, file.name)

    @cached_property
    def digest(self) -> str:
        """The sha256 over the files' contents, names and labels, the inputs and the declaration."""
        contents = [[file.name, file_digest(file.path), label] for file, label in self._files]
        specs = [[spec.name, spec.describe()] for spec in self.inputs]
        return digest_of({"files": contents, "inputs": specs, "prepared": self._prepare})

    @property
    def labelled(self) -> bool:
        """Whether every file has a label."""
        return all(label is not None for _, label in self._files)
