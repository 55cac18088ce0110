"""One model lowered again and again: biases fitted once serve sets of layers near by."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir
import pytest

from converter.ir import Model
from converter.quantize.bias_changes import bias_changes, change_biases
from converter.quantize.bias_correction import correct_biases
from converter.quantize.insert import quantize
from converter.quantize.int8_lowering import Int8
from converter.quantize.ranges import Ranges, collect
from converter.quantize.scheme import ONNXRUNTIME_CPU, TENSORRT, Scheme
from converter.quantize.sensitivity import Judge, cosine_of
from tests.acceptance.cli import small_cnn
from tests.passes.models import ListedSamples, run

SCHEMES = [ONNXRUNTIME_CPU, TENSORRT]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    proto = onnx.load(small_cnn(tmp_path_factory.mktemp("cnn") / "model.onnx"))
    return Model(onnx_ir.from_proto(onnx.shape_inference.infer_shapes(proto)))


@pytest.fixture(scope="module")
def samples() -> ListedSamples:
    rng = np.random.default_rng(4)
    shape = (1, 3, 16, 16)
    return ListedSamples(
        [{"image": 1 + rng.standard_normal(shape).astype(np.float32)} for _ in range(16)]
    )


@pytest.fixture(scope="module")
def ranges(model: Model, samples: ListedSamples) -> Ranges:
    return collect(model, samples)


def same(one: Model, other: Model, samples: ListedSamples) -> bool:
    feeds = next(iter(samples)).feeds
    mine, theirs = run(one, feeds), run(other, feeds)
    return all(np.array_equal(mine[name], theirs[name]) for name in mine)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_correction_can_be_put_into_the_same_model(
    model: Model, samples: ListedSamples, ranges: Ranges, scheme: Scheme
) -> None:
    plain = quantize(model, ranges, scheme)
    corrected = correct_biases(model, plain, samples)
    changes = bias_changes(plain, corrected)
    assert any(np.abs(change).max() > 0 for change in changes.values())
    assert not same(plain.model, corrected.model, samples)
    assert same(change_biases(plain, changes).model, corrected.model, samples)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_layers_in_float_keep_their_biases(
    model: Model, samples: ListedSamples, ranges: Ranges, scheme: Scheme
) -> None:
    plain = quantize(model, ranges, scheme)
    changes = bias_changes(plain, correct_biases(model, plain, samples))
    kept = quantize(model, ranges, scheme, keep=plain.lowered)
    assert same(change_biases(kept, changes).model, model, samples)


def test_what_is_settled_serves_what_is_lowered_next(
    model: Model, samples: ListedSamples, ranges: Ranges
) -> None:
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


def test_nodes_asked_for_stay_in_any_case(
    model: Model, samples: ListedSamples, ranges: Ranges
) -> None:
    made = Int8(model, ranges, ONNXRUNTIME_CPU, samples, keep=["conv0"], methods=["rounding"])
    assert "conv0" not in made.lower(["conv1"]).lowered
    assert "conv1" in made.lower(()).lowered
