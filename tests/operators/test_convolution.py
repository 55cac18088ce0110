"""Conv, ConvTranspose, ConvInteger, DeformConv and Col2Im in every form."""

from tests.operators.cases import Case
from tests.operators.running import on_every_target

# fmt: off
CASES: dict[str, Case | str] = {
    # Conv
    "one axis": "Conv<pads=[1,1], strides=[2]>([2,3,9], ![4,3,3], ![4])",
    "one axis, dilated": "Conv<dilations=[3], pads=[4,2]>([1,3,12], ![4,3,3], ![4])",
    "one axis, each channel": "Conv<group=6, pads=[1,1]>([1,6,9], ![6,1,3], ![6])",
    "groups": "Conv<group=2, pads=[1,0,1,1]>([1,4,7,6], ![6,2,3,2], ![6])",
    "groups, dilated": "Conv<group=4, dilations=[2,2]>([1,4,9,9], ![8,1,3,3], ![8])",
    "groups with a channel": "Conv<group=4, strides=[2,1]>([1,4,7,7], ![12,1,3,3], ![12])",
    "uneven pads": "Conv<pads=[0,1,2,0], strides=[2,2]>([1,2,7,8], ![3,2,3,3], ![3])",
    "(SAME_UPPER|SAME_LOWER|VALID)":
        'Conv<auto_pad="(SAME_UPPER|SAME_LOWER|VALID)", strides=[2,3]>([1,2,7,8], ![3,2,4,3], ![3])',
    "three axes": "Conv<pads=[1,0,1,1,1,1], strides=[2,1,2]>([1,2,5,6,7], ![3,2,3,2,3], ![3])",
    "three axes, dilated": "Conv<dilations=[2,1,3]>([1,2,6,6,6], ![3,2,2,2,2], ![3])",
    "three axes, groups": "Conv<group=2>([1,4,4,4,4], ![6,2,2,2,2], ![6])",
    "old systems too": Case("""
        Conv<group=2, strides=[2], pads=[0,2]>([2,6,9], ![4,3,3], ![4])
        Conv<group=4, dilations=[2,1], pads=[1,0,3,2]>([1,4,7,8], ![8,1,3,2], ![8])
        Conv<strides=[2,1,3], pads=[1,0,0,0,2,1]>([1,2,5,6,7], ![3,2,2,3,1], ![3])
        Conv<auto_pad="SAME_LOWER", strides=[3,2]>([1,2,9,8], ![3,2,4,3], ![3])
        Conv<auto_pad="VALID">([1,2,5,8], ![3,2,2,3], ![3])
    """, ios=(15, 17)),
    "free: one axis": Case("Conv<pads=[1,1], strides=[2]>([n,3,l], ![4,3,3])", "n=1 l=9, n=2 l=16"),
    "free: SAME": Case(
        'Conv<auto_pad="SAME_(UPPER|LOWER)", strides=[(1,1|2,2|3,3|2,3)]>(x[n,2,h,w], ![3,2,4,3])',
        "n=1 h=7 w=8, n=2 h=10 w=9, n=2 h=9 w=8, n=2 h=5 w=5"),
    "free: one SAME side": Case(
        'Conv<auto_pad="SAME_LOWER", strides=[2,3]>([n,2,h,8], ![3,2,4,3])', "n=1 h=7, n=1 h=10"),
    "free: pads": Case("Conv<pads=[1,1,1,1], strides=[2,2]>([1,2,h,w], ![3,2,3,3])", "h=7 w=8"),
    "free: three axes": Case(
        "Conv<pads=[1,1,1,1,1,1]>([n,2,d,h,w], ![3,2,2,2,2])", "n=2 d=3 h=4 w=5"),
    "computed weights in (1|2|4) groups": Case(
        "v = Exp([4,(=4|2|1),3,3]); Conv<group=(1|2|4)>([1,4,6,6], v, [4])", tol=1e-4),
    "computed weights, dilated": Case(
        "Conv<dilations=[2,3], pads=[1,0,1,2]>([1,2,9,w], [3,2,3,2], [3])", "w=11", ios=(16, 17)),
    "float16": Case("Conv(float16[1,8,6,6], float16![16,8,3,3])", tflite="TRANSPOSE*2", tol=5e-2),
    "float16, with a bias": Case(
        "(Conv|ConvTranspose)<pads=[1,1,1,1]>(float16 x[n,4,8,8], float16![4,4,3,3], float16![4])",
        "n=2", tol=1e-2),
    "four axes": Case("Conv([1,1,3,3,3,3], ![1,1,2,2,2,2])",
        tflite="! spatial axes", coreml="! 5 axes"),
    "one operation": Case('Conv<auto_pad="SAME_UPPER", strides=[2,2]>([n,2,8,8], ![3,2,3,3], ![3])',
        "n=2", coreml="= conv"),
    "a subtracted constant stays as it is": Case("""
        a = Conv(x[2,3,5,5], w![6,3,1,1]); y = Sub(a, c![6,1,1])
        b = Relu(x); d = Conv(b, w); z = Add(d, c)"""),
    "a border of what becomes channels": """
        a = Pad([1,1,1], {0,0,2,0,0,2}, {-2.0}); b = Transpose<perm=[0,2,1]>(a)
        Conv<pads=[1,1]>(b, ![1,5,2])""",
    "a network of one axis stays images: (1,4,16|n,4,l)": Case("""
        a = Conv<pads=[1,1]>([(1,4,16|n,4,l)], v![4,4,3]); b = Relu(a)
        c = Conv<pads=[1,1]>(b, w![4,4,3]); d = Add(b, c); e = Tanh(d); Conv(e, w)""",
        "n=1 l=16",
        tflite="= (=RESHAPE|EXPAND_DIMS) CONV_2D CONV_2D ADD TANH CONV_2D (=RESHAPE|SQUEEZE)"),

    # ConvTranspose
    "transposed: one axis":
        "ConvTranspose<strides=[2], pads=[1,1], output_padding=[1]>([1,3,5], ![3,4,3], ![4])",
    "transposed: two axes": """ConvTranspose<(strides=[2,2], pads=[1,1,1,1], output_padding=[1,1]
        |strides=[2,3], pads=[0,1,2,0]|output_shape=[10,9], strides=[2,2])>(x[1,3,5,4], ![3,4,3,3], ![4])""",
    "transposed: twice as large":
        "ConvTranspose<strides=[2,2], pads=[1,1,1,1]>([1,3,5,4], ![3,4,4,4], ![4])",
    "transposed: more than there is":
        "ConvTranspose<strides=[3,2], output_padding=[2,1]>([1,3,5,4], ![3,4,2,3], ![4])",
    "transposed: groups":
        "ConvTranspose<group=2, strides=[2,2], pads=[1,1,1,1]>([1,4,5,4], ![4,3,3,3], ![6])",
    "transposed: each channel":
        "ConvTranspose<group=4, strides=[2,2], pads=[1,1,1,1]>([1,4,5,4], ![4,1,4,4], ![4])",
    "transposed: dilated":
        "ConvTranspose<dilations=[2,3], strides=[1,2], pads=[1,0,2,1]>([1,3,5,4], ![3,4,3,2], ![4])",
    "transposed: SAME": """
        ConvTranspose<auto_pad="SAME_(UPPER|LOWER)", strides=[2,3]>(x[1,3,5,4], ![3,4,3,4], ![4])""",
    "transposed: three axes":
        "ConvTranspose<strides=[2,1,2], pads=[1,0,0,1,1,0]>([1,2,3,4,3], ![2,3,3,3,2], ![3])",
    "transposed: three axes, groups":
        "ConvTranspose<group=2, strides=[2,2,2]>([1,4,3,3,3], ![4,1,2,2,2], ![2])",
    "transposed: old systems too": Case("""
        ConvTranspose<strides=[2], pads=[1,0], output_padding=[1]>([1,4,5], ![4,3,3], ![3])
        ConvTranspose<group=2, strides=[2,3], output_padding=[1,2]>([2,4,5,4], ![4,3,3,2], ![6])
        ConvTranspose<dilations=[2,1], strides=[1,2], pads=[2,1,0,1]>([1,2,4,5], ![2,3,3,3], ![3])
        ConvTranspose<output_shape=[10,9], strides=[2,2]>([1,2,4,5], ![2,3,3,3], ![3])
        ConvTranspose<output_shape=[9,11], strides=[2,2]>([1,2,4,5], ![2,3,2,2], ![3])
        ConvTranspose<auto_pad="SAME_LOWER", strides=[1,2]>([1,2,4,5], ![2,3,4,3], ![3])
        ConvTranspose<auto_pad="SAME_UPPER", strides=[2,2]>([1,2,4,5], ![2,3,5,2], ![3])
        ConvTranspose<strides=[2,1,2], pads=[0,1,0,1,1,0]>([1,2,3,4,2], ![2,2,2,3,2], ![2])
    """, ios=(15, 17)),
    "transposed, with an activation": Case(
        "z = ConvTranspose<strides=[2,2], pads=[1,1,1,1]>([n,3,5,4], ![3,4,4,4]); Relu(z)", "n=2",
        tflite="-RELU"),
    "transposed, free: one axis": Case(
        "ConvTranspose<strides=[2], pads=[1,1]>([n,3,l], ![3,4,3])", "n=2 l=5"),
    "transposed, free: twice as large": Case(
        "ConvTranspose<strides=[2,2], pads=[1,1,1,1]>([n,3,h,w], ![3,4,4,4])", "n=2 h=5 w=4"),
    "transposed, free: cut": Case(
        "ConvTranspose<strides=[2,2], pads=[1,0,1,1]>([1,3,h,4], ![3,4,3,3])", "h=5"),
    "transposed, free: groups": Case(
        "ConvTranspose<group=2, strides=[2,2], pads=[1,1,1,1]>([n,4,h,w], ![4,3,3,3])",
        "n=2 h=5 w=4"),
    "transposed, free: SAME": Case(
        'ConvTranspose<auto_pad="SAME_UPPER", strides=[2,3]>([1,3,h,w], ![3,4,3,4])', "h=5 w=4"),
    "transposed, free: three axes": Case(
        "ConvTranspose<strides=[2,1,2]>([n,2,d,h,w], ![2,3,3,3,2])", "n=2 d=3 h=4 w=3"),
    "transposed, free: output padding": Case("""ConvTranspose<strides=[2,3], pads=[1,0,0,1],
        output_padding=[1,2]>([n,2,h,w], ![2,3,3,4], ![3])""", "n=1 h=4 w=5, n=2 h=3 w=7"),
    "transposed, computed weights": Case(
        "v = Abs([3,4,3,3]); ConvTranspose<strides=[2,2]>([1,3,5,5], v)"),
    "transposed, computed weights and bias":
        "ConvTranspose<strides=[2,2]>([1,2,4,4], [2,3,3,3], [3])",
    "transposed, computed weights, old systems":
        Case("ConvTranspose([1,2,4,4], [2,3,3,3], [3])", coreml="! iOS17", ios=(16,)),
    "transposed, float16 in (1|2) groups": Case(
        "ConvTranspose<strides=[2], group=(1|2)>(float16[1,16,5], float16![16,16,6])", tol=5e-2,
        tflite="DEQUANTIZE"),

    # ConvInteger, DeformConv, Col2Im
    "integers of (3|200) channels": """ConvInteger<pads=[1,1,1,1]>(
        uint8[1,(3|200),7,7]~0:256, uint8![4,(3|200),3,3]~0:256, uint8$7, uint8$200)""",
    "DeformConv, (2|n): beyond the image": Case("""
        DeformConv<kernel_shape=[3,3], pads=[1,1,1,1], strides=[2,1]>(
            x[(2|n),4,7,6], ![6,4,3,3], [(2|n),18,4,6]~-5:5, b![6], [(2|n),9,4,6])
        DeformConv<kernel_shape=[3,3], pads=[0,1,1,0], group=2, offset_group=2>(
            x[(2|n),4,7,6], ![6,2,3,3], [(2|n),36,6,5]~-5:5, b![6], [(2|n),18,6,5])
        DeformConv<kernel_shape=[3,3], dilations=[2,1], offset_group=4>(
            x[(2|n),4,7,6], ![6,4,3,3], [(2|n),72,3,4]~-5:5, b![6], [(2|n),36,3,4])
        DeformConv<dilations=[1,2], group=2, offset_group=2, strides=[2,2], pads=[1,0,1,0]>(
            [(2|n),4,5,9], ![6,2,3,2], [(2|n),24,3,4]~-5:5, b, [(2|n),12,3,4])
        """, "n=2", tol=1e-4),
    "Col2Im of (2|n) images": Case("""
        Col2Im([(2|n),18,49], {8,9}, {2,3}); Col2Im<strides=[2,2]>([(2|n),18,16], {8,9}, {2,3})
        Col2Im<(strides=[2,1], pads=[1,0,1,2]|dilations=[1,3], pads=[1,1,1,1])>(
            x[(2|n),18,45], {8,9}, {2,3})""", "n=2"),
    "Col2Im of (float|float16)": Case("""
        Col2Im<strides=[2,3], pads=[0,0,0,1]>((float|float16)[n,18,9], {7,9}, {2,3})
        Col2Im<dilations=[1,2], pads=[1,1,1,1]>((float|float16)[1,12,24], {5,6}, {2,3})
        """, "n=2, n=1", tol=1e-2),
}
for name, weights, attributes, made in (
    ("kernel of the stride", "3,4,2,2", "strides=[2,2]", "CONV_2D DEPTH_TO_SPACE"),
    ("kernel of two strides", "3,4,4,4", "strides=[2,2], pads=[1,1,1,1]",
        "PAD CONV_2D DEPTH_TO_SPACE STRIDED_SLICE"),
    ("pads of a pixel", "3,4,6,6", "strides=[2,2], pads=[2,2,2,2]", "CONV_2D DEPTH_TO_SPACE"),
    ("other pads behind", "3,4,8,8", "strides=[4,4], pads=[5,0,1,7]",
        "PAD CONV_2D DEPTH_TO_SPACE STRIDED_SLICE"),
    ("no stride", "3,4,3,3", "strides=[1,1], pads=[1,1,1,1]", "CONV_2D"),
    ("rows as they are", "3,4,1,4", "strides=[1,2]", "PAD CONV_2D RESHAPE"),
    ("strides that differ", "3,4,4,4", "strides=[2,4], pads=[1,0,1,0]", "TRANSPOSE_CONV"),
    ("a kernel too small", "3,4,1,1", "strides=[2,2]", "TRANSPOSE_CONV"),
):
    for batch in "2n":
        CASES[f"larger pixels: {name}, {batch}"] = Case(
            f"ConvTranspose<{attributes}>([{batch},3,5,4], ![{weights}], ![4])", "n=2",
            tflite=f"= {made}" if batch == "2" else "")

test = on_every_target(CASES)
