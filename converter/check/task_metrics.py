"""Task metrics on labelled samples: ``top1``, ``top5``, ``mse``, or a function of the user's.

``FILE.py:FUNCTION`` is called as ``FUNCTION(outputs: dict[str, array], label) -> float`` once
a sample, in a child process, and its mean is the metric. Higher is better, unless the
function says otherwise: ``FUNCTION.higher_is_better = False``. ``FUNCTION.unit`` may be ``"%"``
(it returns shares of 1, a point is a percentage point) or any other text (a point is 1 of it).
Where it says nothing and every value lies in 0..1, they are taken for shares.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from converter.check.metric import Metric, SampleMetric, first_float, scores_of
from converter.check.sums import Array, is_float
from converter.errors import UsageError
from converter.ir.model import TensorSpec
from converter.options.request import Request
from converter.options.values import METRICS
from converter.runtime.child import Child, ChildError, own_module, worker_env
from converter.runtime.session import Session
from converter.samples import Samples


class TopK(SampleMetric):
    """Whether the label is among the k largest values of the first float output with rank >= 1
    and at least two values in its last dimension; of equal values the lower index comes first.

    A label is a class index, a class name, or a sequence of them, one a row.
    """

    unit = "%"

    def __init__(self, k: int, label_names: Sequence[str] | None = None) -> None:
        self.name, self.k = f"top{k}", k
        self._indices = {name: index for index, name in enumerate(label_names or ())}

    def score(self, outputs: Mapping[str, Array], label: Any) -> float:
        """Share of rows whose label is among the k largest."""
        scores = scores_of(outputs, self.name)
        rows = scores.reshape(-1, scores.shape[-1]).astype(np.float64)
        wanted = [self._index(item) for item in np.atleast_1d(np.asarray(label, object)).ravel()]
        if len(wanted) != len(rows):
            raise UsageError(
                f"{self.name}: a sample has {len(wanted)} labels for {len(rows)} rows of scores",
                code="labels",
            )
        return sum(map(self._hit, rows, wanted)) / len(rows)

    def _hit(self, row: Array, index: int) -> bool:
        if not 0 <= index < row.size:
            raise UsageError(
                f"{self.name}: the label {index} lies outside the {row.size} classes",
                code="labels",
                hint="Labels count from 0.",
            )
        value = row[index]
        if np.isnan(value):
            return False
        ahead = np.count_nonzero(row > value) + np.count_nonzero(row[:index] == value)
        return bool(ahead < self.k)

    def _index(self, label: Any) -> int:
        if label in self._indices:
            return self._indices[label]
        try:
            number = float(label)
        except (TypeError, ValueError):
            number = float("nan")
        if not number.is_integer():
            raise UsageError(
                f"{self.name}: the label {label!r} isn't a class index",
                code="labels",
                hint="Give --label-names, or labels that are numbers.",
            )
        return int(number)


class MeanSquaredError(SampleMetric):
    """``mean((output - label)^2)`` over the first float output; a label has as many values."""

    name = "mse"
    higher_is_better = False
    unit = ""

    def score(self, outputs: Mapping[str, Array], label: Any) -> float:
        """The mean squared error of one sample."""
        output = first_float(outputs, self.name)
        try:
            wanted = np.asarray(label, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise UsageError(f"mse: the label {label!r} isn't a number", code="labels") from error
        if wanted.size != output.size:
            raise UsageError(
                f"mse: a label has {wanted.size} values, the output {output.size} "
                f"(shape {list(output.shape)})",
                code="labels",
            )
        error2 = (output.astype(np.float64).ravel() - wanted.ravel()) ** 2
        return float(error2.mean()) if error2.size else 0.0


class UserMetric(SampleMetric):
    """``FILE.py:FUNCTION``, in a child process.

    Raises:
        UsageError: The file isn't there, doesn't load, or has no such function.
    """

    def __init__(self, spec: str) -> None:
        file, _, function = spec.rpartition(":")
        path = Path(file).expanduser()
        if not path.is_file():
            raise UsageError(f"the metric {spec!r}: there is no file {file}", code="file-not-found")
        self.name = f"{path.name}:{function}"
        self._folder = tempfile.TemporaryDirectory(prefix="modelyard-metric-")
        argv = own_module("converter.check.metric_child")
        self._child = Child(argv, what="the metric's process", env=worker_env())
        try:
            told = self._ask("load", file=str(path.resolve()), function=function)
        except BaseException:  # an interrupt too has to end the child; all of it goes on
            self.close()
            raise
        self.higher_is_better = bool(told["higher_is_better"])
        self.unit = None if told["unit"] is None else str(told["unit"])

    def score(self, outputs: Mapping[str, Array], label: Any) -> float:
        """What the user's function returns."""
        arrays = {f"o{i}": _plain(array) for i, array in enumerate(outputs.values())}
        if isinstance(label, np.generic):
            label = label.item()
        is_array = isinstance(label, np.ndarray)
        if is_array:
            arrays["label"] = _plain(label)
        file = Path(self._folder.name, "outputs.npz")
        np.savez(file, **arrays)  # type: ignore[arg-type]
        answer = self._ask(
            "score",
            file=str(file),
            names=list(outputs),
            label=None if is_array else label,
            label_array=is_array,
        )
        return float(answer["value"])

    def _ask(self, method: str, **params: Any) -> dict[str, Any]:
        try:
            return self._child.call(method, **params)
        except ChildError as error:
            raise UsageError(
                f"{self.name}: {error.message}", code="metric", details=error.details
            ) from error
        except TypeError as error:
            raise UsageError(
                f"{self.name}: a label can't be sent to the metric's process: {error}",
                code="labels",
            ) from error

    def close(self) -> None:
        self._child.close()
        self._folder.cleanup()


