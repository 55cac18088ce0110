"""GridSample, AffineGrid, RoiAlign; DepthToSpace and SpaceToDepth."""

import numpy as np
import pytest

from tests.operators.cases import Case, Emits, Refused
from tests.operators.running import TARGETS, check

BOXES = [
    [1, 2, 14, 12], [0, 0, 22, 18], [-6, -7, 4, 5], [15, 10, 40, 30], [3, 3, 3.5, 3.2], [-3, 1, 5, 30],
]  # fmt: skip
HALVES = np.stack(np.meshgrid(*[np.linspace(-1, 1, 5)] * 2), axis=-1)[None]


# fmt: off
CASES: list[Case] = [
    # GridSample, AffineGrid, RoiAlign
    *(
        Case(f"grids, nearest: {align_corners}",
            f"""g (float[n, 3, 5, 6] x, float[n, 4, 7, 2] grid) => (y1, y2, y3) {{
                y1 = GridSample <mode = "nearest", padding_mode = "zeros", align_corners = {align_corners}> (x, grid)
                y2 = GridSample <mode = "nearest", padding_mode = "border", align_corners = {align_corners}> (x, grid)
                y3 = GridSample <mode = "nearest", padding_mode = "reflection", align_corners = {align_corners}> (x, grid)
            }}""",
            sizes={"n": 2}, ranges={"grid": (-2.7, 2.7)}, tol=5e-5)
        for align_corners in (0, 1)
    ),
    *(
        Case(f"grids, {mode}: {align_corners}",
            f"""g (float[n, 3, 5, 6] x, float[n, 4, 7, 2] grid) => (y1, y2, y3) {{
                y1 = GridSample <mode = "{mode}", padding_mode = "zeros", align_corners = {align_corners}> (x, grid)
                y2 = GridSample <mode = "{mode}", padding_mode = "border", align_corners = {align_corners}> (x, grid)
                y3 = GridSample <mode = "{mode}", padding_mode = "reflection", align_corners = {align_corners}> (x, grid)
            }}""",
            sizes={"n": 2}, ranges={"grid": (-2.7, 2.7)}, tol=1e-4)
        for mode in ("linear", "cubic")
        for align_corners in (0, 1)
    ),
    Case("grids of free images",
        """g (float[n, 3, h, w] x, float[n, p, q, 2] grid, float[n, p, q, 2] grid1) => (y1, y2, y3) {
            y1 = GridSample <padding_mode = "zeros"> (x, grid)
            y2 = GridSample <padding_mode = "reflection"> (x, grid)
            y3 = GridSample <mode = "nearest", padding_mode = "border", align_corners = 1> (x, grid1)
        }""",
        sizes={"n": 2, "h": 5, "w": 6, "p": 4, "q": 7}, ranges={"grid": (-2.7, 2.7), "grid1": (-1.7, 1.7)},
        tol=5e-5),
    Case("grids of volumes",
        """g (float[2, 3, 4, 5, 6] x1, float[2, 3, 4, 2, 3] grid, float[2, 2, 3, 4, 5] x,
            float[2, 3, 2, 2, 3] g) => (y1, y2, y3, y4) {
            y1 = GridSample <mode = "nearest", padding_mode = "reflection"> (x1, grid)
            y2 = GridSample <mode = "linear", padding_mode = "reflection"> (x1, grid)
            y3 = GridSample <mode = "linear", padding_mode = "reflection", align_corners = 1> (x, g)
            y4 = GridSample <mode = "nearest", padding_mode = "zeros"> (x, g)
        }""",
        ranges={"grid": (-2.7, 2.7), "g": (-1.7, 1.7)}, tol=1e-4),
    Case("grids of free volumes",
        """g (float[n, 2, 3, h, w] x, float[n, v, 2, 2, 3] grid) => (y) {
            y = GridSample <mode = "nearest", padding_mode = "zeros"> (x, grid)
        }""",
        sizes={"n": 2, "h": 4, "w": 5, "v": 3}, ranges={"grid": (-1.7, 1.7)}, tol=1e-4),
    Case("grids half way between pixels",
        'g (float[1, 1, 4, 4] x, float[1, 5, 5, 2] g) => (y) { y = GridSample <mode = "nearest"> (x, g) }',
        feeds={"g": HALVES}),
    Case("spatial transformer",
        """g (float[n, 2, 6, 8] x1, float[n, 2, 3] theta, float[n, 2, 6, 8] x) => (y) {
            s = Shape (x1)
            g = AffineGrid <align_corners = 1> (theta, s)
            y = GridSample (x, g)
        }""",
        sizes={"n": 3}, tol=5e-5),
    Case("affine grids",
        """g (float[n, 2, 3] t, float[n, 3, 4] theta) => (y1, y2, y3)
            <int64[4] size = {2, 3, 4, 5}, int64[5] size1 = {2, 3, 4, 5, 2}> {
            y1 = AffineGrid <align_corners = 0> (t, size)
            y2 = AffineGrid <align_corners = 1> (t, size)
            y3 = AffineGrid (theta, size1)
        }""",
        sizes={"n": 2}),
    Case("affine grid of one pixel",
        """g (float[n, 2, 3] theta) => (y) <int64[4] size = {1, 3, 1, 4}> {
            y = AffineGrid <align_corners = 1> (theta, size)
        }""",
        sizes={"n": 1}, tflite=Refused("one pixel"), coreml=Refused("one pixel")),
    *(
        Case(f"regions: {shape}, {coordinates}",
            f"""g (float[{shape}] x, float[r, 4] rois, int64[r] b) => (y1, y2) {{
                y1 = RoiAlign <mode = "avg", coordinate_transformation_mode = "{coordinates}", output_height = 4, output_width = 2, sampling_ratio = 3, spatial_scale = 0.5> (x, rois, b)
                y2 = RoiAlign <mode = "max", coordinate_transformation_mode = "{coordinates}", output_height = 4, output_width = 2, sampling_ratio = 3, spatial_scale = 0.5> (x, rois, b)
            }}""",
            sizes={"n": 2, "h": 9, "w": 11, "r": 6}, feeds={"rois": BOXES, "b": [0, 1, 1, 0, 1, 1]})
        for shape in ("2,3,9,11", "n,3,h,w")
        for coordinates in ("half_pixel", "output_half_pixel")
    ),
    Case("regions, as many samples as fit",
        "g (float[1, 3, 9, 9] x, float[r, 4] rois, int64[r] b) => (y) { y = RoiAlign (x, rois, b) }",
        sizes={"r": 1}, feeds={"rois": BOXES[:1], "b": [0]}, tflite=Refused("sampling_ratio 0"),
        coreml=Refused("sampling_ratio 0")),
    # blocks
    *(
        Case(f"blocks, {mode}",
            f"""g (float[n, 12, h, w] x) => (y) {{
                a = DepthToSpace <blocksize = 2, mode = "{mode}"> (x)
                b = Abs (a)
                y = SpaceToDepth <blocksize = 2> (b)
            }}""",
            sizes={"n": 2, "h": 3, "w": 5}, tflite=Emits("DEPTH_TO_SPACE", "SPACE_TO_DEPTH"))
        for mode in ("DCR", "CRD")
    ),
    Case("blocks of three",
        """g (float[n, 18, h, 3] x, float[n, 3, 6, w] x1) => (y1, y2) {
            y1 = DepthToSpace <blocksize = 3, mode = "CRD"> (x)
            y2 = SpaceToDepth <blocksize = 2> (x1)
        }""",
        sizes={"n": 2, "h": 2, "w": 4}),
    *(
        Case(f"blocks of {dtype}",
            f"""g ({dtype}[n, 12, h, 3] x, {dtype}[2, 3, 6, 4] x1, {dtype}[n, 3, e, 4] x2) => (y1, y2, y3, y4) {{
                y1 = DepthToSpace <blocksize = 2, mode = "DCR"> (x)
                y2 = DepthToSpace <blocksize = 2, mode = "CRD"> (x)
                y3 = SpaceToDepth <blocksize = 2> (x1)
                y4 = SpaceToDepth <blocksize = 2> (x2)
            }}""",
            sizes={"n": 2, "h": 2, "e": 6})
        for dtype in ("int32", "int16", "bool")
    ),
    *(
        Case(f"blocks of int8, in {name}",
            f"""g (float[1, 8, 3, 4] x) => (y)
                <float scale = {{0.03}}, int8 zero = {{4}}, float scale1 = {{{scale}}}> {{
                a = QuantizeLinear (x, scale, zero)
                b = DequantizeLinear (a, scale, zero)
                c = DepthToSpace <blocksize = 2, mode = "CRD"> (b)
                d = QuantizeLinear (c, scale1, zero)
                y = DequantizeLinear (d, scale1, zero)
            }}""",
            ranges={"x": (-1.5, 1.5)}, tflite=Emits(QUANTIZE=count))
        for name, scale, count in (("one scale", 0.03, 1), ("another", 0.05, 2))
    ),
]
# fmt: on


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test(case: Case, target: str) -> None:
    check(case, target)
