"""Ragged batches: requests of different lengths that are joined without padding.

Triton's compiled backends join the requests' elements of such an input into one row, and make a
further input that tells the requests apart (the server's ``docs/user_guide/ragged_batching.md``;
the kinds are ``BatchInput::Kind`` in ``model_config.proto``). So the model itself has to take a row
of any length and that input: nothing makes such a model of one that takes padded batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
from tritonclient.grpc import model_config_pb2 as schema

from converter.check.shipping import Shipped
from converter.check.sums import Array
from converter.errors import UsageError
from converter.ir.model import BATCH, TensorSpec
from converter.runtime.session import Session
from converter.samples import Sample, Samples
from emitters.serving.batching import DEFAULT_MAX_BATCH, moved
from emitters.serving.triton.config import TYPES
from emitters.serving.triton.request import TritonRequest

KINDS = (
    "BATCH_ELEMENT_COUNT",
    "BATCH_ACCUMULATED_ELEMENT_COUNT",
    "BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO",
    "BATCH_MAX_ELEMENT_COUNT_AS_SHAPE",
)
"""Those that a row can have: the others hold the shapes of items of several dimensions."""


@dataclass(frozen=True)
class BatchInput:
    """An input that the server makes of the requests' lengths.

    Attributes:
        source: The ragged input.
        kind: Of :data:`KINDS`.
        target: The input that is made.
        dtype: Its type.
    """

    source: str
    kind: str
    target: str
    dtype: str

    def of(self, lengths: Sequence[int]) -> Array:
        """Its values for requests of these lengths."""
        ends = np.cumsum(lengths)
        made: Array = {
            "BATCH_ELEMENT_COUNT": np.asarray(lengths),
            "BATCH_ACCUMULATED_ELEMENT_COUNT": ends,
            "BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO": np.array([0, *ends]),
            "BATCH_MAX_ELEMENT_COUNT_AS_SHAPE": np.zeros(max(lengths)),
        }[self.kind]
        return made.astype(self.dtype)


@dataclass(frozen=True)
class Ragged:
    """The ragged inputs of a folder."""

    made: tuple[BatchInput, ...]

    @property
    def sources(self) -> set[str]:
        """The inputs whose requests are joined."""
        return {item.source for item in self.made}

    @property
    def targets(self) -> set[str]:
        """The inputs that the server makes."""
        return {item.target for item in self.made}

    def served(self, specs: Sequence[TensorSpec]) -> list[TensorSpec]:
        """The inputs that clients see: a ragged one has the batch before its row."""
        return [
            replace(spec, shape=(BATCH, *(spec.shape or ()))) if spec.name in self.sources else spec
            for spec in specs
            if spec.name not in self.targets
        ]

    def request(self, sample: Sample) -> Sample:
        """A sample as a client sends it."""
        feeds = {
            name: array[np.newaxis] if name in self.sources else array
            for name, array in sample.feeds.items()
            if name not in self.targets
        }
        return replace(sample, feeds=feeds)

    def shipped(self, shipped: Shipped | None) -> Shipped | None:
        """Samples that go along, as clients send them."""
        if shipped is None:
            return None
        items = [
            replace(item, feeds=self.request(Sample(item.name, item.feeds)).feeds)
            for item in shipped.items
        ]
        return replace(shipped, items=tuple(items))

    def notes(self) -> Iterator[str]:
        """What was decided, a line each."""
        for item in self.made:
            yield (
                f"requests of {item.source} are joined whatever their lengths, and {item.target} "
                f"is {item.kind}"
            )

    def fill(self, config: Any) -> None:
        """Marks the ragged inputs of a configuration, and has it make the others."""
        for entry in config.input:
            entry.allow_ragged_batch = entry.name in self.sources
        for item in self.made:
            entry = config.batch_input.add()
            entry.kind = schema.BatchInput.Kind.Value(item.kind)
            entry.target_name.append(item.target)
            entry.data_type = schema.DataType.Value(TYPES[item.dtype])
            entry.source_input.append(item.source)

    def joined(self, samples: Sequence[Sample]) -> dict[str, Array]:
        """What the model gets of a batch of these samples."""
        lengths = {name: [len(item.feeds[name]) for item in samples] for name in self.sources}
        feeds = {
            name: np.concatenate([item.feeds[name] for item in samples])
            for name in samples[0].feeds
            if name not in self.targets
        }
        return feeds | {item.target: item.of(lengths[item.source]) for item in self.made}

    def largest_batch(
        self, session: Session, samples: Samples, request: TritonRequest
    ) -> tuple[int, str]:
        """The ``max_batch_size``, once the file was run on joined requests.

        Args:
            session: Runs the file.
            samples: Two of them are joined.
            request: Its ``max_batch``.

        Raises:
            UsageError: What the samples have for the further input isn't what the server makes, or
                a request's answer isn't the same alone and joined with others.
        """
        found = list(islice(samples, 2))
        if not found:
            raise UsageError(
                "--ragged: there is no sample to try the model with",
                code="server-config",
                hint="Give --samples.",
            )
        for item in self.made:
            _require_made(item, found[0])
        size = DEFAULT_MAX_BATCH if request.max_batch is None else request.max_batch
        if size < 2:
            raise UsageError(
                f"--ragged joins requests, but the largest batch is {size}", code="server-config"
            )
        for count in sorted({2, size}):
            self._try([found[index % len(found)] for index in range(count)], session)
        return size, f"max_batch_size {size}: the file was run on joined requests, 2 and {size}"

    def _try(self, samples: Sequence[Sample], session: Session) -> None:
        together = session.run(self.joined(samples))
        for row, sample in list(enumerate(samples))[:2]:
            for name, alone in session.run(self.joined([sample])).items():
                wrong = len(alone) != 1 or len(together[name]) != len(samples)
                if wrong or moved(alone, together[name][row : row + 1]):
                    shapes = (
                        f"{list(np.shape(together[name]))}, and {list(np.shape(alone))} by itself"
                    )
                    raise UsageError(
                        f"--ragged: for {len(samples)} joined requests, {name} has the shape "
                        f"{shapes} or other values: the model doesn't keep the requests apart",
                        code="server-config",
                    )


def _require_made(item: BatchInput, sample: Sample) -> None:
    wanted, has = item.of([len(sample.feeds[item.source])]), sample.feeds[item.target]
    if not np.array_equal(wanted, has):
        raise UsageError(
            f"--ragged: the sample {sample.name} has {has.tolist()[:8]} for {item.target}, "
            f"but {item.kind} of its {item.source} is {wanted.tolist()[:8]}",
            code="server-config",
            hint="Give samples that are one request each, or another kind.",
        )


def ragged_of(
    inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], request: TritonRequest
) -> Ragged | None:
    """What ``--ragged`` says, held against the artifact; None where it isn't given.

    Args:
        inputs: The artifact's.
        outputs: The artifact's.
        request: Its ``ragged``.

    Raises:
        UsageError: It can't be right for this model.
    """
    if not request.ragged:
        return None
    known = {spec.name: spec for spec in inputs}
    made = Ragged(tuple(_named(text, known) for text in request.ragged))
    twice = [name for name in made.targets if [i.target for i in made.made].count(name) > 1]
    if twice or made.targets & made.sources:
        raise UsageError(
            "--ragged: two entries make the same input, or an input that clients send",
            code="server-config",
        )
    for spec in (*inputs, *outputs):
        first = (spec.shape or (1,))[0]
        if spec.name not in made.sources | made.targets and isinstance(first, int):
            raise UsageError(
                f"--ragged: {spec.name} ({spec.describe()}) has no free batch", code="server-config"
            )
    return made


def _named(text: str, known: dict[str, TensorSpec]) -> BatchInput:
    """``INPUT=KIND:TARGET``, where names may hold "=" and ":" of their own."""
    for name in known:
        kind, colon, target = text.removeprefix(f"{name}=").partition(":")
        if not text.startswith(f"{name}=") or not colon:
            continue
        if kind not in KINDS:
            raise UsageError(
                f"--ragged {text!r}: there is no kind {kind}",
                code="server-config",
                hint=f"{', '.join(KINDS)}.",
            )
        if target not in known:
            raise UsageError(
                f"--ragged {text!r}: the model has no input {target}",
                code="server-config",
                hint="A ragged batch needs an input that keeps its requests apart.",
            )
        _require_row(known[name], "requests are joined to a row, and the model takes")
        _require_row(known[target], "the server makes a row, and the model takes")
        if known[target].dtype not in ("int32", "float32"):
            raise UsageError(
                f"--ragged: {target} is {known[target].dtype}, but has to be int32 or float32",
                code="server-config",
            )
        return BatchInput(name, kind, target, known[target].dtype)
    raise UsageError(
        f"--ragged {text!r}: the form is INPUT=KIND:TARGET",
        code="server-config",
        hint=f"Inputs: {', '.join(known)}.",
    )


def _require_row(spec: TensorSpec, why: str) -> None:
    if spec.shape is None or len(spec.shape) != 1 or isinstance(spec.shape[0], int):
        raise UsageError(
            f"--ragged: {why} {spec.name} as {spec.describe()}, not as [any]", code="server-config"
        )
