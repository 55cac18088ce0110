"""Task metrics: built in, and of the user's in a child process."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from converter.check.metric import MetricTally
from converter.check.task_metrics import TopK, UserMetric, default_metrics, load_metric
from converter.errors import MachineError, UsageError
from converter.ir.model import TensorSpec
from converter.samples import Sample


def scores(*values: float) -> dict[str, np.ndarray]:
    return {"y": np.array([values], np.float32)}


def test_top_k() -> None:
    outputs = scores(0.1, 0.9, 0.5, 0.4, 0.3, 0.2)
    assert [TopK(1).score(outputs, label) for label in (0, 1, 2)] == [0, 1, 0]
    assert [TopK(5).score(outputs, label) for label in (0, 5)] == [0, 1]
    assert TopK(1).score({"y": np.eye(4, dtype=np.float32)}, [0, 1, 2, 0]) == 0.75
    assert TopK(1, ["cat", "dog"]).score(scores(0, 1), "dog") == 1
    assert TopK(1).score(scores(0, 1), "1") == 1
    # constant or NaN scores are no hit
    assert TopK(1).score(scores(3, 3, 3), 2) == 0
    assert TopK(1).score(scores(3, 3, 3), 0) == 1
    assert TopK(1).score(scores(float("nan"), 1), 0) == 0


@pytest.mark.parametrize("label", [7, -1, "cat", 0.5, [0, 1], None])
def test_labels_that_dont_fit_are_refused(label: object) -> None:
    with pytest.raises(UsageError):
        TopK(1).score(scores(1, 2, 3), label)


def test_mse() -> None:
    metric = load_metric("mse")
    assert metric.score({"y": np.array([[1.0, 3.0]])}, [1, 1]) == 2
    with pytest.raises(UsageError, match="3 values"):
        metric.score({"y": np.array([1.0])}, [1, 2, 3])
    with pytest.raises(UsageError):
        metric.score({"y": np.array([1.0])}, "cat")


def test_drop_is_in_points_and_positive_where_it_is_worse() -> None:
    tally = MetricTally(load_metric("top1"))
    for i in range(4):
        tally.add(scores(0, 1), scores(float(i == 0), 0.5), Sample(f"s{i}", {}, 1))
    tally.add(scores(0, 1), scores(1, 0), Sample("unlabelled", {}))
    result = tally.result()
    assert result is not None
    assert (result.samples, result.source, result.candidate, result.drop) == (4, 100, 75, 25)
    assert (result.worse, result.better, result.examples[0].sample) == (1, 0, "s0")

    tally = MetricTally(load_metric("mse"))
    tally.add({"y": np.array([1.0])}, {"y": np.array([3.0])}, Sample("s", {}, 1.0))
    result = tally.result()
    assert result is not None and (result.drop, result.unit) == (4, "")
    assert MetricTally(load_metric("mse")).result() is None


@pytest.fixture
def metric_file(tmp_path: Path) -> Path:
    file = tmp_path / "json.py"  # a name of the standard library's must not get in the way
    file.write_text("""import os, helper
def closeness(outputs, label):
    print('noise on stdout')
    return float(outputs['y'].sum()) / helper.SCALE - label['offset']
closeness.higher_is_better = False
closeness.unit = 'mm'
def pid(outputs, label): return os.getpid()
def names(outputs, label): return sum(v.dtype.kind == 'U' for v in outputs.values())
def broken(outputs, label): return outputs['nope']
def nan(outputs, label): return float('nan')
def dies(outputs, label): os._exit(3)
def label_sum(outputs, label): return label.sum()
""")
    (tmp_path / "helper.py").write_text("SCALE = 2\n")
    return file


Load = Callable[[str], UserMetric]


@pytest.fixture
def user_metric(metric_file: Path) -> Iterator[Load]:
    """A function of that file as a metric."""
    with ExitStack() as opened:

        def load(function: str) -> UserMetric:
            metric = load_metric(f"{metric_file}:{function}")
            assert isinstance(metric, UserMetric)
            opened.callback(metric.close)
            return metric

        yield load


def test_a_users_metric_runs_in_another_process(user_metric: Load) -> None:
    metric = user_metric("closeness")
    assert (metric.name, metric.unit) == ("json.py:closeness", "mm")
    assert not metric.higher_is_better
    outputs = {"y": np.array([[2, 4]], np.float16), "s": np.array(["a"], object)}
    assert metric.score(outputs, {"offset": 0.5}) == 2.5
    assert user_metric("pid").score({"y": np.zeros(1)}, 0) not in (0, os.getpid())


@pytest.mark.parametrize(
    ("function", "label", "expected"), [("names", None, 1), ("label_sum", np.array([1, 2]), 3)]
)
def test_what_a_users_metric_is_given(
    user_metric: Load, function: str, label: object, expected: float
) -> None:
    given = {"a/../b": np.array(["x"], object)}
    assert user_metric(function).score(given, label) == expected


def test_its_errors_are_the_users(user_metric: Load) -> None:
    metric = user_metric("broken")
    with pytest.raises(UsageError, match="KeyError: 'nope'") as caught:
        metric.score({"y": np.zeros(1)}, 0)
    (said,) = caught.value.details
    assert said == "json.py, line 9: def broken(outputs, label): return outputs['nope']"
    with pytest.raises(UsageError, match="can't be sent"):
        metric.score({"y": np.zeros(1)}, object())


@pytest.mark.parametrize(("function", "error"), [("nan", UsageError), ("dies", MachineError)])
def test_what_is_no_number_is_refused(
    user_metric: Load, function: str, error: type[Exception]
) -> None:
    with pytest.raises(error):
        user_metric(function).score({"y": np.zeros(1)}, 0)


@pytest.mark.parametrize("spec", ["top3", "nowhere.py:f", "{file}:missing"])
def test_unknown_metrics_are_refused(metric_file: Path, spec: str) -> None:
    with pytest.raises(UsageError):
        load_metric(spec.format(file=metric_file))


def test_default_metrics() -> None:
    logits = TensorSpec("y", "float32", ("batch", 1000))
    assert default_metrics([logits], [3]) == ["top1", "top5"]
    assert default_metrics([TensorSpec("y", "float32", ("batch", 3))], ["cat"]) == ["top1"]
    assert default_metrics([TensorSpec("y", "float32", ("batch", 3, 8, 8))], [1]) == []
    assert default_metrics([logits], [np.zeros(3)]) == []
    assert default_metrics([logits], []) == []
