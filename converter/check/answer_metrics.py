"""Task metrics over a whole set, of what outputs mean: ``map``, ``miou``, ``f1``, ``wer``, ``cer``,
``spearman``.

What outputs mean is the request's ``answer``, else what the model says of itself. Each of them
counts a sample, for the source's outputs and for the candidate's, and is one number of all counts,
which isn't the mean of the samples' own.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from importlib import import_module
from typing import Any

import numpy as np

from converter.check.metric import Metric, first_float, scores_of
from converter.check.sums import Array
from converter.errors import DependencyError, UsageError
from converter.ir.model import TensorSpec
from converter.preparation.answers import Meaning
from converter.preparation.declared import classes_of
from converter.preparation.staged.base import Seen
from converter.preparation.staged.masks import pixel_classes
from converter.preparation.stages import ANSWERS
from converter.preparation.written import filled
from converter.samples import Sample
from converter.samples.labels import MaskFile

IGNORED = 255
"""A pixel of a mask that is of no class."""


class Answered(Metric):
    """A metric of what one kind of answer says.

    Args:
        name: ``--metric``'s value, for the report and for errors.
        answer: The request's ``answer``, which counts more than the outputs' own meaning.
        outputs: The outputs, with what the model says of itself.

    Raises:
        UsageError: No output has an answer of this metric's kind.
    """

    kind: str

    def __init__(self, name: str, answer: Sequence[Mapping[str, Any]],
                 outputs: Sequence[TensorSpec]) -> None:  # fmt: skip
        self.name = name
        known: list[Meaning] = list(classes_of(outputs))
        meanings, _ = filled("answer", answer, known, outputs)
        found = next((item for item in meanings if item.kind == self.kind), None)
        if found is None:
            raise UsageError(
                f"--metric {name} needs an answer of the kind {self.kind}",
                code="metric",
                hint=f"Write it in a recipe, as in answer: {{kind: {self.kind}, output: NAME}}.",
            )
        self._known = found.model_dump()

    def answer(self, outputs: Mapping[str, Array], sample: Sample) -> Any:
        """What the answer says of a sample."""
        said = ANSWERS[self.kind](self._known, outputs, sample.seen or Seen())
        return said[self.kind]


class ErrorRate(Answered):
    """Edits from what was read to the label, over the label's length: of words, or letters."""

    kind, higher_is_better, unit = "text", False, "%"

    def note(self, outputs: Mapping[str, Array], sample: Sample) -> tuple[int, int]:
        """Edits, and the length."""
        read, right = (self._parts(str(text)) for text in (self.answer(outputs, sample),
                                                           sample.label))  # fmt: skip
        return edits(read, right), len(right)

    def _parts(self, text: str) -> Sequence[str]:
        return text.split() if self.name == "wer" else text

    def of_sample(self, note: Any) -> float:
        return float(note[0] / max(note[1], 1))

    def total(self, notes: Sequence[Any]) -> float:
        return float(sum(n for n, _ in notes) / max(sum(length for _, length in notes), 1))


def edits(found: Sequence[str], right: Sequence[str]) -> int:
    """The Levenshtein distance: insertions, deletions and replacements."""
    row = list(range(len(right) + 1))
    for i, one in enumerate(found, 1):
        last, row[0] = row[0], i
        for j, other in enumerate(right, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (one != other))
    return row[-1]


class MeanAveragePrecision(Answered):
    """COCO's: the mean over classes and over the overlaps .50 to .95, by pycocotools.

    Args:
        name: ``map``, for the report and for errors.
        answer: The request's ``answer``, which counts more than the outputs' own meaning.
        outputs: The outputs, with what the model says of itself.

    Raises:
        DependencyError: pycocotools isn't installed.
    """

    kind, unit = "boxes", "%"

    def __init__(self, name: str, answer: Sequence[Mapping[str, Any]],
                 outputs: Sequence[TensorSpec]) -> None:  # fmt: skip
        super().__init__(name, answer, outputs)
        self._known |= {"threshold": 0.0, "most": 100}  # as COCO counts: all of them, 100 at most
        try:
            self._coco = import_module("pycocotools.coco")
            self._eval = import_module("pycocotools.cocoeval")
        except ImportError as error:
            raise DependencyError(
                "--metric map needs pycocotools",
                code="package-missing",
                hint='pip install "modelyard[metrics]"',
            ) from error

    def note(self, outputs: Mapping[str, Array], sample: Sample) -> Any:
        """The boxes that were found, and those that are there."""
        if not isinstance(sample.label, list):
            raise UsageError(
                "--metric map needs boxes as labels",
                code="labels",
                hint="Give COCO's JSON: --labels instances.json.",
            )
        return self.answer(outputs, sample), sample.label

    def of_sample(self, note: Any) -> float:
        return self.total([note])

    def total(self, notes: Sequence[Any]) -> float:
        """Of all pictures; 0 where none has a box."""
        right: list[dict[str, Any]] = []
        found: list[dict[str, Any]] = []
        classes = {0}
        for image, (boxes, labels) in enumerate(notes, 1):
            for item in labels:
                x, y, width, height = item["bbox"]
                right.append({
                    "id": len(right) + 1, "image_id": image, "category_id": item["index"],
                    "bbox": [x, y, width, height], "area": item.get("area", width * height),
                    "iscrowd": item.get("iscrowd", 0),
                })  # fmt: skip
            for item in boxes:
                x0, y0, x1, y1 = item["box"]
                found.append({
                    "image_id": image, "category_id": item["index"], "score": item["score"],
                    "bbox": [x0, y0, x1 - x0, y1 - y0],
                })  # fmt: skip
            classes |= {item["index"] for item in (*labels, *boxes)}
        if not right or not found:
            return 0.0
        with redirect_stdout(io.StringIO()):
            truth = self._coco.COCO()
            truth.dataset = {
                "images": [{"id": number} for number in range(1, len(notes) + 1)],
                "annotations": right,
                "categories": [{"id": number} for number in sorted(classes)],
            }
            truth.createIndex()
            judge = self._eval.COCOeval(truth, truth.loadRes(found), "bbox")
            judge.evaluate()
            judge.accumulate()
            judge.summarize()
        return max(float(judge.stats[0]), 0.0)


