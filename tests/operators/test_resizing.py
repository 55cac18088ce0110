"""Resize by every rule; GridSample, AffineGrid, RoiAlign; DepthToSpace and SpaceToDepth."""

import numpy as np

from tests.operators.cases import Case
from tests.operators.running import on_every_target

FREE = "n=2 h=4 w=5, n=1 h=3 w=13, n=1 h=1 w=6"
# fmt: off
COORDINATES = ("coordinate_transformation_mode=\"(half_pixel|half_pixel_symmetric"
               "|pytorch_half_pixel|align_corners|asymmetric)\"")
ROUNDED = 'nearest_mode="(round_prefer_floor|round_prefer_ceil|floor|ceil)"'
QUANTIZED = """a = QuantizeLinear([1,4,5,6], $0.03, int8$3); b = DequantizeLinear(a, $0.03, int8$3)
    c = Resize<mode="MODE">(b, , float{1,1,SCALES})
    d = QuantizeLinear(c, TWO); DequantizeLinear(d, TWO)"""
BOXES = [[1, 2, 14, 12], [0, 0, 22, 18], [-6, -7, 4, 5], [15, 10, 40, 30], [3, 3, 3.5, 3.2],
         [-3, 1, 5, 30]]
HALVES = np.stack(np.meshgrid(*[np.linspace(-1, 1, 5)] * 2), axis=-1)[None]

