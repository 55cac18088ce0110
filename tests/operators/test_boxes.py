"""NonMaxSuppression."""

import numpy as np
import pytest

from tests.operators.cases import Array, Case, Refused
from tests.operators.running import TARGETS, check


def boxes(count: int, images: int = 1) -> Array:
    """Boxes that overlap much, corners in any order."""
    random = np.random.default_rng(0)
    centre, size = (random.uniform(0, end, (images, count, 2)) for end in (1, 0.6))
    made = np.concatenate([centre - size / 2, centre + size / 2], axis=2).astype(np.float32)
    made[:, ::3] = made[:, ::3, [2, 3, 0, 1]]
    return made


def scores(*shape: int) -> Array:
    """Scores of two decimals, so that many are equal."""
    return np.random.default_rng(1).uniform(0, 1, shape).round(2).astype(np.float32)


POINTS = boxes(6)
POINTS[0, 1] = POINTS[0, 4] = POINTS[0, 2, [0, 1, 0, 1]]
POINTS[0, 3, 2] = POINTS[0, 3, 0]
THIRD = np.float32(0.5) / np.float32(1.5)
BOXES = {"b": np.abs(boxes(60, 2)), "s": scores(2, 3, 60)}


# fmt: off
CASES: list[Case] = [
    *(
        Case(f"boxes that are {centred} centred",
            f"""g (float[i, n, 4] b, float[i, 3, n] s, int64[1] most, float[1] o, float[1] l) => (y) {{
                y = NonMaxSuppression <center_point_box = {centred}> (b, s, most, o, l)
            }}""",
            feeds=[
                BOXES | {"most": [most], "o": [overlap], "l": [least]}
                for most, overlap, least in (
                    (5, 0.3, 0.4),
                    (1000, 0.5, 0.0),
                    (50, 0.0, 0.2),
                    (50, 1.0, -1),
                )
            ],
            tflite=Refused("have to be constant"))
        for centred in (0, 1)
    ),
    Case("boxes without thresholds",
        """g (float[1, 12, 4] b, float[1, 1, 12] scores) => (y)
            <int64 most = {5}, float overlap = {0.4}> {
            y = NonMaxSuppression <center_point_box = 1> (b, scores, most, overlap)
        }""",
        ranges={"b": (0, 1)}),
    Case("boxes that overlap by just the threshold",
        """g (float[1, 2, 4] b, float[1, 1, 2] s) => (y)
            <float o, int64 most = {9}> {
            y = NonMaxSuppression (b, s, most, o)
        }""",
        feeds={"b": [[[0, 0, 1, 1], [0, 0.5, 1, 1.5]]], "s": [[[0.5, 0.5]]]}, weights={"o": THIRD}),
    Case("boxes that overlap by more than the threshold",
        """g (float[1, 2, 4] b, float[1, 1, 2] s) => (y)
            <float o, int64 most = {9}> {
            y = NonMaxSuppression (b, s, most, o)
        }""",
        feeds={"b": [[[0, 0, 1, 1], [0, 0.5, 1, 1.5]]], "s": [[[0.5, 0.5]]]},
        weights={"o": np.nextafter(THIRD, np.float32(0))}),
    Case("boxes without an area",
        """g (float[1, 6, 4] b, float[1, 1, 6] s) => (y)
            <int64 most = {9}, float overlap = {0.5}> {
            y = NonMaxSuppression (b, s, most, overlap)
        }""",
        feeds={"b": POINTS, "s": scores(1, 1, 6)}),
    Case("boxes, none found",
        """g (float[1, 6, 4] b, float[1, 2, 6] s) => (y)
            <int64 most = {9}, float overlap = {0.5},
            float least = {2.0}> {
            y = NonMaxSuppression (b, s, most, overlap, least)
        }""",
        feeds={"b": boxes(6), "s": scores(1, 2, 6)}),
    Case("what detectors do with boxes",
        """g (float[1, n, 4] b, float[1, 3, n] s) => (y1, y2)
            <int64 most = {9}, float overlap = {0.5},
            float least = {0.3}, int64[1] two = {2}, int64[1] three = {3},
            int64[1] one = {1}, int64[1] zero = {0}> {
            r = NonMaxSuppression (b, s, most, overlap, least)
            i = Slice (r, two, three, one)
            j = Squeeze (i, one)
            flat = Squeeze (b, zero)
            y1 = Gather (flat, j)
            p = GatherND (s, r)
            y2 = Unsqueeze (p, one)
        }""",
        feeds={"b": boxes(40), "s": scores(1, 3, 40)}),
    *(
        Case(f"boxes, {most}, {overlap}, {least}, centred {centred}",
            f"""g (float[i, n, 4] b, float[i, 3, n] s) => (y)
                <int64 most = {{{most}}}, float overlap = {{{overlap}}}, float least = {{{least}}}> {{
                y = NonMaxSuppression <center_point_box = {centred}> (b, s, most, overlap, least)
            }}""",
            feeds=BOXES)
        for centred in (0, 1)
        for most, overlap, least in ((5, 0.3, 0.4), (1000, 0.5, 0.0), (50, 0.0, 0.2), (50, 1.0, -1.0))
    ),
]
# fmt: on


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test(case: Case, target: str) -> None:
    check(case, target)
