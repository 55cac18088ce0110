"""One model lowered again and again: biases fitted once serve sets of layers near by."""

from typing import NamedTuple

import numpy as np
import onnx
import onnx_ir
import pytest

from converter.ir.model import Model
from converter.precision.budget.sensitivity import Judge, cosine_of
from converter.precision.calibrate.ranges import Ranges, collect
from converter.precision.int8.bias_changes import bias_changes, change_biases
from converter.precision.int8.bias_correction import correct_biases
from converter.precision.int8.insert import quantize
from converter.precision.int8.quantize import Int8
from converter.precision.int8.scheme import ONNXRUNTIME_CPU, Scheme
from emitters.tensorrt.scheme import TENSORRT
from tests.acceptance.cli import small_cnn
from tests.passes.models import ListedSamples, run

SCHEMES = [ONNXRUNTIME_CPU, TENSORRT]


class Given(NamedTuple):
    """A network, samples for it, and the ranges of its tensors on them."""

    model: Model
    samples: ListedSamples
    ranges: Ranges


@pytest.fixture(scope="module")
def cnn(tmp_path_factory: pytest.TempPathFactory) -> Given:
    proto = onnx.load(small_cnn(tmp_path_factory.mktemp("cnn") / "model.onnx"))
    model = Model(onnx_ir.from_proto(onnx.shape_inference.infer_shapes(proto)))
    images = 1 + np.random.default_rng(4).standard_normal((16, 1, 3, 16, 16)).astype(np.float32)
    samples = ListedSamples([{"image": image} for image in images])
    return Given(model, samples, collect(model, samples))


def same(one: Model, other: Model, samples: ListedSamples) -> bool:
    feeds = next(iter(samples)).feeds
    mine, theirs = run(one, feeds), run(other, feeds)
    return all(np.array_equal(mine[name], theirs[name]) for name in mine)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_correction_can_be_put_into_the_same_model(cnn: Given, scheme: Scheme) -> None:
    plain = quantize(cnn.model, cnn.ranges, scheme)
    corrected = correct_biases(cnn.model, plain, cnn.samples)
    changes = bias_changes(plain, corrected)
    assert any(np.abs(change).max() > 0 for change in changes.values())
    assert not same(plain.model, corrected.model, cnn.samples)
    assert same(change_biases(plain, changes).model, corrected.model, cnn.samples)
    # layers in float keep their biases
    kept = quantize(cnn.model, cnn.ranges, scheme, keep=plain.lowered)
    assert same(change_biases(kept, changes).model, cnn.model, cnn.samples)


def test_what_is_settled_serves_what_is_lowered_next(cnn: Given) -> None:
    model, samples, ranges = cnn
    made = Int8(model, ranges, ONNXRUNTIME_CPU, samples, methods=["bias"])
    judge = Judge(model, list(samples))
    settled = made.settle(())
    assert same(made.lower(()).model, settled.model, samples)
    some = [name for name in settled.lowered if name.startswith("conv")][:1]
    near, fitted = made.lower(some), made.settle(some)
    assert some[0] not in near.lowered
    uncorrected = Int8(model, ranges, ONNXRUNTIME_CPU, samples, methods=["none"]).lower(some)
    scores = [cosine_of(judge.compare(m.model)) for m in (uncorrected, near, fitted)]
    assert scores[1] > scores[0] and scores[2] > scores[0]
    assert "held out" in fitted.decisions[0]


def test_nodes_asked_for_stay_in_any_case(cnn: Given) -> None:
    model, samples, ranges = cnn
    made = Int8(model, ranges, ONNXRUNTIME_CPU, samples, keep=["conv0"], methods=["rounding"])
    assert "conv0" not in made.lower(["conv1"]).lowered
    assert "conv1" in made.lower(()).lowered
