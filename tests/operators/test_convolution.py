"""Conv, ConvTranspose, ConvInteger, DeformConv and Col2Im in every form."""

import pytest

from tests.operators.cases import Case, Emits, Only, Refused, graph
from tests.operators.running import TARGETS, check

FORMS = [
    # the name, x, w, attributes
    ("one axis", "2, 3, 9", "4, 3, 3", "pads = [1, 1], strides = [2]"),
    ("one axis, dilated", "1, 3, 12", "4, 3, 3", "dilations = [3], pads = [4, 2]"),
    ("one axis, each channel", "1, 6, 9", "6, 1, 3", "group = 6, pads = [1, 1]"),
    ("groups", "1, 4, 7, 6", "6, 2, 3, 2", "group = 2, pads = [1, 0, 1, 1]"),
    ("groups, dilated", "1, 4, 9, 9", "8, 1, 3, 3", "group = 4, dilations = [2, 2]"),
    ("groups with a channel", "1, 4, 7, 7", "12, 1, 3, 3", "group = 4, strides = [2, 1]"),
    ("uneven pads", "1, 2, 7, 8", "3, 2, 3, 3", "pads = [0, 1, 2, 0], strides = [2, 2]"),
    ("SAME_UPPER", "1, 2, 7, 8", "3, 2, 4, 3", 'auto_pad = "SAME_UPPER", strides = [2, 3]'),
    ("SAME_LOWER", "1, 2, 7, 8", "3, 2, 4, 3", 'auto_pad = "SAME_LOWER", strides = [2, 3]'),
    ("VALID", "1, 2, 7, 8", "3, 2, 4, 3", 'auto_pad = "VALID", strides = [2, 3]'),
    ("three axes", "1, 2, 5, 6, 7", "3, 2, 3, 2, 3", "pads = [1, 0, 1, 1, 1, 1], strides = [2, 1, 2]"),
    ("three axes, dilated", "1, 2, 6, 6, 6", "3, 2, 2, 2, 2", "dilations = [2, 1, 3]"),
    ("three axes, groups", "1, 4, 4, 4, 4", "6, 2, 2, 2, 2", "group = 2"),
]  # fmt: skip
TRANSPOSED = [
    # and the bias' size
    ("one axis", "1, 3, 5", "3, 4, 3", 4, "strides = [2], pads = [1, 1], output_padding = [1]"),
    ("padded output", "1, 3, 5, 4", "3, 4, 3, 3", 4, "strides = [2, 2], pads = [1, 1, 1, 1], output_padding = [1, 1]"),
    ("uneven pads", "1, 3, 5, 4", "3, 4, 3, 3", 4, "strides = [2, 3], pads = [0, 1, 2, 0]"),
    ("of a shape", "1, 3, 5, 4", "3, 4, 3, 3", 4, "output_shape = [10, 9], strides = [2, 2]"),
    ("twice as large", "1, 3, 5, 4", "3, 4, 4, 4", 4, "strides = [2, 2], pads = [1, 1, 1, 1]"),
    ("more than there is", "1, 3, 5, 4", "3, 4, 2, 3", 4, "strides = [3, 2], output_padding = [2, 1]"),
    ("groups", "1, 4, 5, 4", "4, 3, 3, 3", 6, "group = 2, strides = [2, 2], pads = [1, 1, 1, 1]"),
    ("each channel", "1, 4, 5, 4", "4, 1, 4, 4", 4, "group = 4, strides = [2, 2], pads = [1, 1, 1, 1]"),
    ("dilated", "1, 3, 5, 4", "3, 4, 3, 2", 4, "dilations = [2, 3], strides = [1, 2], pads = [1, 0, 2, 1]"),
    ("SAME_UPPER", "1, 3, 5, 4", "3, 4, 3, 4", 4, 'auto_pad = "SAME_UPPER", strides = [2, 3]'),
    ("SAME_LOWER", "1, 3, 5, 4", "3, 4, 3, 4", 4, 'auto_pad = "SAME_LOWER", strides = [2, 3]'),
    ("three axes", "1, 2, 3, 4, 3", "2, 3, 3, 3, 2", 3, "strides = [2, 1, 2], pads = [1, 0, 0, 1, 1, 0]"),
    ("three axes, groups", "1, 4, 3, 3, 3", "4, 1, 2, 2, 2", 2, "group = 2, strides = [2, 2, 2]"),
]  # fmt: skip
FREE = [
    # and the sizes
    ("one axis", "n, 3, l", "3, 4, 3", "strides = [2], pads = [1, 1]", {"n": 2, "l": 5}),
    ("twice as large", "n, 3, h, w", "3, 4, 4, 4", "strides = [2, 2], pads = [1, 1, 1, 1]", {"n": 2, "h": 5, "w": 4}),
    ("cut", "1, 3, h, 4", "3, 4, 3, 3", "strides = [2, 2], pads = [1, 0, 1, 1]", {"h": 5}),
    ("groups", "n, 4, h, w", "4, 3, 3, 3", "group = 2, strides = [2, 2], pads = [1, 1, 1, 1]", {"n": 2, "h": 5, "w": 4}),
    ("SAME", "1, 3, h, w", "3, 4, 3, 4", 'auto_pad = "SAME_UPPER", strides = [2, 3]', {"h": 5, "w": 4}),
    ("three axes", "n, 2, d, h, w", "2, 3, 3, 3, 2", "strides = [2, 1, 2]", {"n": 2, "d": 3, "h": 4, "w": 3}),
]  # fmt: skip
LARGER_PIXELS = [
    # the name, w, attributes, and what is emitted
    ("kernel of the stride", "3, 4, 2, 2", "strides = [2, 2]", "CONV_2D DEPTH_TO_SPACE"),
    ("kernel of two strides", "3, 4, 4, 4", "strides = [2, 2], pads = [1, 1, 1, 1]", "PAD CONV_2D DEPTH_TO_SPACE STRIDED_SLICE"),
    ("pads of a pixel", "3, 4, 6, 6", "strides = [2, 2], pads = [2, 2, 2, 2]", "CONV_2D DEPTH_TO_SPACE"),
    ("other pads behind", "3, 4, 8, 8", "strides = [4, 4], pads = [5, 0, 1, 7]", "PAD CONV_2D DEPTH_TO_SPACE STRIDED_SLICE"),
    ("no stride", "3, 4, 3, 3", "strides = [1, 1], pads = [1, 1, 1, 1]", "CONV_2D"),
    ("rows as they are", "3, 4, 1, 4", "strides = [1, 2]", "PAD CONV_2D RESHAPE"),
    ("strides that differ", "3, 4, 4, 4", "strides = [2, 4], pads = [1, 0, 1, 0]", "TRANSPOSE_CONV"),
    ("a kernel too small", "3, 4, 1, 1", "strides = [2, 2]", "TRANSPOSE_CONV"),
]  # fmt: skip
OLD_SYSTEMS = [
    ("one axis", "2, 6, 9", "4, 3, 3", "group = 2, strides = [2], pads = [0, 2]"),
    ("groups", "1, 4, 7, 8", "8, 1, 3, 2", "group = 4, dilations = [2, 1], pads = [1, 0, 3, 2]"),
    ("three axes", "1, 2, 5, 6, 7", "3, 2, 2, 3, 1", "strides = [2, 1, 3], pads = [1, 0, 0, 0, 2, 1]"),
    ("SAME", "1, 2, 9, 8", "3, 2, 4, 3", 'auto_pad = "SAME_LOWER", strides = [3, 2]'),
    ("VALID", "1, 2, 5, 8", "3, 2, 2, 3", 'auto_pad = "VALID"'),
]  # fmt: skip
OLD_SYSTEMS_TRANSPOSED = [
    ("one axis", "1, 4, 5", "4, 3, 3", 3, "strides = [2], pads = [1, 0], output_padding = [1]"),
    ("groups", "2, 4, 5, 4", "4, 3, 3, 2", 6, "group = 2, strides = [2, 3], output_padding = [1, 2]"),
    ("dilated", "1, 2, 4, 5", "2, 3, 3, 3", 3, "dilations = [2, 1], strides = [1, 2], pads = [2, 1, 0, 1]"),
    ("of a shape", "1, 2, 4, 5", "2, 3, 3, 3", 3, "output_shape = [10, 9], strides = [2, 2]"),
    ("of another shape", "1, 2, 4, 5", "2, 3, 2, 2", 3, "output_shape = [9, 11], strides = [2, 2]"),
    ("SAME_LOWER", "1, 2, 4, 5", "2, 3, 4, 3", 3, 'auto_pad = "SAME_LOWER", strides = [1, 2]'),
    ("SAME_UPPER", "1, 2, 4, 5", "2, 3, 5, 2", 3, 'auto_pad = "SAME_UPPER", strides = [2, 2]'),
    ("three axes", "1, 2, 3, 4, 2", "2, 2, 2, 3, 2", 2, "strides = [2, 1, 2], pads = [0, 1, 0, 1, 1, 0]"),
]  # fmt: skip