class MeanIoU(Answered):
    """The overlap of each class's pixels with the mask's over their union, the mean over the
    classes that masks or outputs have; a mask is compared at its own size."""

    kind, unit = "masks", "%"

    def note(self, outputs: Mapping[str, Array], sample: Sample) -> Array:
        """Pixels by the mask's class and the model's, [classes, classes]."""
        if not isinstance(sample.label, MaskFile):
            raise UsageError(
                "--metric miou needs masks as labels",
                code="labels",
                hint="Give a folder of PNG files whose values are class numbers: --labels masks/.",
            )
        right = sample.label.array()
        array = np.asarray(outputs[self._known["output"]])
        found = pixel_classes(self._known, array, sample.seen or Seen(), right.shape)
        counted = right != IGNORED
        size = int(max(right[counted].max(initial=0), found.max())) + 1
        pairs = right[counted].astype(np.int64) * size + found[counted]
        return np.bincount(pairs, minlength=size * size).reshape(size, size)

    def of_sample(self, note: Any) -> float:
        return self.total([note])

    def total(self, notes: Sequence[Any]) -> float:
        size = max(len(note) for note in notes)
        counts = np.zeros((size, size), np.int64)
        for note in notes:
            counts[: len(note), : len(note)] += note
        both = np.diag(counts)
        union = counts.sum(axis=0) + counts.sum(axis=1) - both
        return float(np.mean(both[union > 0] / union[union > 0])) if union.any() else 0.0


class MacroF1(Metric):
    """``2 TP / (2 TP + FP + FN)`` of each class that labels or outputs have, and their mean."""

    name, unit = "f1", "%"

    def note(self, outputs: Mapping[str, Array], sample: Sample) -> tuple[int, int]:
        """The best class, and the label."""
        if isinstance(sample.label, bool) or not isinstance(sample.label, (int, np.integer)):
            raise UsageError(
                f"--metric f1: the label {sample.label!r} isn't a class index", code="labels"
            )
        scores = scores_of(outputs, self.name)
        return int(scores.reshape(-1, scores.shape[-1])[0].argmax()), int(sample.label)

    def of_sample(self, note: Any) -> float:
        return float(note[0] == note[1])

    def total(self, notes: Sequence[Any]) -> float:
        found, right = (np.array(part) for part in zip(*notes, strict=True))
        values = []
        for number in np.union1d(found, right):
            hits = np.sum((found == number) & (right == number))
            values.append(2 * hits / (np.sum(found == number) + np.sum(right == number)))
        return float(np.mean(values))


class Spearman(Metric):
    """The correlation of the ranks of a number that the model gives with those of the labels."""

    name, unit = "spearman", ""

    def note(self, outputs: Mapping[str, Array], sample: Sample) -> tuple[float, float]:
        """The model's number, and the label."""
        found = first_float(outputs, self.name)
        try:
            right = float(sample.label)
        except (TypeError, ValueError) as error:
            raise UsageError(
                f"spearman: the label {sample.label!r} isn't a number", code="labels"
            ) from error
        if found.size != 1:
            raise UsageError(
                f"spearman: the model gives {found.size} numbers for a sample, and the "
                "metric needs one",
                code="metric",
            )
        return float(found.ravel()[0]), right

    def of_sample(self, note: Any) -> float:
        return float(note[0])

    def total(self, notes: Sequence[Any]) -> float:
        found, right = (ranks(np.array(part)) for part in zip(*notes, strict=True))
        apart = [values - values.mean() for values in (found, right)]
        sizes = float(np.prod([np.linalg.norm(values) for values in apart]))
        return float(apart[0] @ apart[1] / sizes) if sizes else 0.0


def answer_metric(
    name: str, answer: Sequence[Mapping[str, Any]], outputs: Sequence[TensorSpec]
) -> Metric:
    """One of this module's metrics.

    Args:
        name: ``map``, ``miou``, ``f1``, ``wer``, ``cer`` or ``spearman``.
        answer: The request's ``answer``, which counts more than the outputs' own meaning.
        outputs: The outputs, with what the model says of itself.
    """
    if name in ("wer", "cer"):
        return ErrorRate(name, answer, outputs)
    if name == "map":
        return MeanAveragePrecision(name, answer, outputs)
    if name == "miou":
        return MeanIoU(name, answer, outputs)
    return MacroF1() if name == "f1" else Spearman()


def ranks(values: Array) -> Array:
    """The place of each value in their order; those that tie share the mean of theirs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[inverse])
