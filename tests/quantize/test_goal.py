"""What is wanted of a lowered model is judged the same on a few telling samples as on all."""

from pathlib import Path

import numpy as np

from converter.check.task_metrics import TopK, UserMetric
from converter.ir.model import Model
from converter.precision.budget.candidates import Beside
from converter.precision.budget.goal import Goal
from converter.precision.budget.sensitivity import Judge, cosine_of
from converter.samples import Sample
from tests.passes.models import ListedSamples
from tests.quantize.fake import noises, rounding


def labelled(model: Model, count: int, wrong: int = 0) -> ListedSamples:
    """Samples labelled with what the model says, some of them wrongly."""
    plain = list(noises(count))
    best = [int(np.argmax(found["y"])) for _, found in Judge(model, plain).pairs()]
    labels = [23 - label if at < wrong else label for at, label in enumerate(best)]
    given = zip(plain, labels, strict=True)
    return ListedSamples([Sample(one.name, one.feeds, label) for one, label in given])


def test_many_samples_are_judged_as_all_of_them(model: Model) -> None:
    samples = noises(60)
    judge = Judge(model, list(samples))
    goal = Goal(model, samples, min_cosine=0.99)
    plain = rounding(model)
    for keep in ((), ("fc2",), ("fc5",), ("fc2", "fc5"), ("fc0", "fc1", "fc2", "fc5")):
        lowered = plain(keep)
        exact = cosine_of(judge.compare(lowered.model))
        score = goal.score(lowered)
        assert goal.meets(score) == (exact >= 0.99)
        assert score.value >= exact
        assert goal.score(lowered, whole=True).value == exact
        if goal.meets(score):
            assert score.value == exact


def test_a_metric_is_held_against_the_float_model_s(model: Model) -> None:
    """Half of the labels are wrong for the float model too: that is no drop."""
    samples = labelled(model, 20, wrong=10)
    goal = Goal(model, samples, min_cosine=None, max_drop=5.0, metrics=[TopK(1)])
    fine, coarse = rounding(model, 20000)(()), rounding(model, 15)(())
    assert goal.meets(goal.score(fine))
    assert "top1 50.00% (no worse)" in goal.score(fine).said
    score = goal.score(coarse)
    assert not goal.meets(score)
    assert "points worse" in score.said


def test_of_two_limits_both_have_to_hold_and_exactly_the_limit_does(model: Model) -> None:
    samples = labelled(model, 20)
    middling = rounding(model, 511)(())
    cosine = cosine_of(Judge(model, list(samples)).compare(middling.model))
    for limit, holds in ((cosine - 1e-6, True), (cosine + 1e-6, False)):
        goal = Goal(model, samples, min_cosine=limit, max_drop=100.0, metrics=[TopK(1)])
        assert goal.meets(goal.score(middling)) == holds
    samples = labelled(model, 20)
    coarse = rounding(model, 127)(())
    drop = Goal(model, samples, min_cosine=None, max_drop=1.0, metrics=[TopK(1)]).score(coarse)
    points = float(drop.said.split("(")[1].split()[0])
    assert points > 0
    goal = Goal(model, samples, min_cosine=None, max_drop=points, metrics=[TopK(1)])
    assert goal.meets(goal.score(coarse))
    goal = Goal(model, samples, min_cosine=None, max_drop=points - 0.01, metrics=[TopK(1)])
    assert not goal.meets(goal.score(coarse))


def test_metrics_take_turns_where_models_are_judged_side_by_side(
    model: Model, tmp_path: Path
) -> None:
    """A user's metric is one process, and gets each model's outputs through one file."""
    file = tmp_path / "mine.py"
    file.write_text("def first(outputs, label): return float(outputs['y'][0, 0])\n")
    metric = UserMetric(f"{file}:first")
    goal = Goal(model, labelled(model, 20), min_cosine=None, max_drop=5.0, metrics=[metric])
    models = [rounding(model, levels)(()) for levels in (15, 31, 63, 127, 255, 511)]
    try:
        alone = [goal.score(lowered) for lowered in models]
        assert list(Beside(3, 1).each(goal.score, models)) == alone
        assert len({score.said for score in alone}) == len(alone)
    finally:
        metric.close()
