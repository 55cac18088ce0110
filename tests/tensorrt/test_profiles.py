"""Optimization profiles: from --shapes, from the samples, from the batch sizes asked for."""

from typing import Any

import pytest

from converter.errors import UsageError
from converter.ir.model import Model
from converter.options.shape_ranges import sizes_seen
from emitters.tensorrt.profile_choice import choose_profile
from emitters.tensorrt.profiles import largest_batch, profiles_of, said
from tests.serving.models import text_model
from tests.tensorrt.models import request

IMAGE = text_model(
    "g (float[batch, 3, height, width] x) => (float[batch, 3, height, width] y) { y = Relu(x) }"
)
TOKENS = text_model(
    "g (int64[batch, length] ids, int64[batch, length] mask) => (int64[batch, length] y) "
    "{ y = Mul(ids, mask) }"
)
FIXED = text_model("g (float[2, 3] x) => (float[2, 3] y) { y = Relu(x) }")


def shape_of(*batches: int, size: int) -> tuple[tuple[int, ...], ...]:
    return tuple((batch, 3, size, size) for batch in batches)


LENGTHS = [(1, 5), (1, 9), (1, 30)]
ASKED: dict[str, tuple[Model, dict[str, Any], list[tuple[int, int]], list[Any]]] = {
    "smallest, best, largest": (
        *(IMAGE, {"shapes": ["x:1x3x224x224,8x3x224x224,32x3x224x224"]}, []),
        [shape_of(1, 8, 32, size=224)],
    ),
    "an input named again begins the next": (
        *(IMAGE, {"shapes": ["x:1x3x8x8,2x3x8x8,4x3x8x8", "x:1x3x16x16"]}, []),
        [shape_of(1, 2, 4, size=8), shape_of(1, 1, 1, size=16)],
    ),
    "inputs left out get the sizes of those named": (
        *(TOKENS, {"shapes": ["ids:1x8,4x64,16x128"]}, [], [((1, 8), (4, 64), (16, 128))]),
    ),
    "the samples decide": (TOKENS, {"max_batch": 16}, LENGTHS, [((1, 5), (16, 9), (16, 30))]),
    "preferred": (TOKENS, {"preferred_batch": [2, 4]}, LENGTHS, [((1, 5), (4, 9), (8, 30))]),
    "a batch to be measured": (
        *(TOKENS, {"dims": {"length": 4}, "bench_batches": [1, 64]}, []),
        [((1, 4), (64, 4), (64, 4))],
    ),
    "samples of several rows": (TOKENS, {}, [(12, 4)], [((1, 4), (12, 4), (12, 4))]),
    "fixed": (FIXED, {}, [], []),
}
"""Model, options, shapes of samples, and the profiles of every input of the model."""


@pytest.mark.parametrize("case", ASKED)
def test_profiles(case: str) -> None:
    model, options, shapes, expected = ASKED[case]
    names = [spec.name for spec in model.inputs]
    seen = sizes_seen([dict.fromkeys(names, shape) for shape in shapes], model.inputs)
    assert shapes != LENGTHS or seen["length"] == (5, 9, 30)
    found = profiles_of(request(**options), model, seen)
    assert found == [dict.fromkeys(names, shape) for shape in expected]
    largest = {"fixed": 0, "preferred": 8}
    assert case not in largest or largest_batch(found, model) == largest[case]


@pytest.mark.parametrize(("text", "said"), [
    ("x:1x3x8", "doesn't fit x, which is float32[batch, 3, height, width]"),
    ("x:1x4x8x8", "1x4x8x8 doesn't fit"),
    ("x:4x3x8x8,2x3x8x8,8x3x8x8", "give the smallest shape first"),
    ("x:1x3x8x8,2x3x8x8", "isn't understood"),
    ("x:1x3xheightx8", "isn't understood"),
    ("1x3x8x8", "isn't understood"),
    ("z:1x3x8x8", "the model has no input 'z'"),
])  # fmt: skip
def test_a_shape_that_does_not_fit_is_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError) as error:
        profiles_of(request(shapes=[text]), IMAGE)
    assert said in str(error.value)


def test_names_may_hold_colons() -> None:
    model = text_model("g (float[batch, 2] x) => (float[batch, 2] y) { y = Relu(x) }")
    model.graph.graph.inputs[0].name = "serving:0"
    (profile,) = profiles_of(request(shapes=["serving:0:1x2,2x2,4x2"]), model)
    assert profile["serving:0"][2] == (4, 2)


def test_a_profile_in_words_and_a_free_size_that_nobody_gave() -> None:
    with pytest.raises(UsageError, match="the largest size of height, width"):
        profiles_of(request(), IMAGE)
    (profile,) = profiles_of(request(shapes=["x:1x3x8x8,2x3x8x8,4x3x8x8"]), IMAGE)
    assert said(profile) == "x 1x3x8x8, 2x3x8x8, 4x3x8x8"


CHOICES = [
    {"x": tuple((batch, 3) for batch in ends)} for ends in ((1, 1, 4), (2, 8, 16), (8, 32, 64))
]


@pytest.mark.parametrize(
    ("batch", "index"), [(1, 0), (2, 0), (3, 1), (4, 1), (8, 1), (15, 1), (16, 1), (17, 2), (64, 2)]
)
def test_the_nearest_that_fits_is_chosen(batch: int, index: int) -> None:
    assert choose_profile({"x": (batch, 3)}, CHOICES, "testing") == index  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", [(65, 3), (1, 4), (1, 3, 1), (0, 3)])
def test_where_none_fits(shape: tuple[int, ...]) -> None:
    with pytest.raises(UsageError) as caught:
        choose_profile({"x": shape}, CHOICES, "testing")  # type: ignore[arg-type]
    assert len(caught.value.details) == 3
