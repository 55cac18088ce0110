"""Slice, Split, Concat, Pad, CenterCropPad: of sizes and limits that are known, free and computed."""

from tests.operators.cases import Case
from tests.operators.running import on_every_target

FAR = 2**63 - 1
MODES = ("constant", "edge", "reflect", "wrap")
PADS = f"({'|'.join(MODES)})"
QUANTIZED = """a = QuantizeLinear([n,4], s![], int8$3); b = DequantizeLinear(a, s![], int8$3)
    NODE; d = QuantizeLinear(c, s![], int8$3); DequantizeLinear(d, s![], int8$3)"""
STEPS = [
    (0, FAR, 1), (1, -1, 1), (-3, FAR, 1), (0, FAR, 2), (1, 4, 2), (0, 2, 1), (-2, -1, 1),
    (FAR, -FAR, -1), (-1, -FAR, -1), (-1, -FAR, -2), (3, 0, -1), (-2, -4, -1), (3, -FAR, -2),
    (-1, 0, -3), (FAR, 1, -2), (0, 100, 1), (-100, 3, 1), (100, -100, -1),
]  # fmt: skip
"""Starts, ends and steps."""

# fmt: off
CASES: dict[str, Case | str] = {
    # Slice
    "slices of a free axis": Case("\n".join(
        f"Slice(x[b,n,2], {{{a}}}, {{{z}}}, {{1}}, {{{step}}})" for a, z, step in STEPS
    ), "b=2 n=5, b=2 n=6"),
    "slices of known axes": """
        Slice(int64 x[4,5,7], {1,-3}, {9223372036854775807,-9223372036854775807}, {0,-1}, {2,-2})
        Slice(int64 x[4,5,7], {-1,0}, {-9223372036854775807,9223372036854775807}, {1,0}, {-1,3})
        Slice(int64 x[4,5,7], {-100,100}, {100,-100}, {1,2}, {1,-3})""",
    "slices of six axes and of two: (-1, -100, -1|3, 0, -2|1, 100, 2|-2, 3, 1)": Case("""
        Slice([2,1,2,1,2,5], {(=-1|3|1|-2)}, {(=-100|0|100|3)}, {-1}, {(=-1|-2|2|1)})
        Slice([n,5], {(=-1|3|1|-2)}, {(=-100|0|100|3)}, {-1}, {(=-1|-2|2|1)})""", "n=3",
        coreml="(=|||! without elements)"),
    "slices of nothing": Case("Slice([2,1,2,1,2,5], {3}, {3}, {-1}); Slice([n,5], {3}, {3}, {-1})",
        "n=3", coreml="! without elements"),
    "slices up with computed limits": Case(
        "Slice(bool x[b,n], int64 s[1], int64 e[1], {1}, {(1|2)})", "b=2 n=9",
        [{"s": [s], "e": [e]} for s, e in ((1, 8), (-7, -1), (2, 5))]),
    "slices down with computed limits": Case(
        "Slice(bool x[b,n], int64 s[1], int64 e[1], {1}, {(-1|-2)})", "b=2 n=9",
        [{"s": [s], "e": [e]} for s, e in ((8, 1), (-1, -7), (5, 2), (-1, 3))]),
    "a table's beginning, as long as the input": Case("""
        s = Shape(x[b,n]); m = Gather(s, {1}); t = Slice([1,16], {0}, m, {1}); Add(x, t)""",
        "b=2 n=3, b=2 n=16"),

    # Split, Concat, Tile
    "splits of a free axis": Case("p, q, r = Split<axis=1, num_outputs=3>([2,n])",
        "n=5, n=6, n=7, n=9, n=11"),
    "splits of (float|int64) in parts fed": Case(
        "(float|int64)[?,2] p, q = Split<axis=0>((float|int64)[6,2], int64 s[2])",
        feeds=[{"s": [5, 1]}, {"s": [1, 5]}]),
    "splits in known parts of a free axis": Case("p, q = Split<axis=-1>([b,n], {2,3})", "b=2 n=5"),
    "concats of booleans and free axes": Case("Concat<axis=-1>(bool x[b,n], bool [b,3], x)",
        "b=2 n=1, b=2 n=4"),
    "tiled as often as is computed": Case("""
        s = Shape<start=0, end=1>([n,3]); r = Concat<axis=0>(s, {1,1}); Tile(![1,4,2], r)""", "n=3"),

    # Pad
    "pads of (float|float16|int64|bool)": Case(
        f'Pad<mode="{PADS}">((float|float16|int64|bool) x[b,3,n,4], {{0,1,2,0,0,2,1,3}})',
        "b=2 n=5, b=1 n=3"),
    "pads with -3": Case(f"""
        Pad<mode="{PADS}">(x[n,2,4,5], {{0,0,(2,1,0,0,3,0|3,-1,0,0,0,2)}}, $-3.0)
        Pad<mode="{PADS}">(z[n,2,h,5], {{0,0,(2,1,0,0,3,0|3,-1,0,0,0,2)}}, $-3.0)""", "n=2 h=4"),
    "pads that cut": Case(f'Pad<mode="{PADS}">(x[b,n], {{0,-1,0,2}})', "b=2 n=6, b=1 n=4"),
    "pads fed": Case(
        f'Pad<mode="{PADS}">(x[n,3,w], int64 p[4], v[], {{2,-2}})', "n=2 w=5",
        [{"p": [1, 2, 3, 0]}, {"p": [0, 0, 0, 0]}]),
    **{f"pads of (float|int64) fed, negative ones too, {mode}": Case(
        f'Pad<mode="{mode}">((float|int64) x[b,n], int64 p[2], , {{-1}})', "b=2 n=5",
        [{"p": pads} for pads in ([1, 2], [0, 3], [-2, 1], [2, -1])],
        tflite="~ Pad value has to be greater" if mode == "constant" else "") for mode in MODES},
    "pads of (float|int64) with a fed value": Case(
        "Pad((float|int64)[b,3], {1,0,2,1}, (float|int64) v[])", "b=2", {"v": 7}),
    "pads by more than there is": 'Pad<mode="(reflect|wrap)">(x[3], {2,2})',
    "pads by far more than there is": 'Pad<mode="(edge|wrap)">(x[1,3], {0,7,0,8})',
    "pads of six axes": Case("Pad([2,1,3,2,2,3], {0,0,1,0,0,0,0,0,1,0,0,1})"),
    "a pad of an image is one operation": Case(
        "Pad([b,3,h,w], {0,0,1,2,0,0,3,4}, $-2.5)", "b=1 h=2 w=2", coreml="= pad"),
    "reflected borders of a free size": Case('Pad<mode="reflect">(x[1,n], {0,0,0,64})', "n=65, n=90",
        tflite="ABS*1 ADD*3 SUB*2 -NEG -CAST"),
    "reflected borders of an image": Case("""
        Pad<mode="reflect">(x[1,2,h,w], {0,0,1,1,0,0,1,1})
        Pad<mode="reflect">(x[1,2,h,w], {0,0,3,2,0,0,3,3})""", "h=4 w=6, h=5 w=4", coreml="pad*2"),
    "repeated borders of an image, once of more than there is": Case("""
        Pad<mode="edge">(x[1,2,h,w], {0,0,1,1,0,0,1,1})
        Pad<mode="edge">(x[1,2,h,w], {0,0,3,2,0,0,3,3})""", "h=1 w=6, h=5 w=1", coreml="pad*1"),
    "reflected by a gather for each axis":
        Case('Pad<mode="reflect">([4,5], {1,1,1,2})', tflite="= GATHER GATHER"),
    "borders of a long signal: (reflect|edge|wrap), (3,2|0,5)": Case(
        'Pad<mode="(reflect|edge|wrap)">([n,3000,2], {0,(=3|0),0,0,(=2|5),0})', "n=2"),
    "cropped and padded at the centre": Case(
        "CenterCropPad<axes=[1,2]>(x[b,h,w], {(6,3|3,6|5,2|4,4)})",
        "b=2 h=4 w=5, b=1 h=7 w=2"),
    "cropped and padded along known axes": Case(
        "CenterCropPad<axes=[-3,2]>([n,5,8,3], {8,5})", "n=2"),

    # integers with scales, and other types
    "types that kernels take: (bool|uint8|int16)": """
        Gather((bool|uint8|int16) x[4]~0:2, {1}); Slice((bool|uint8|int16) x[4]~0:2, {1}, {3})
        y, z = Split((bool|uint8|int16) x[4]~0:2, {2,2})
        Concat<axis=0>((bool|uint8|int16) x[4]~0:2, (bool|uint8|int16) x[4]~0:2)""",
}
for node, made in {
    'c = Pad<mode="edge">(b, {0,1,0,2})': "GATHER", "c = Pad(b, {0,1,0,2})": "PADV2",
    "c = Slice(b, {3,1}, {9,9}, {0,1})": "STRIDED_SLICE", "_e, c = Split<axis=1>(b, {3,1})": "SPLIT_V",
}.items():
    CASES[f"moved as integers: {made}"] = Case(QUANTIZED.replace("NODE", node), "n=5",
        weights={"s": 0.02}, tflite=f"= QUANTIZE {made} DEQUANTIZE")
for node, refused in {
    "Gather(x, {1})": "uint32 uint64", "y, z = Split(x, {2,2})": "uint32 uint64",
    "Slice(x, {1}, {3})": "uint64", "Concat<axis=0>(x, x)": "uint64",
}.items():
    for dtype in ("uint32", "uint64"):
        CASES[f"{dtype}: {node}"] = Case(node.replace("(x", f"({dtype} x[4]", 1),
            tflite=f"! {dtype}" if dtype in refused else "")

test = on_every_target(CASES)
