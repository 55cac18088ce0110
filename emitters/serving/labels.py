"""Class labels: which output has them, and their file.

Triton reads a label file line by line; the line's number is the index of the value in the
output of one element, so only an output whose elements are exactly the classes can have one.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from converter.ir.model import TensorSpec


def choose_labels(
    outputs: Sequence[TensorSpec], names: Sequence[str] | None, *, batched: bool
) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    """The labels of each output that has some, and what was decided.

    Args:
        outputs: With the labels that the model brings, which come first.
        names: The labels that the samples bring. They go to the one output with as many values,
            or of several, to the one that holds ``scores``.
        batched: Whether the first dimension is the batch.
    """
    found: dict[str, tuple[str, ...]] = {}
    decisions = []
    for spec in outputs:
        if spec.labels and _classes(spec, batched) == len(spec.labels):
            found[spec.name] = spec.labels
        elif spec.labels:
            decisions.append(
                f"no labels for {spec.name}: there are {len(spec.labels)}, "
                f"and it is {spec.describe()}"
            )
    if found or not names:
        return found, decisions
    fitting = [spec for spec in outputs if _classes(spec, batched) == len(names)]
    scores = [spec for spec in fitting if spec.meaning == "scores"] or fitting
    if len(scores) == 1:
        return {scores[0].name: tuple(names)}, decisions
    which = "no output has" if not scores else f"{', '.join(s.name for s in scores)} all have"
    decisions.append(f"no labels: there are {len(names)} names, and {which} as many values")
    return {}, decisions


def _classes(spec: TensorSpec, batched: bool) -> int | None:
    """How many values one element of the output holds, where that is its last dimension."""
    shape = spec.shape or ()
    per_element = shape[1:] if batched else shape
    if not batched and len(shape) > 1 and isinstance(shape[0], str):
        return None  # indices would run through the whole batch
    if not per_element or not isinstance(per_element[-1], int):
        return None
    return per_element[-1] if all(dim == 1 for dim in per_element[:-1]) else None


def name_files(labels: dict[str, tuple[str, ...]]) -> dict[str, str]:
    """A file for each output: ``labels.txt``, then ``labels-2.txt``; equal labels share one."""
    files: dict[tuple[str, ...], str] = {}
    for values in labels.values():
        number = len(files) + 1
        files.setdefault(values, "labels.txt" if number == 1 else f"labels-{number}.txt")
    return {output: files[values] for output, values in labels.items()}


def write_file(path: Path, labels: Sequence[str]) -> None:
    """One label a line, UTF-8; line breaks within a label become spaces."""
    lines = [" ".join(label.split()) for label in labels]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