# fmt: off
CASES: list[Case] = [
    # Conv
    *(
        Case(name,
            f"""g (float[{x}] x) => (y) <float[{w}] w, float[{w.split(",")[0]}] b> {{
                y = Conv <{attributes}> (x, w, b)
            }}""")
        for name, x, w, attributes in FORMS
    ),
    *(
        Case(f"old systems too: {name}",
            f"""g (float[{x}] x) => (y) <float[{w}] w, float[{w.split(",")[0]}] b> {{
                y = Conv <{attributes}> (x, w, b)
            }}""",
            ios=(15, 17))
        for name, x, w, attributes in OLD_SYSTEMS
    ),
    Case("free: one axis",
        "g (float[n, 3, l] x) => (y) <float[4, 3, 3] w> { y = Conv <pads = [1, 1], strides = [2]> (x, w) }",
        sizes=[{"n": 1, "l": 9}, {"n": 2, "l": 16}]),
    Case("free: SAME",
        graph(
            "float[n, 2, h, w] x",
            [
                f'Conv <auto_pad = "SAME_{auto_pad}", strides = [{strides}]> (x, w)'
                for auto_pad in ("UPPER", "LOWER")
                for strides in ("1,1", "2,2", "3,3", "2,3")
            ],
            "float[3, 2, 4, 3] w",
        ),
        sizes=[
            {"n": 1, "h": 7, "w": 8},
            {"n": 2, "h": 10, "w": 9},
            {"n": 2, "h": 9, "w": 8},
            {"n": 2, "h": 5, "w": 5},
        ]),
    Case("free: one SAME side",
        """g (float[n, 2, h, 8] x) => (y) <float[3, 2, 4, 3] w> {
            y = Conv <auto_pad = "SAME_LOWER", strides = [2, 3]> (x, w)
        }""",
        sizes=[{"n": 1, "h": 7}, {"n": 1, "h": 10}]),
    Case("free: pads",
        """g (float[1, 2, h, w] x) => (y) <float[3, 2, 3, 3] w> {
            y = Conv <pads = [1, 1, 1, 1], strides = [2, 2]> (x, w)
        }""",
        sizes={"h": 7, "w": 8}),
    Case("free: three axes",
        "g (float[n, 2, d, h, w] x) => (y) <float[3, 2, 2, 2, 2] w> { y = Conv <pads = [1, 1, 1, 1, 1, 1]> (x, w) }",
        sizes={"n": 2, "d": 3, "h": 4, "w": 5}),
    *(
        Case(f"computed weights in {group} groups",
            f"""g (float[4, {size}, 3, 3] x, float[1, 4, 6, 6] x1, float[4] b) => (y) {{
                v = Exp (x)
                y = Conv <group = {group}> (x1, v, b)
            }}""",
            tol=1e-4)
        for group, size in ((1, 4), (2, 2), (4, 1))
    ),
    Case("computed weights, dilated",
        """g (float[1, 2, 9, w] x, float[3, 2, 3, 2] w, float[3] b) => (y) {
            y = Conv <dilations = [2, 3], pads = [1, 0, 1, 2]> (x, w, b)
        }""",
        sizes={"w": 11}, ios=(16, 17)),
    Case("float16", "g (float16[1, 8, 6, 6] x) => (y) <float16[16, 8, 3, 3] w> { y = Conv (x, w) }",
        tflite=Emits(TRANSPOSE=2), tol=5e-2),
    Case("float16, with a bias",
        """g (float16[n, 4, 8, 8] x) => (y1, y2) <float16[4, 4, 3, 3] w, float16[4] b> {
            y1 = Conv <pads = [1, 1, 1, 1]> (x, w, b)
            y2 = ConvTranspose <pads = [1, 1, 1, 1]> (x, w, b)
        }""",
        sizes={"n": 2}, tol=1e-2),
    Case("four axes", "g (float[1, 1, 3, 3, 3, 3] x) => (y) <float[1, 1, 2, 2, 2, 2] w> { y = Conv (x, w) }",
        tflite=Refused("spatial axes"), coreml=Refused("5 axes")),
    Case("one operation",
        """g (float[n, 2, 8, 8] x) => (y) <float[3, 2, 3, 3] w, float[3] b> {
            y = Conv <auto_pad = "SAME_UPPER", strides = [2, 2]> (x, w, b)
        }""",
        sizes={"n": 2}, coreml=Only("conv")),
    Case("a subtracted constant stays as it is",
        """g (float[2, 3, 5, 5] x) => (y, z) <float[6, 3, 1, 1] w, float[6, 1, 1] c> {
            a = Conv (x, w)
            y = Sub (a, c)
            b = Relu (x)
            d = Conv (b, w)
            z = Add (d, c)
        }"""),
    Case("a border of what becomes channels",
        """g (float[1, 1, 1] x) => (y)
            <float[1, 5, 2] w, int64[6] pads = {0, 0, 2, 0, 0, 2}, float[1] value = {-2.0}> {
            a = Pad (x, pads, value)
            b = Transpose <perm = [0, 2, 1]> (a)
            y = Conv <pads = [1, 1]> (b, w)
        }"""),
    *(
        Case(f"a network of one axis stays images: {shape}",
            f"""g (float[{shape}] x) => (y) <float[4, 4, 3] v, float[4, 4, 3] w> {{
                a = Conv <pads = [1, 1]> (x, v)
                b = Relu (a)
                c = Conv <pads = [1, 1]> (b, w)
                d = Add (b, c)
                e = Tanh (d)
                y = Conv (e, w)
            }}""",
            sizes={"n": 1, "l": 16}, tflite=Only(first, "CONV_2D", "CONV_2D", "ADD", "TANH", "CONV_2D", last))
        for shape, first, last in (("1,4,16", "RESHAPE", "RESHAPE"), ("n,4,l", "EXPAND_DIMS", "SQUEEZE"))
    ),
    # ConvTranspose
    *(
        Case(f"transposed: {name}",
            f"""g (float[{x}] x) => (y) <float[{w}] w, float[{bias}] b> {{
                y = ConvTranspose <{attributes}> (x, w, b)
            }}""")
        for name, x, w, bias, attributes in TRANSPOSED
    ),
    *(
        Case(f"transposed: old systems too: {name}",
            f"""g (float[{x}] x) => (y) <float[{w}] w, float[{bias}] b> {{
                y = ConvTranspose <{attributes}> (x, w, b)
            }}""",
            ios=(15, 17))
        for name, x, w, bias, attributes in OLD_SYSTEMS_TRANSPOSED
    ),
    Case("transposed, with an activation",
        """g (float[n, 3, 5, 4] x) => (y) <float[3, 4, 4, 4] w> {
            z = ConvTranspose <strides = [2, 2], pads = [1, 1, 1, 1]> (x, w)
            y = Relu (z)
        }""",
        sizes={"n": 2}, tflite=Emits(RELU=0)),
    *(
        Case(f"transposed, free: {name}",
            f"g (float[{x}] x) => (y) <float[{w}] w> {{ y = ConvTranspose <{attributes}> (x, w) }}",
            sizes=sizes)
        for name, x, w, attributes, sizes in FREE
    ),
    Case("transposed, free: output padding",
        """g (float[n, 2, h, w] x) => (y) <float[2, 3, 3, 4] w, float[3] b> {
            y = ConvTranspose <strides = [2, 3], pads = [1, 0, 0, 1], output_padding = [1, 2]> (x, w, b)
        }""",
        sizes=[{"n": 1, "h": 4, "w": 5}, {"n": 2, "h": 3, "w": 7}]),
    Case("transposed, computed weights",
        """g (float[3, 4, 3, 3] x, float[1, 3, 5, 5] x1) => (y) {
            v = Abs (x)
            y = ConvTranspose <strides = [2, 2]> (x1, v)
        }"""),
    Case("transposed, computed weights and bias",
        """g (float[1, 2, 4, 4] x, float[2, 3, 3, 3] w, float[3] b) => (y) {
            y = ConvTranspose <strides = [2, 2]> (x, w, b)
        }"""),
    Case("transposed, computed weights, old systems",
        "g (float[1, 2, 4, 4] x, float[2, 3, 3, 3] w, float[3] b) => (y) { y = ConvTranspose (x, w, b) }",
        coreml=Refused("iOS17"), ios=(16,)),
    *(
        Case(f"transposed, float16 in {group} groups",
            f"""g (float16[1, 16, 5] x) => (y) <float16[16, 16, 6] w> {{
                y = ConvTranspose <strides = [2], group = {group}> (x, w)
            }}""",
            tflite=Emits("DEQUANTIZE"), tol=5e-2)
        for group in (1, 2)
    ),
    # ConvInteger, DeformConv, Col2Im
    *(
        Case(f"integers of {channels} channels",
            f"""g (uint8[1, {channels}, 7, 7] x) => (y)
                <uint8[4, {channels}, 3, 3] w, uint8 x_zero = {{7}}, uint8 w_zero = {{200}}> {{
                y = ConvInteger <pads = [1, 1, 1, 1]> (x, w, x_zero, w_zero)
            }}""",
            ranges={"x": (0, 256), "w": (0, 256)})
        for channels in (3, 200)
    ),
    *(
        Case(f"DeformConv, {batch}: beyond the image",
            f"""g (float[{batch}, 4, 7, 6] x, float[{batch}, 18, 4, 6] offset, float[{batch}, 9, 4, 6] mask,
                float[{batch}, 36, 6, 5] offset1, float[{batch}, 18, 6, 5] mask1, float[{batch}, 72, 3, 4] offset2,
                float[{batch}, 36, 3, 4] mask2, float[{batch}, 4, 5, 9] x1, float[{batch}, 24, 3, 4] offset3,
                float[{batch}, 12, 3, 4] mask3) => (y1, y2, y3, y4)
                <float[6, 4, 3, 3] w, float[6] b, float[6, 2, 3, 3] w1, float[6, 4, 3, 3] w2,
                float[6, 2, 3, 2] w3> {{
                y1 = DeformConv <kernel_shape = [3, 3], pads = [1, 1, 1, 1], strides = [2, 1]> (x, w, offset, b, mask)
                y2 = DeformConv <kernel_shape = [3, 3], pads = [0, 1, 1, 0], group = 2, offset_group = 2> (x, w1, offset1, b, mask1)
                y3 = DeformConv <kernel_shape = [3, 3], dilations = [2, 1], offset_group = 4> (x, w2, offset2, b, mask2)
                y4 = DeformConv <dilations = [1, 2], group = 2, offset_group = 2, strides = [2, 2], pads = [1, 0, 1, 0]> (x1, w3, offset3, b, mask3)
            }}""",
            sizes={"n": 2},
            ranges={"offset": (-5, 5), "offset1": (-5, 5), "offset2": (-5, 5), "offset3": (-5, 5)}, tol=1e-4)
        for batch in ("2", "n")
    ),
    *(
        Case(f"Col2Im of {batch} images",
            f"""g (float[{batch}, 18, 49] x1, float[{batch}, 18, 16] x2, float[{batch}, 18, 45] x) => (y1, y2, y3, y4)
                <int64[2] image_shape = {{8, 9}}, int64[2] block_shape = {{2, 3}}> {{
                y1 = Col2Im (x1, image_shape, block_shape)
                y2 = Col2Im <strides = [2, 2]> (x2, image_shape, block_shape)
                y3 = Col2Im <strides = [2, 1], pads = [1, 0, 1, 2]> (x, image_shape, block_shape)
                y4 = Col2Im <dilations = [1, 3], pads = [1, 1, 1, 1]> (x, image_shape, block_shape)
            }}""",
            sizes={"n": 2})
        for batch in ("2", "n")
    ),
    *(
        Case(f"Col2Im of {dtype}",
            f"""g ({dtype}[n, 18, 9] x, {dtype}[1, 12, 24] x1) => (y1, y2)
                <int64[2] image_shape = {{7, 9}}, int64[2] block_shape = {{2, 3}},
                int64[2] image_shape1 = {{5, 6}}> {{
                y1 = Col2Im <strides = [2, 3], pads = [0, 0, 0, 1]> (x, image_shape, block_shape)
                y2 = Col2Im <dilations = [1, 2], pads = [1, 1, 1, 1]> (x1, image_shape1, block_shape)
            }}""",
            sizes=[{"n": 2}, {"n": 1}], tol=1e-2)
        for dtype in ("float", "float16")
    ),
    *(
        Case(f"larger pixels: {name}, {batch}",
            f"""g (float[{batch}, 3, 5, 4] x) => (y) <float[{w}] w, float[4] b> {{
                y = ConvTranspose <{attributes}> (x, w, b)
            }}""",
            sizes={"n": 2}, tflite=Only(*made.split()) if batch == "2" else None)
        for name, w, attributes, made in LARGER_PIXELS
        for batch in "2n"
    ),
]
# fmt: on


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test(case: Case, target: str) -> None:
    check(case, target)