def load_metric(
    spec: str,
    label_names: Sequence[str] | None = None,
    answer: Sequence[Mapping[str, Any]] = (),
    outputs: Sequence[TensorSpec] = (),
) -> Metric:
    """The metric that ``spec`` names: one of :data:`METRICS`, or ``FILE.py:FUNCTION``.

    Args:
        spec: The name.
        label_names: Names of the classes.
        answer: What outputs mean, as the request has it.
        outputs: The model's.

    Raises:
        UsageError: It is none of these, or can't be loaded, or outputs have no such meaning.
        DependencyError: What counts isn't installed.
    """
    if spec in ("top1", "top5"):
        return TopK(int(spec[3:]), label_names)
    if spec == "mse":
        return MeanSquaredError()
    if ":" in spec:
        return UserMetric(spec)
    if spec in METRICS:
        from converter.check.answer_metrics import answer_metric  # of the few who ask for them

        return answer_metric(spec, answer, outputs)
    raise UsageError(
        f"there is no metric {spec!r}",
        code="unknown-name",
        hint=f"There are: {', '.join(METRICS)}, FILE.py:FUNCTION.",
    )


def default_metrics(outputs: Sequence[TensorSpec], labels: Sequence[Any]) -> list[str]:
    """The metrics for labelled samples where the user named none.

    ``top1`` (and ``top5`` from ten classes on) where the first float output is [N, C] and
    the labels are class indices or names; else none.

    Args:
        outputs: The model's.
        labels: A few of the samples' labels.
    """
    first = next((spec for spec in outputs if spec.is_float and spec.rank), None)
    classes = isinstance(labels[0], (int, str, np.integer)) if labels else False
    if first is None or first.shape is None or first.rank != 2 or not classes:
        return []
    width = first.shape[-1]
    if not isinstance(width, int) or width < 2:
        return []
    return ["top1", "top5"] if width >= 10 else ["top1"]


def _plain(array: Any) -> Array:
    """An array that an npz can hold without pickling."""
    plain: Array = np.asarray(array)
    if plain.dtype.kind == "O":
        plain = plain.astype(np.str_)
    elif is_float(plain.dtype) and plain.dtype.kind not in "fc":
        plain = plain.astype(np.float32)
    return plain


def choose_metrics(request: Request, session: Session, samples: Samples) -> list[Metric]:
    """The task metrics that were asked for, or that suit the labels.

    Args:
        request: ``metric`` and ``answer``.
        session: Its outputs' specs say what the model answers.
        samples: The labels of the first four are looked at, where no metric was asked for.

    Returns:
        None of them where samples have no labels and no metric was asked for.
    """
    names = request.metric
    if not names and samples.labelled:
        labels = [sample.label for sample, _ in zip(samples, range(4), strict=False)]
        names = default_metrics(session.outputs, labels)
    known = samples.label_names, request.answer, session.outputs
    return [load_metric(name, *known) for name in names]
