"""Real models in float16: close to float32 as ONNX Runtime runs them, and with all roundings."""

import numpy as np
import onnx
import pytest

from bench.precision_checks import cosine, edges, pairs
from converter.ir.model import Model
from converter.precision.calibrate.ranges import collect
from converter.precision.fp16.half import to_half
from converter.precision.fp16.strict import strict
from converter.runtime.ort import OrtSession
from tests.passes.models import ListedSamples
from tests.passes.real import real_model, real_samples

NAMES = ["basic-pitch", "ocr-rec", "silero", "silero-op15", "silero-half", "silero-sequence",
         "silero-ifless"]  # fmt: skip


def prepared(name: str) -> Model:
    """A real model with its types known and its nodes named, as the pipeline has it."""
    from converter.passes.cleanup.cleanup import Cleanup

    model = real_model(name)
    Cleanup()(model.graph)
    return model


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_real_model(name: str) -> None:
    model, samples = prepared(name), real_samples(name)
    made = to_half(model, collect(model, samples, few=True))
    onnx.checker.check_model(made.model.to_proto(), full_check=True)
    assert len(made.lowered) > len(made.kept) or name == "basic-pitch"
    assert made.share > 0.9
    assert not pairs(made.model)
    before, after = OrtSession(model.graph, plain=True), OrtSession(made.model.graph)
    rounded = OrtSession(strict(made.model).graph, plain=True)
    for sample in samples:
        expected = before.run(sample.feeds)
        for found in (after.run(sample.feeds), rounded.run(sample.feeds)):
            for output, array in expected.items():
                assert cosine(array, found[output]) >= 0.9999, output
        for feeds in edges(sample.feeds):
            for found in (after.run(feeds), rounded.run(feeds)):
                assert all(np.isfinite(array).all() for array in found.values())


@pytest.mark.slow
def test_what_shows_most_is_given_back_to_float32() -> None:
    """In silence, silero's state is off by the rounding of one layer's weights."""
    model, noise = prepared("silero-op15"), real_samples("silero-op15", 1)
    silence = next(edges(next(iter(noise)).feeds))
    samples = ListedSamples([next(iter(noise)).feeds, silence])
    ranges = collect(model, samples, few=True)
    plain, made = to_half(model, ranges), to_half(model, ranges, samples=samples)
    given_back = [kept for kept in made.kept if kept.cost is not None]
    assert 0 < len(given_back) < 4
    assert made.decisions
    expected = OrtSession(model.graph, plain=True).run(silence)

    def worst(model: Model) -> float:
        found = OrtSession(strict(model).graph, plain=True).run(silence)
        return min(cosine(array, found[name]) for name, array in expected.items())

    assert worst(plain.model) < 0.9999 <= worst(made.model)
