"""Samples from sound files, as the ``sound`` that is declared prepares them.

Where windows are the model's batch, each window is a sample; where they are not (a stretch of them
goes through the model in order), each file is. A state is what it is at the start.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from converter.errors import UsageError
from converter.files.digest import digest_of, file_digest
from converter.ir.model import BATCH, TensorSpec
from converter.options.request import Request
from converter.preparation.inputs import Constant, Prepare, Sound, State
from converter.preparation.prepared import told
from converter.preparation.staged.base import Item
from converter.preparation.stages import Stages
from converter.preparation.suggested import shaped
from converter.preparation.written import filled
from converter.samples.base import Array, Sample, Samples
from converter.samples.files import SampleFile, limit_samples, readable
from converter.samples.fit import finish
from converter.samples.labels import FOLDER, classes_of, labels_of_files


class SoundSamples(Samples):
    """Samples from sound files, each decoded when its turn comes.

    Args:
        files: The sounds, in order.
        inputs: The model's inputs.
        request: Its ``preparation``, ``labels``, ``samples_limit`` (of files) and ``skip_bad``
            count.
        label_names: Names of the classes, where known.
        origin: Where they came from, for the report.

    Raises:
        UsageError: No sound is declared, it doesn't fit the model, or inputs are left without a
            value.
    """

    kind = "sound"

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
        self._prepare = _declared(inputs, request)
        self._stages = Stages({"prepare": [item.model_dump() for item in self._prepare],
                               "answer": []})  # fmt: skip
        self.states = tuple(item.input for item in self._prepare if isinstance(item, State))
        sound = next(item for item in self._prepare if isinstance(item, Sound))
        shape = next(spec.shape or () for spec in inputs if spec.name == sound.input)
        self._sound = sound.input
        self._step = _step(shape)
        if request.skip_bad:
            files = readable(files, self._feeds, self.skipped)
        if request.samples_limit is not None:
            files = files[: limit_samples(request.samples_limit, 1)]
        named = [file.name for file in files]
        if request.labels == FOLDER and label_names is None:
            self.label_names = label_names = classes_of(named)
        labels = labels_of_files(named, request.labels, label_names)
        self._files = list(zip(files, labels, strict=True))
        self.files = [(file.path, file.name) for file in files]

    def _feeds(self, file: SampleFile) -> dict[str, Array]:
        with told():
            return self._stages.prepare(Item("sound", file.path, file.name))[0]

    def __len__(self) -> int:
        return self._count

    @cached_property
    def _count(self) -> int:
        return sum(1 for _ in self)

    def __iter__(self) -> Iterator[Sample]:
        for file, label in self._files:
            feeds = self._feeds(file)
            windows = len(feeds[self._sound])
            step = self._step or windows
            for start in range(0, windows, step):
                name = file.name if windows <= step else f"{file.name}[{start // step}]"
                yield Sample(name, self._part(feeds, windows, start, step, name), label)

    def _part(
        self, feeds: dict[str, Array], windows: int, start: int, step: int, name: str
    ) -> dict[str, Array]:
        """``step`` of a file's windows, with silence where it has fewer; constants as they are."""
        found = {}
        for spec in self.inputs:
            array = feeds[spec.name]
            if self._step and spec.name in self._along and len(array) == windows:
                array = array[start : start + step]
                more = np.zeros_like(array[:1]).repeat(step - len(array), 0)
                array = np.concatenate([array, more])
            if spec.shape is not None and array.ndim == len(spec.shape) + 1 and len(array) == 1:
                array = array[0]
            found[spec.name] = finish(array, spec, name)
        return found

    @cached_property
    def _along(self) -> set[str | None]:
        """The inputs that have a row for each window."""
        sound = next(item for item in self._prepare if isinstance(item, Sound))
        return {sound.input, sound.mask}

    @cached_property
    def digest(self) -> str:
        """The sha256 over the files' contents, names and labels, the inputs and the declaration."""
        contents = [[file.name, file_digest(file.path), label] for file, label in self._files]
        specs = [[spec.name, spec.describe()] for spec in self.inputs]
        prepared = [item.model_dump() for item in self._prepare]
        return digest_of({"sounds": contents, "inputs": specs, "prepared": prepared})

    @property
    def labelled(self) -> bool:
        """Whether every sound has a label."""
        return all(label is not None for _, label in self._files)


def _step(shape: Sequence[int | str]) -> int:
    """How many windows make a sample: 1, or a fixed batch; 0 where they aren't the batch."""
    first = shape[0] if len(shape) > 1 else 1
    if isinstance(first, int):
        return first
    return int(first == BATCH)


def _declared(inputs: tuple[TensorSpec, ...], request: Request) -> list[Any]:
    """The sound and the constants of a request, for these inputs."""
    written = shaped(request.preparation, inputs)
    if not any(item.get("kind") == "sound" for item in written):
        raise UsageError(
            "the samples are sounds, and there is no description of how a sound becomes the "
            "model's input",
            code="preparation",
            hint="Write it into a recipe: prepare: {kind: sound, input: NAME, rate: 16000}. "
            "See docs/prepare.md.",
        )
    made: tuple[Prepare, ...]
    made, _ = filled("prepare", written, (), inputs)
    found = [item for item in made if isinstance(item, Sound | Constant | State)]
    fed = {item.input for item in found} | {getattr(item, "mask", None) for item in found}
    if missing := [spec.name for spec in inputs if spec.name not in fed]:
        raise UsageError(
            f"the declared sound gives no value for {', '.join(missing)}",
            code="preparation",
            hint="Declare that value too: {kind: constant, input: NAME, shape: [...], value: 0}.",
        )
    return found
