"""NonMaxSuppression, against ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.tflite_emitter.running import agree, parsed, with_weights

Array = np.ndarray[Any, Any]


def boxes(count: int, images: int = 1, seed: int = 0) -> Array:
    """Boxes that overlap much, corners in any order."""
    random = np.random.default_rng(seed)
    centre, size = (
        random.uniform(0, 1, (images, count, 2)),
        random.uniform(0, 0.6, (images, count, 2)),
    )
    made = np.concatenate([centre - size / 2, centre + size / 2], axis=2).astype(np.float32)
    made[:, ::3] = made[:, ::3, [2, 3, 0, 1]]
    return made


def scores(images: int, classes: int, count: int) -> Array:
    """Scores of two decimals, so that many are equal."""
    random = np.random.default_rng(1)
    return random.uniform(0, 1, (images, classes, count)).round(2).astype(np.float32)


@pytest.mark.parametrize("centred", [0, 1])
@pytest.mark.parametrize("limits", [(5, 0.3, 0.4), (1000, 0.5, 0.0), (50, 0.0, 0.2), (50, 1.0, -1)])
def test_classes_and_images(tmp_path: Path, limits: tuple[int, float, float], centred: int) -> None:
    most, overlap, least = limits
    model = parsed(f"""g (float[B, N, 4] b, float[B, 3, N] s) => (int64[M, 3] y)
        <int64 most = {{{most}}}, float overlap = {{{overlap}}}, float least = {{{least}}}> {{
        y = NonMaxSuppression<center_point_box = {centred}>(b, s, most, overlap, least) }}""")
    found = agree(model, {"b": np.abs(boxes(60, 2)), "s": scores(2, 3, 60)}, tmp_path)
    assert len(found["y"]) > 10


def test_boxes_that_overlap_by_just_the_threshold_stay(tmp_path: Path) -> None:
    """A third of each other: ONNX suppresses above the threshold, LiteRT from it on."""
    text = """g (float[1, 2, 4] b, float[1, 1, 2] s, float o) => (int64[M, 3] y)
        <int64 most = {9}> { y = NonMaxSuppression(b, s, most, o) }"""
    pair = np.asarray([[[0, 0, 1, 1], [0, 0.5, 1, 1.5]]], np.float32)
    s = np.asarray([[[0.5, 0.5]]], np.float32)
    third = np.float32(0.5) / np.float32(1.5)
    for overlap, count in ((third, 2), (np.nextafter(third, np.float32(0)), 1)):
        model = with_weights(parsed(text), o=np.asarray(overlap))
        assert len(agree(model, {"b": pair, "s": s}, tmp_path)["y"]) == count


def test_boxes_without_an_area_are_chosen_once(tmp_path: Path) -> None:
    model = parsed("""g (float[1, 6, 4] b, float[1, 1, 6] s) => (int64[M, 3] y)
        <int64 most = {9}, float o = {0.5}> { y = NonMaxSuppression(b, s, most, o) }""")
    made = boxes(6)
    made[0, 1] = made[0, 4] = made[0, 2, [0, 1, 0, 1]]
    made[0, 3, 2] = made[0, 3, 0]
    found = agree(model, {"b": made, "s": scores(1, 1, 6)}, tmp_path)
    assert {1, 3, 4} <= set(found["y"][:, 2])


def test_nothing_found(tmp_path: Path) -> None:
    model = parsed("""g (float[1, 6, 4] b, float[1, 2, 6] s) => (int64[M, 3] y)
        <int64 most = {9}, float o = {0.5}, float least = {2}> {
        y = NonMaxSuppression(b, s, most, o, least) }""")
    assert agree(model, {"b": boxes(6), "s": scores(1, 2, 6)}, tmp_path)["y"].shape == (0, 3)


def test_what_detectors_do_with_it(tmp_path: Path) -> None:
    model = parsed("""g (float[1, N, 4] b, float[1, 3, N] s) => (float[K, 4] y, float[K, 1] z)
        <int64 most = {9}, float o = {0.5}, float least = {0.3}, int64[1] two = {2},
         int64[1] z1 = {0}, int64[1] far = {3}, int64[1] one = {1}> {
        r = NonMaxSuppression(b, s, most, o, least)
        i = Slice(r, two, far, one)
        j = Squeeze(i, one)
        flat = Squeeze(b, z1)
        y = Gather(flat, j)
        p = GatherND(s, r)
        z = Unsqueeze(p, one)
    }""")
    agree(model, {"b": boxes(40), "s": scores(1, 3, 40)}, tmp_path)
