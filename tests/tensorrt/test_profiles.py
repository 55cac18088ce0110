"""Optimization profiles: from --shapes, from the samples, from the batch sizes asked for."""

from __future__ import annotations

import pytest

from converter.errors import UsageError
from converter.shape_ranges import sizes_seen
from emitters.tensorrt.profiles import largest_batch, profiles_of, said
from tests.tensorrt.models import request, text_model

IMAGE = text_model(
    "g (float[batch, 3, height, width] x) => (float[batch, 3, height, width] y) { y = Relu(x) }"
)
TOKENS = text_model(
    "g (int64[batch, length] ids, int64[batch, length] mask) => (int64[batch, length] y) "
    "{ y = Mul(ids, mask) }"
)
FIXED = text_model("g (float[2, 3] x) => (float[2, 3] y) { y = Relu(x) }")


def test_a_profile_is_smallest_best_and_largest() -> None:
    asked = request(shapes=["x:1x3x224x224,8x3x224x224,32x3x224x224"])
    assert profiles_of(asked, IMAGE) == [
        {"x": ((1, 3, 224, 224), (8, 3, 224, 224), (32, 3, 224, 224))}
    ]


def test_an_input_named_again_begins_the_next_profile() -> None:
    asked = request(shapes=["x:1x3x8x8,2x3x8x8,4x3x8x8", "x:1x3x16x16"])
    first, second = profiles_of(asked, IMAGE)
    assert first["x"][2] == (4, 3, 8, 8)
    assert second["x"] == ((1, 3, 16, 16),) * 3


def test_inputs_left_out_get_the_sizes_of_those_named() -> None:
    asked = request(shapes=["ids:1x8,4x64,16x128"])
    (profile,) = profiles_of(asked, TOKENS)
    assert profile["mask"] == profile["ids"] == ((1, 8), (4, 64), (16, 128))


def test_without_shapes_the_samples_and_max_batch_decide() -> None:
    shapes = [{"ids": (1, size), "mask": (1, size)} for size in (5, 9, 30)]
    seen = sizes_seen(shapes, TOKENS.inputs)
    assert seen["length"] == (5, 9, 30)
    (profile,) = profiles_of(request(max_batch=16), TOKENS, seen)
    assert profile["ids"] == ((1, 5), (16, 9), (16, 30))
    (profile,) = profiles_of(request(preferred_batch=[2, 4]), TOKENS, seen)
    assert profile["ids"] == ((1, 5), (4, 9), (8, 30))
    assert largest_batch([profile], TOKENS) == 8


def test_a_batch_to_be_measured_fits() -> None:
    (profile,) = profiles_of(request(dims={"length": 4}, bench_batches=[1, 64]), TOKENS)
    assert profile["ids"][2] == (64, 4)


def test_samples_of_several_rows_fit() -> None:
    seen = sizes_seen([{"ids": (12, 4), "mask": (12, 4)}], TOKENS.inputs)
    (profile,) = profiles_of(request(), TOKENS, seen)
    assert profile["ids"] == ((1, 4), (12, 4), (12, 4))


def test_fixed_shapes_need_no_profile() -> None:
    assert profiles_of(request(), FIXED) == []
    assert largest_batch([], FIXED) == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x:1x3x8", "doesn't fit x, which is float32[batch, 3, height, width]"),
        ("x:1x4x8x8", "1x4x8x8 doesn't fit"),
        ("x:4x3x8x8,2x3x8x8,8x3x8x8", "the smallest shape has to be first"),
        ("x:1x3x8x8,2x3x8x8", "isn't understood"),
        ("x:1x3xheightx8", "isn't understood"),
        ("1x3x8x8", "isn't understood"),
        ("z:1x3x8x8", "the model has no input 'z'"),
    ],
)
def test_a_shape_that_does_not_fit_is_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError) as error:
        profiles_of(request(shapes=[text]), IMAGE)
    assert said in str(error.value)


def test_names_may_hold_colons() -> None:
    model = text_model("g (float[batch, 2] x) => (float[batch, 2] y) { y = Relu(x) }")
    model.graph.graph.inputs[0].name = "serving:0"
    (profile,) = profiles_of(request(shapes=["serving:0:1x2,2x2,4x2"]), model)
    assert profile["serving:0"][2] == (4, 2)


def test_a_free_size_that_nobody_gave_is_named() -> None:
    with pytest.raises(UsageError, match="how large height, width can be"):
        profiles_of(request(), IMAGE)


def test_a_profile_in_words() -> None:
    (profile,) = profiles_of(request(shapes=["x:1x3x8x8,2x3x8x8,4x3x8x8"]), IMAGE)
    assert said(profile) == "x 1x3x8x8, 2x3x8x8, 4x3x8x8"
