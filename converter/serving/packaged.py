"""What a package says of itself in ``modelyard.json``: samples, expected outputs, limits."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from converter.errors import ModelError, UsageError
from converter.files.reading import reading
from converter.ir.lists import Rows
from converter.ir.model import TensorSpec
from converter.samples import Sample, Samples
from converter.serving.tensors import Array, from_bytes, numpy_type

FACTS = "modelyard.json"


class PackagedSamples(Samples):
    """The samples that go along with a package.

    Args:
        origin: Where they came from, for reports.
        inputs: The model's inputs.
        samples: All of them, in memory.
    """

    def __init__(self, origin: str, inputs: Sequence[TensorSpec], samples: list[Sample]) -> None:
        self.origin, self.inputs, self._samples = origin, tuple(inputs), samples

    def __len__(self) -> int:
        return len(self._samples)

    def __iter__(self) -> Iterator[Sample]:
        return iter(self._samples)


@dataclass(frozen=True)
class Facts:
    """A package's facts.

    Attributes:
        folder: The package.
        model, server, precision, reference: As the file has them.
        wire: How its server is asked: ``inputs`` and ``outputs`` are the keys of plain JSON.
        inputs, outputs: As they are served.
        gates: ``cosine`` and ``max_abs``.
        lists: Outputs whose rows may be in another order.
        samples: What goes in.
        expected: What the source gave for each.
    """

    folder: Path
    model: str
    server: str
    precision: str
    reference: str
    wire: Mapping[str, Any]
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    gates: Mapping[str, float | None]
    lists: tuple[Rows, ...]
    samples: PackagedSamples
    expected: tuple[dict[str, Array], ...]

    @property
    def keys(self) -> tuple[str, str]:
        """What inputs and outputs stand under in plain JSON."""
        return str(self.wire.get("inputs", "")), str(self.wire.get("outputs", ""))


def read_facts(folder: Path) -> Facts | None:
    """A package's facts; None where ``folder`` is none of ours.

    Raises:
        ModelError: The file is damaged, or names what isn't there.
        UsageError: It holds no samples, or steps of sequences, or is a flow.
    """
    file = folder / FACTS
    if not file.is_file():
        return None
    with reading(FACTS):
        facts = json.loads(file.read_bytes())
    if "flow" in facts:
        raise UsageError(
            f"{folder.name} is a flow that takes files, and check and bench send arrays",
            code="option-not-applicable",
            hint=f"Its own test sends files: python {folder / 'selftest.py'} --url URL",
        )
    try:
        inputs, outputs = (tuple(map(_spec, facts[key])) for key in ("inputs", "outputs"))
        if any("sequence" in item for item in facts["samples"]):
            raise UsageError(
                f"{folder.name} keeps states over sequences of requests, and check and bench "
                "send single requests",
                code="option-not-applicable",
                hint=f"Its own test sends sequences: python {folder / 'selftest.py'} --url URL",
            )
        pairs = [_sample(folder, item) for item in facts["samples"]]
        samples = PackagedSamples(facts["origin"], inputs, [sample for sample, _ in pairs])
        lists = tuple(Rows(tuple(item["outputs"]), item["axis"]) for item in facts["lists"])
        made = Facts(
            folder, facts["model"], facts["server"], facts["precision"], facts["reference"],
            facts["wire"] or {}, inputs, outputs, facts["gates"], lists, samples,
            tuple(expected for _, expected in pairs),
        )  # fmt: skip
    except (KeyError, TypeError, ValueError, OSError) as error:
        raise ModelError(
            f"{folder.name}/{FACTS} was changed since it was written: {error!r}",
            code="package-incomplete",
        ) from error
    if not pairs:
        raise UsageError(
            f"{folder.name} holds no samples",
            code="package-incomplete",
            hint="Name the model's source in place of the package.",
        )
    return made


def _spec(entry: Mapping[str, Any]) -> TensorSpec:
    scale, zero = entry.get("stored") or (None, None)
    largest = entry.get("largest")
    span = None if largest is None else (-largest, largest)
    return TensorSpec(entry["name"], entry["dtype"], tuple(entry["shape"]), value_range=span,
                      scale=scale, zero_point=zero)  # fmt: skip


def _sample(folder: Path, item: Mapping[str, Any]) -> tuple[Sample, dict[str, Array]]:
    feeds, expected = (
        {name: _array(folder, entry) for name, entry in item[key].items()}
        for key in ("feeds", "expected")
    )
    return Sample(item["name"], feeds), expected


def _array(folder: Path, entry: Mapping[str, Any]) -> Array:
    file = (folder / entry["file"]).resolve()
    if not file.is_relative_to(folder.resolve()):
        raise ValueError(f"{entry['file']} is outside of the package")
    dtype = entry["dtype"]
    if file.suffix == ".bin":
        return from_bytes(file.read_bytes(), dtype, entry["shape"])
    array: Array = np.load(file, allow_pickle=False).reshape(entry["shape"])
    return array.astype(object) if dtype == "string" else array.astype(numpy_type(dtype))