CASES: dict[str, Case | str] = {
    # known sizes
    "nearest": f"""
        Resize<mode="nearest", {COORDINATES}, {ROUNDED}>(x[1,2,5,7], , , {{1,2,(11,9|4,3|1,14)}})
        Resize<mode="nearest", {COORDINATES}, {ROUNDED}>(z[1,2,5,6], , float{{1,1,(1.7,0.6|2,3)}})""",
    "(linear|cubic)": Case(f"""
        Resize<mode="(linear|cubic)", {COORDINATES}>(x[1,2,5,7], , , {{1,2,(11,9|4,3|1,14|8,1)}})
        Resize<mode="(linear|cubic)", {COORDINATES}>(z[1,2,5,6], , float{{1,1,(1.7,0.6|2,2)}})""",
        ios=(15, 17)),
    "cubic and antialias": """
        Resize<mode="cubic", exclude_outside=(0|1), cubic_coeff_a=-0.5>(x[1,2,7,6], , float{1,1,(2,1.3|0.6,0.8)})
        Resize<mode="cubic", exclude_outside=(0|1), cubic_coeff_a=-0.5>(x[1,2,7,6], , , {1,2,3,9})
        Resize<mode="(cubic|linear)", antialias=1>(x[1,2,7,6], , float{1,1,(2,1.3|0.6,0.8)})
        Resize<mode="(cubic|linear)", antialias=1>(x[1,2,7,6], , , {1,2,3,9})""",
    "antialias of three axes": """Resize<mode="(linear|cubic)", antialias=1, exclude_outside=(0|1)>(
        x[2,3,16,12], , float{1,1,0.4,1.5})""",
    "axes and regions": """
        Resize<mode="(linear|nearest|cubic)", axes=[2,3], extrapolation_value=2.5,
            coordinate_transformation_mode="tf_crop_and_resize">(x[2,3,5,4], {0.1,0.2,1.3,0.8}, , {6,8})
        Resize<mode="(linear|nearest)", axes=[1,2]>(x[2,3,5,4], , , {6,8})
        Resize<mode="linear", axes=[3,2], keep_aspect_ratio_policy="(not_larger|not_smaller)">(
            x[2,3,5,4], , , {6,8})
        Resize<mode="linear", coordinate_transformation_mode="tf_crop_and_resize",
            extrapolation_value=7.0>([1,1,8,8], float{0,0,0.3,-0.2,1,1,1.2,0.8}, , {1,1,5,6})""",
    "any axes and ranks": """
        Resize<mode="linear", axes=[2,0]>(x[2,3,4], , {2.5,1.5})
        Resize<mode="linear", axes=[2,3,4]>([2,2,3,4,2], , {2.0,0.5,3.0})
        Resize<mode="linear", axes=[-1,1]>(x[2,3,4], , , {9,3})
        Resize<mode="(linear|nearest)">([3,5], , {2.0,1.5})
        Resize<mode="(linear|nearest)">([1,2,3,4,3], , {1.0,1.0,2.0,1.5,2.0})
        Resize<mode="nearest">([5], , {2.0})""",
    "float16": Case('Resize<mode="(linear|nearest|cubic)">(float16 x[1,2,5,6], , float{1,1,(2,2|1.7,0.6)})',
        tol=5e-3),
    "(int32|uint8) by nearest": "Resize<mode=\"nearest\">((int32|uint8)[1,2,3,4]~0:250, , float{1,1,(2,2|1.5,2)})",
    "large int32": "Resize(int32[1,1,4,6]~0:1073741824, , float{1,1,1.5,2})",
    "(int32|uint8) blended": Case("Resize<mode=\"linear\">((int32|uint8)[1,2,3,4], , float{1,1,2,2})",
        tflite="! (=int32|uint8)", coreml="! blends"),

    # free sizes
    "free sizes by scales: (nearest|linear|cubic)": Case(f"""
        Resize<mode="(nearest|linear|cubic)", {COORDINATES}>(x[n,3,h,w], , float{{1,1,2,0.6}})
        Resize<mode="(nearest|linear|cubic)">(x[n,3,h,w], , float{{1,1,1.5,2}})""", FREE, tol=2e-5),
    "free sizes by other scales": Case(f"""
        Resize<mode="linear", {COORDINATES}>(x[n,3,h,w], , float{{1,1,1.5,2}})
        Resize<mode="linear", coordinate_transformation_mode="(half_pixel|align_corners|asymmetric)">(
            x[n,3,h,w], , float{{1,1,2,3}})
        Resize(x[n,3,h,w], , float{{1,1,2,3}})
        Resize<coordinate_transformation_mode="asymmetric", {ROUNDED}>(x[n,3,h,w], , float{{1,1,1,2.5}})
        """, FREE, tol=2e-5),
    "sizes of another tensor": Case("""
        s = Shape<start=2>(z[n,4,p,q]); head = Shape<end=2>(x[n,4,h,w]); all = Concat<axis=0>(head, s)
        r = Resize<mode="linear">(x[n,4,h,w], , , all); Add(r, z[n,4,p,q])""",
        "n=2 h=3 w=5 p=7 q=4", tflite="RESIZE_BILINEAR"),
    "sizes fed: (linear|nearest|cubic)": Case('Resize<mode="(linear|nearest|cubic)">([1,2,h,w], , , int64 s[4])',
        "h=5 w=6, h=4 w=7, h=1 w=3", [{"s": [1, 2, 8, 3]}, {"s": [1, 2, 1, 14]}, {"s": [1, 2, 3, 3]}]),
    "sizes fed, old systems": Case('Resize<mode="linear">([1,2,h,w], , , int64 s[4])',
        "h=5 w=6, h=4 w=7, h=1 w=3", [{"s": [1, 2, 8, 3]}, {"s": [1, 2, 1, 14]}, {"s": [1, 2, 3, 3]}],
        ios=(15,)),
    "sizes fed, corners aligned": Case(
        'Resize<mode="linear", coordinate_transformation_mode="align_corners">([1,2,h,w], , , int64 s[4])',
        "h=5 w=6, h=4 w=7, h=1 w=3", [{"s": [1, 2, 8, 3]}, {"s": [1, 2, 1, 14]}, {"s": [1, 2, 3, 3]}]),
    "scales fed": Case('Resize<mode="linear">([1,2,h,6], , s[4])', "h=4, h=9", {"s": [1, 1, 1.7, 2.3]}),
    "antialias of a free size": Case(
        'Resize<mode="linear", antialias=1>([n,1,h,w], , float{1,1,2,2})', "n=1 h=3 w=4",
        tflite="! antialias", coreml="! antialias"),
    "a pyramid keeps its layout": Case("""
        a = Conv<strides=[2,2], pads=[1,1,1,1]>([n,3,h,w], ![4,3,3,3])
        b = Conv<strides=[2,2], pads=[1,1,1,1]>(a, ![4,4,3,3]); c = Add(b, b)
        d = Resize<mode="linear">(c, , float{1,1,2,2}); e = Add(a, d)
        f = Resize(e, , float{1,1,2,2}); Relu(f)""", "n=2 h=8 w=12",
        tflite="TRANSPOSE*2 RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR"),
    "one operation: upsampled (nearest|linear)": Case('Resize<mode="(nearest|linear)">([n,3,h,w], , float{1,1,2,2})',
        "n=1 h=5 w=6", coreml="= upsample_(=nearest_neighbor|bilinear)"),
    "one operation: sized": Case('Resize<mode="linear">([1,3,8,9], , , {1,3,20,11})', coreml="= resize_bilinear"),
    "one operation: floor": Case(
        'Resize<coordinate_transformation_mode="asymmetric", nearest_mode="floor">([1,3,8,9], , float{1,1,2,2})',
        coreml="= upsample_nearest_neighbor", tflite="RESIZE_NEAREST_NEIGHBOR -GATHER"),

    # GridSample, AffineGrid, RoiAlign
    "grids, nearest": Case("""GridSample<mode="nearest", padding_mode="(zeros|border|reflection)",
        align_corners=(0|1)>(x[n,3,5,6], [n,4,7,2]~-2.7:2.7)""", "n=2", tol=5e-5),
    "grids, (linear|cubic)": Case("""GridSample<mode="(linear|cubic)",
        padding_mode="(zeros|border|reflection)", align_corners=(0|1)>(x[n,3,5,6], [n,4,7,2]~-2.7:2.7)""",
        "n=2", tol=1e-4),
    "grids of free images": Case("""
        GridSample<padding_mode="(zeros|reflection)">(x[n,3,h,w], [n,p,q,2]~-2.7:2.7)
        GridSample<mode="nearest", padding_mode="border", align_corners=1>(x[n,3,h,w], [n,p,q,2]~-1.7:1.7)""",
        "n=2 h=5 w=6 p=4 q=7", tol=5e-5),
    "grids of volumes": Case("""
        GridSample<mode="(nearest|linear)", padding_mode="reflection">([2,3,4,5,6], [2,3,4,2,3]~-2.7:2.7)
        GridSample<mode="linear", padding_mode="reflection", align_corners=1>(x[2,2,3,4,5], g[2,3,2,2,3]~-1.7:1.7)
        GridSample<mode="nearest", padding_mode="zeros">(x[2,2,3,4,5], g[2,3,2,2,3]~-1.7:1.7)""", tol=1e-4),
    "grids of free volumes": Case("""
        GridSample<mode="nearest", padding_mode="zeros">([n,2,3,h,w], [n,v,2,2,3]~-1.7:1.7)""",
        "n=2 h=4 w=5 v=3", tol=1e-4),
    "grids half way between pixels": Case('GridSample<mode="nearest">([1,1,4,4], g[1,5,5,2])',
        feeds={"g": HALVES}),
    "spatial transformer": Case("""
        s = Shape([n,2,6,8]); g = AffineGrid<align_corners=1>([n,2,3], s)
        GridSample(x[n,2,6,8], g)""", "n=3", tol=5e-5),
    "affine grids": Case("""
        AffineGrid<align_corners=(0|1)>(t[n,2,3], {2,3,4,5}); AffineGrid([n,3,4], {2,3,4,5,2})""", "n=2"),
    "affine grid of one pixel": Case("AffineGrid<align_corners=1>([n,2,3], {1,3,1,4})", "n=1",
        tflite="! one pixel", coreml="! one pixel"),
    "regions: (2,3,9,11|n,3,h,w)": Case("""RoiAlign<mode="(avg|max)",
        coordinate_transformation_mode="(half_pixel|output_half_pixel)", output_height=4, output_width=2,
        sampling_ratio=3, spatial_scale=0.5>(x[(2,3,9,11|n,3,h,w)], rois[r,4], int64 b[r])""",
        "n=2 h=9 w=11 r=6", {"rois": BOXES, "b": [0, 1, 1, 0, 1, 1]}),
    "regions, as many samples as fit": Case("RoiAlign([1,3,9,9], rois[r,4], int64 b[r])", "r=1",
        {"rois": BOXES[:1], "b": [0]}, tflite="! sampling_ratio 0", coreml="! sampling_ratio 0"),

    # blocks
    "blocks, (DCR|CRD)": Case("""
        a = DepthToSpace<blocksize=2, mode="(DCR|CRD)">([n,12,h,w]); b = Abs(a); SpaceToDepth<blocksize=2>(b)
        """, "n=2 h=3 w=5", tflite="DEPTH_TO_SPACE SPACE_TO_DEPTH"),
    "blocks of three": Case("""
        DepthToSpace<blocksize=3, mode="CRD">([n,18,h,3]); SpaceToDepth<blocksize=2>([n,3,6,w])""",
        "n=2 h=2 w=4"),
    "blocks of (int32|int16|bool)": Case("""
        DepthToSpace<blocksize=2, mode="(DCR|CRD)">((int32|int16|bool)[n,12,h,3])
        SpaceToDepth<blocksize=2>((int32|int16|bool)[2,3,6,4]); SpaceToDepth<blocksize=2>((int32|int16|bool)[n,3,e,4])""",
        "n=2 h=2 e=6"),
    "blocks of int8, in (one scale|another)": Case("""
        a = QuantizeLinear([1,8,3,4], $0.03, int8$4); b = DequantizeLinear(a, $0.03, int8$4)
        c = DepthToSpace<blocksize=2, mode="CRD">(b)
        d = QuantizeLinear(c, $(=0.03|0.05), int8$4); DequantizeLinear(d, $(=0.03|0.05), int8$4)""",
        tflite="QUANTIZE*(=1|2)"),
}
for mode in ("nearest", "linear", "cubic"):
    for scales in ("2,2", "1.6,0.5"):
        for two in ("$0.03, int8$3", "$0.041, int8$-5"):
            text = QUANTIZED.replace("MODE", mode).replace("SCALES", scales).replace("TWO", two)
            exact = mode == "nearest" and "0.03" in two
            CASES[f"int8: {mode} by {scales} to {two}"] = Case(text, tol=1e-5 if exact else 0.0411,
                tflite=f"RESIZE_{'BILINEAR' if mode == 'linear' else 'NEAREST_NEIGHBOR'}"
                if mode != "cubic" and scales == "2,2" else "")
for shape in ("1,4,6,8", "n,4,h,w"):
    for made, attributes in (
        ("NEAREST_NEIGHBOR", 'mode="nearest"'), ("BILINEAR", 'mode="linear"'),
        ("NEAREST_NEIGHBOR", 'coordinate_transformation_mode="asymmetric", nearest_mode="floor"'),
        *(("BILINEAR", f'mode="linear", coordinate_transformation_mode="{how}"')
          for how in ("pytorch_half_pixel", "align_corners", "asymmetric")),
    ):
        CASES[f"one operator: {attributes} of {shape}"] = Case(
            f"float[{'1,4,12,16' if shape[0] == '1' else 'n,4,p,q'}] y = Resize<{attributes}>"
            f"([{shape}], , float{{1,1,2,2}})", "n=1 h=6 w=8",
            tflite=f"RESIZE_{made} -GATHER")

test = on_every_target(CASES)
