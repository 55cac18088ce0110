"""Resize by every rule."""

import pytest

from tests.operators.cases import Case, Emits, Only, Refused, graph
from tests.operators.running import TARGETS, check

FREE = [{"n": 2, "h": 4, "w": 5}, {"n": 1, "h": 3, "w": 13}, {"n": 1, "h": 1, "w": 6}]
COORDINATES = [
    f'coordinate_transformation_mode = "{mode}"'
    for mode in (
        "half_pixel",
        "half_pixel_symmetric",
        "pytorch_half_pixel",
        "align_corners",
        "asymmetric",
    )
]
ROUNDED = [
    f'nearest_mode = "{mode}"'
    for mode in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
]


# fmt: off
CASES: list[Case] = [
    # known sizes
    *(
        Case(f"nearest: sizes {sizes}",
            graph(
                "float[1, 2, 5, 7] x",
                [
                    f'Resize <mode = "nearest", {coordinates}, {rounded}> (x, "", "", sizes)'
                    for coordinates in COORDINATES
                    for rounded in ROUNDED
                ],
                f"int64[4] sizes = {{1, 2, {sizes}}}",
            ))
        for sizes in ("11, 9", "4, 3", "1, 14")
    ),
    *(
        Case(f"nearest: scales {scales}",
            graph(
                "float[1, 2, 5, 6] x",
                [
                    f'Resize <mode = "nearest", {coordinates}, {rounded}> (x, "", scales)'
                    for coordinates in COORDINATES
                    for rounded in ROUNDED
                ],
                f"float[4] scales = {{1, 1, {scales}}}",
            ))
        for scales in ("1.7, 0.6", "2, 3")
    ),
    *(
        Case(f"{mode}: sizes {sizes}",
            graph(
                "float[1, 2, 5, 7] x",
                [f'Resize <mode = "{mode}", {how}> (x, "", "", sizes)' for how in COORDINATES],
                f"int64[4] sizes = {{1, 2, {sizes}}}",
            ),
            ios=(15, 17))
        for mode in ("linear", "cubic")
        for sizes in ("11, 9", "4, 3", "1, 14", "8, 1")
    ),
    *(
        Case(f"{mode}: scales {scales}",
            graph(
                "float[1, 2, 5, 6] x",
                [f'Resize <mode = "{mode}", {how}> (x, "", scales)' for how in COORDINATES],
                f"float[4] scales = {{1, 1, {scales}}}",
            ),
            ios=(15, 17))
        for mode in ("linear", "cubic")
        for scales in ("1.7, 0.6", "2, 2")
    ),
    *(
        Case(f"cubic and antialias: {scales}",
            f"""g (float[1, 2, 7, 6] x) => (y1, y2, y3, y4, y5, y6, y7, y8)
                <float[4] scales = {{1, 1, {scales}}}, int64[4] sizes = {{1, 2, 3, 9}}> {{
                y1 = Resize <mode = "cubic", exclude_outside = 0, cubic_coeff_a = -0.5> (x, "", scales)
                y2 = Resize <mode = "cubic", exclude_outside = 1, cubic_coeff_a = -0.5> (x, "", scales)
                y3 = Resize <mode = "cubic", exclude_outside = 0, cubic_coeff_a = -0.5> (x, "", "", sizes)
                y4 = Resize <mode = "cubic", exclude_outside = 1, cubic_coeff_a = -0.5> (x, "", "", sizes)
                y5 = Resize <mode = "cubic", antialias = 1> (x, "", scales)
                y6 = Resize <mode = "linear", antialias = 1> (x, "", scales)
                y7 = Resize <mode = "cubic", antialias = 1> (x, "", "", sizes)
                y8 = Resize <mode = "linear", antialias = 1> (x, "", "", sizes)
            }}""")
        for scales in ("2, 1.3", "0.6, 0.8")
    ),
    Case("antialias of three axes",
        graph(
            "float[2, 3, 16, 12] x",
            [
                f'Resize <mode = "{mode}", antialias = 1, exclude_outside = {exclude_outside}> (x, "", scales)'
                for mode in ("linear", "cubic")
                for exclude_outside in (0, 1)
            ],
            "float[4] scales = {1, 1, 0.4, 1.5}",
        )),
    Case("axes and regions",
        """g (float[2, 3, 5, 4] x, float[1, 1, 8, 8] x1) => (y1, y2, y3, y4, y5, y6, y7, y8)
            <float[4] roi = {0.1, 0.2, 1.3, 0.8}, int64[2] sizes = {6, 8},
            float[8] roi1 = {0, 0, 0.3, -0.2, 1, 1, 1.2, 0.8}, int64[4] sizes1 = {1, 1, 5, 6}> {
            y1 = Resize <mode = "linear", axes = [2, 3], extrapolation_value = 2.5, coordinate_transformation_mode = "tf_crop_and_resize"> (x, roi, "", sizes)
            y2 = Resize <mode = "nearest", axes = [2, 3], extrapolation_value = 2.5, coordinate_transformation_mode = "tf_crop_and_resize"> (x, roi, "", sizes)
            y3 = Resize <mode = "cubic", axes = [2, 3], extrapolation_value = 2.5, coordinate_transformation_mode = "tf_crop_and_resize"> (x, roi, "", sizes)
            y4 = Resize <mode = "linear", axes = [1, 2]> (x, "", "", sizes)
            y5 = Resize <mode = "nearest", axes = [1, 2]> (x, "", "", sizes)
            y6 = Resize <mode = "linear", axes = [3, 2], keep_aspect_ratio_policy = "not_larger"> (x, "", "", sizes)
            y7 = Resize <mode = "linear", axes = [3, 2], keep_aspect_ratio_policy = "not_smaller"> (x, "", "", sizes)
            y8 = Resize <mode = "linear", coordinate_transformation_mode = "tf_crop_and_resize", extrapolation_value = 7.0> (x1, roi1, "", sizes1)
        }"""),
    Case("any axes and ranks",
        """g (float[2, 3, 4] x, float[2, 2, 3, 4, 2] x1, float[3, 5] x2, float[1, 2, 3, 4, 3] x3,
            float[5] x4) => (y1, y2, y3, y4, y5, y6, y7, y8)
            <float[2] scales = {2.5, 1.5}, float[3] scales1 = {2.0, 0.5, 3.0},
            int64[2] sizes = {9, 3}, float[2] scales2 = {2.0, 1.5},
            float[5] scales3 = {1.0, 1.0, 2.0, 1.5, 2.0}, float[1] scales4 = {2.0}> {
            y1 = Resize <mode = "linear", axes = [2, 0]> (x, "", scales)
            y2 = Resize <mode = "linear", axes = [2, 3, 4]> (x1, "", scales1)
            y3 = Resize <mode = "linear", axes = [-1, 1]> (x, "", "", sizes)
            y4 = Resize <mode = "linear"> (x2, "", scales2)
            y5 = Resize <mode = "nearest"> (x2, "", scales2)
            y6 = Resize <mode = "linear"> (x3, "", scales3)
            y7 = Resize <mode = "nearest"> (x3, "", scales3)
            y8 = Resize <mode = "nearest"> (x4, "", scales4)
        }"""),
    *(
        Case(f"float16: {scales}",
            f"""g (float16[1, 2, 5, 6] x) => (y1, y2, y3) <float[4] scales = {{1, 1, {scales}}}> {{
                y1 = Resize <mode = "linear"> (x, "", scales)
                y2 = Resize <mode = "nearest"> (x, "", scales)
                y3 = Resize <mode = "cubic"> (x, "", scales)
            }}""",
            tol=5e-3)
        for scales in ("2, 2", "1.7, 0.6")
    ),
    *(
        Case(f"{dtype} by nearest",
            f"""g ({dtype}[1, 2, 3, 4] x) => (y1, y2)
                <float[4] scales = {{1, 1, 2, 2}}, float[4] scales1 = {{1, 1, 1.5, 2}}> {{
                y1 = Resize <mode = "nearest"> (x, "", scales)
                y2 = Resize <mode = "nearest"> (x, "", scales1)
            }}""",
            ranges={"x": (0, 250)})
        for dtype in ("int32", "uint8")
    ),
    Case("large int32",
        'g (int32[1, 1, 4, 6] x) => (y) <float[4] scales = {1, 1, 1.5, 2}> { y = Resize (x, "", scales) }',
        ranges={"x": (0, 1073741824)}),
    *(
        Case(f"{dtype} blended",
            f"""g ({dtype}[1, 2, 3, 4] x) => (y) <float[4] scales = {{1, 1, 2, 2}}> {{
                y = Resize <mode = "linear"> (x, "", scales)
            }}""",
            tflite=Refused(dtype), coreml=Refused("interpolates"))
        for dtype in ("int32", "uint8")
    ),
    # free sizes
    *(
        Case(f"free sizes by scales: {mode}",
            graph(
                "float[n, 3, h, w] x",
                [
                    *(f'Resize <mode = "{mode}", {how}> (x, "", scales)' for how in COORDINATES),
                    f'Resize <mode = "{mode}"> (x, "", scales1)',
                ],
                "float[4] scales = {1, 1, 2, 0.6}, float[4] scales1 = {1, 1, 1.5, 2}",
            ),
            sizes=FREE, tol=2e-5)
        for mode in ("nearest", "linear", "cubic")
    ),
    Case("free sizes by other scales",
        graph(
            "float[n, 3, h, w] x",
            [
                *(f'Resize <mode = "linear", {how}> (x, "", scales)' for how in COORDINATES),
                'Resize <mode = "linear", coordinate_transformation_mode = "half_pixel"> (x, "", scales1)',
                'Resize <mode = "linear", coordinate_transformation_mode = "align_corners"> (x, "", scales1)',
                'Resize <mode = "linear", coordinate_transformation_mode = "asymmetric"> (x, "", scales1)',
                'Resize (x, "", scales1)',
                *(
                    f'Resize <coordinate_transformation_mode = "asymmetric", {how}> (x, "", scales2)'
                    for how in ROUNDED
                ),
            ],
            "float[4] scales = {1, 1, 1.5, 2}, float[4] scales1 = {1, 1, 2, 3}, float[4] scales2 = {1, 1, 1, 2.5}",
        ),
        sizes=FREE, tol=2e-5),
    Case("sizes of another tensor",
        """g (float[n, 4, p, q] z, float[n, 4, h, w] x) => (y) {
            s = Shape <start = 2> (z)
            head = Shape <end = 2> (x)
            all = Concat <axis = 0> (head, s)
            r = Resize <mode = "linear"> (x, "", "", all)
            y = Add (r, z)
        }""",
        sizes={"n": 2, "h": 3, "w": 5, "p": 7, "q": 4}, tflite=Emits("RESIZE_BILINEAR")),
    *(
        Case(f"sizes fed: {mode}",
            f'g (float[1, 2, h, w] x, int64[4] s) => (y) {{ y = Resize <mode = "{mode}"> (x, "", "", s) }}',
            sizes=[{"h": 5, "w": 6}, {"h": 4, "w": 7}, {"h": 1, "w": 3}],
            feeds=[{"s": [1, 2, 8, 3]}, {"s": [1, 2, 1, 14]}, {"s": [1, 2, 3, 3]}])
        for mode in ("linear", "nearest", "cubic")
    ),
    Case("sizes fed, old systems",
        'g (float[1, 2, h, w] x, int64[4] s) => (y) { y = Resize <mode = "linear"> (x, "", "", s) }',
        sizes=[{"h": 5, "w": 6}, {"h": 4, "w": 7}, {"h": 1, "w": 3}],
        feeds=[{"s": [1, 2, 8, 3]}, {"s": [1, 2, 1, 14]}, {"s": [1, 2, 3, 3]}], ios=(15,)),
    Case("sizes fed, corners aligned",
        """g (float[1, 2, h, w] x, int64[4] s) => (y) {
            y = Resize <mode = "linear", coordinate_transformation_mode = "align_corners"> (x, "", "", s)
        }""",
        sizes=[{"h": 5, "w": 6}, {"h": 4, "w": 7}, {"h": 1, "w": 3}],
        feeds=[{"s": [1, 2, 8, 3]}, {"s": [1, 2, 1, 14]}, {"s": [1, 2, 3, 3]}]),
    Case("scales fed", 'g (float[1, 2, h, 6] x, float[4] s) => (y) { y = Resize <mode = "linear"> (x, "", s) }',
        sizes=[{"h": 4}, {"h": 9}], feeds={"s": [1, 1, 1.7, 2.3]}),
    Case("antialias of a free size",
        """g (float[n, 1, h, w] x) => (y) <float[4] scales = {1, 1, 2, 2}> {
            y = Resize <mode = "linear", antialias = 1> (x, "", scales)
        }""",
        sizes={"n": 1, "h": 3, "w": 4}, tflite=Refused("antialias"), coreml=Refused("antialias")),
    Case("a pyramid keeps its layout",
        """g (float[n, 3, h, w] x) => (y)
            <float[4, 3, 3, 3] w, float[4, 4, 3, 3] w1, float[4] scales = {1, 1, 2, 2}> {
            a = Conv <strides = [2, 2], pads = [1, 1, 1, 1]> (x, w)
            b = Conv <strides = [2, 2], pads = [1, 1, 1, 1]> (a, w1)
            c = Add (b, b)
            d = Resize <mode = "linear"> (c, "", scales)
            e = Add (a, d)
            f = Resize (e, "", scales)
            y = Relu (f)
        }""",
        sizes={"n": 2, "h": 8, "w": 12},
        tflite=Emits("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR", TRANSPOSE=2)),
    *(
        Case(f"one operation: upsampled {mode}",
            f"""g (float[n, 3, h, w] x) => (y) <float[4] scales = {{1, 1, 2, 2}}> {{
                y = Resize <mode = "{mode}"> (x, "", scales)
            }}""",
            sizes={"n": 1, "h": 5, "w": 6}, coreml=Only(made))
        for mode, made in (("nearest", "upsample_nearest_neighbor"), ("linear", "upsample_bilinear"))
    ),
    Case("one operation: sized",
        """g (float[1, 3, 8, 9] x) => (y) <int64[4] sizes = {1, 3, 20, 11}> {
            y = Resize <mode = "linear"> (x, "", "", sizes)
        }""",
        coreml=Only("resize_bilinear")),
    Case("one operation: floor",
        """g (float[1, 3, 8, 9] x) => (y) <float[4] scales = {1, 1, 2, 2}> {
            y = Resize <coordinate_transformation_mode = "asymmetric", nearest_mode = "floor"> (x, "", scales)
        }""",
        tflite=Emits("RESIZE_NEAREST_NEIGHBOR", GATHER=0), coreml=Only("upsample_nearest_neighbor")),
    *(
        Case(f"int8: {mode} by {scales} to {scale}",
            f"""g (float[1, 4, 5, 6] x) => (y)
                <float scale = {{0.03}}, int8 zero = {{3}}, float[4] scales = {{1, 1, {scales}}},
                float scale1 = {{{scale}}}, int8 zero1 = {{{zero}}}> {{
                a = QuantizeLinear (x, scale, zero)
                b = DequantizeLinear (a, scale, zero)
                c = Resize <mode = "{mode}"> (b, "", scales)
                d = QuantizeLinear (c, scale1, zero1)
                y = DequantizeLinear (d, scale1, zero1)
            }}""",
            tflite=Emits(kind) if kind and scales == "2, 2" else None,
            tol=1e-5 if (mode, scale) == ("nearest", 0.03) else 0.0411)
        for mode, kind in (("nearest", "RESIZE_NEAREST_NEIGHBOR"), ("linear", "RESIZE_BILINEAR"), ("cubic", ""))
        for scales in ("2, 2", "1.6, 0.5")
        for scale, zero in ((0.03, 3), (0.041, -5))
    ),
    *(
        Case(f"one operator: {attributes} of {x}",
            f"""g (float[{x}] x) => (float[{y}] y) <float[4] scales = {{1, 1, 2, 2}}> {{
                y = Resize <{attributes}> (x, "", scales)
            }}""",
            sizes={"n": 1, "h": 6, "w": 8}, tflite=Emits(kind, GATHER=0))
        for x, y in (("1, 4, 6, 8", "1, 4, 12, 16"), ("n, 4, h, w", "n, 4, p, q"))
        for kind, attributes in (
            ("RESIZE_NEAREST_NEIGHBOR", 'mode = "nearest"'),
            ("RESIZE_BILINEAR", 'mode = "linear"'),
            (
                "RESIZE_NEAREST_NEIGHBOR",
                'coordinate_transformation_mode = "asymmetric", nearest_mode = "floor"',
            ),
            *(("RESIZE_BILINEAR", f'mode = "linear", {how}') for how in COORDINATES[2:]),
        )
    ),
]
# fmt: on


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test(case: Case, target: str) -> None:
    check(case, target)
