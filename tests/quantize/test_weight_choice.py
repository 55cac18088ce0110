"""Methods for weights are kept where samples that they never saw say that they help."""

import pytest

from converter.ir.model import Model
from converter.precision.quantized import Quantized
from converter.precision.validation_split import EVERY, FEWEST, LEARNT_FROM, validation_split
from converter.precision.weights.choice import Methods, choose
from tests.quantize.fake import noises, rounding

BOTH = ("rounding", "bias")


def chosen(model: Model, levels: dict[Methods, int], **options: bool) -> tuple[Methods, str]:
    """What is kept where each set of methods leaves so many levels."""

    def lower(methods: Methods) -> Quantized:
        return rounding(model, levels[methods])(())

    choice = choose(model, lower, BOTH, noises(6), **options)
    return choice.methods, choice.decision


def test_the_best_is_kept_and_told_where_it_is_better_by_enough(model: Model) -> None:
    levels = {(): 2000, ("rounding",): 127, ("bias",): 20000, BOTH: 511}
    methods, line = chosen(model, levels)
    assert methods == ("bias",)
    assert line.startswith("bias correction of weights: cosine 0.99")
    said = "6 calibration samples held out", "plain rounding 0.9", "and bias correction 0.9"
    assert all(words in line for words in said)
    # harm by all of them leaves none
    assert chosen(model, {(): 2000, ("rounding",): 63, ("bias",): 63, BOTH: 31})[0] == ()
    levels = dict.fromkeys([(), ("rounding",), ("bias",), BOTH], 2044)
    assert chosen(model, levels)[0] == BOTH
    assert chosen(model, {**levels, ("bias",): 2040})[0] == BOTH  # 5% less lost
    assert chosen(model, {**levels, BOTH: 2000})[0] == ("rounding",)  # 60% less


def test_samples_that_were_learnt_from_flatter(model: Model) -> None:
    """So a method has to be better by far on them."""
    levels = {(): 500, ("rounding",): 500, ("bias",): 510, BOTH: 510}
    assert chosen(model, levels, unseen=False)[0] == ()
    far = {**levels, ("bias",): 2000, BOTH: 2000}  # a sixteenth is lost
    methods, line = chosen(model, far, unseen=False)
    assert methods == ("bias",)
    assert "6 calibration samples that were learnt from: there are few" in line


@pytest.mark.parametrize("count", [12, 13, 20, 64])
def test_samples_are_divided_over_their_whole_length(count: int) -> None:
    learnt, held = validation_split(noises(count))
    assert held is not None
    names = [[sample.name for sample in part] for part in (learnt, held)]
    assert not set(names[0]) & set(names[1])
    assert len(names[0]) + len(names[1]) == count == len(learnt) + len(held)
    assert len(held) == max(FEWEST, count // EVERY)
    places = [int(name[1:]) for name in names[1]]
    assert max(places) - min(places) >= count / 2


def test_too_few_samples_are_all_learnt_from() -> None:
    learnt, held = validation_split(noises(FEWEST + LEARNT_FROM - 1))
    assert (len(learnt), held) == (FEWEST + LEARNT_FROM - 1, None)
