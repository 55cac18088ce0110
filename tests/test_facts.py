"""What :mod:`converter.ir.facts` says of operators: held against ONNX's schemas where these say
it, and against what ONNX Runtime computes."""

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import defs, helper, parser

from converter.ir import facts
from converter.ir.model import OPSET

Array = np.ndarray[Any, Any]

SETS = {
    name: frozenset(value)
    for name, value in vars(facts).items()
    if name.isupper() and isinstance(value, (frozenset, dict))
}

SHAPE = (2, 4, 4, 4)


def _rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def _numbers(*shape: int, seed: int = 0) -> Array:
    """Distinct numbers on either side of zero, none whole, most of them small."""
    count = int(np.prod(shape))
    steps = _rng(seed).permutation(count) - count // 2 + 0.5
    return (steps / 8).reshape(shape).astype(np.float32)


def _whole(values: Any, kind: Any = np.int64) -> Array:
    return np.asarray(values, kind)


HELD = {
    "ax0": _whole(1), "ax": _whole([1]), "target": _whole([4, -1]),
    "sizes": _whole([3, 2, 4, 4, 4]), "low": _whole(-2.25, np.float32),
    "high": _whole(1.5, np.float32),
    "lens": _whole([1, 2, 2, 1]), "pick": _whole([1, 0, 1, 1], bool), "i": _whole([3, 0, 0]),
    "places": _rng().integers(0, 4, (2, 2, 4, 4)), "pairs": _whole([[1, 0], [0, 3]]),
    "starts": _whole([3, 0]), "ends": _whole([-9, 3]), "axes": _whole([1, 2]),
    "steps": _whole([-1, 2]), "repeats": _whole([1, 2, 1, 3]),
    "like": _whole([7], np.int32),
    "crop": _whole([3, 6]), "image": _whole([5, 5]), "block": _whole([2, 2]),
    "grid": _rng().uniform(-1.2, 1.2, (2, 3, 3, 2)).astype(np.float32),
    "spots": _rng().permutation(512)[:128].reshape(SHAPE),
    "hop": _whole(4), "window": np.hanning(8).astype(np.float32), "slope": _numbers(4, 1, 1),
    "rois": np.array([[0, 0, 0, 3, 3], [1, 1, 0, 2, 3]], np.float32),
    "areas": np.array([[0, 0, 3, 3], [1, 0.5, 2, 3]], np.float32), "batch": _whole([0, 1]),
    "k": _whole([2]), "scores": np.abs(_numbers(1, 2, 6)), "most": _whole([3]),
}  # fmt: skip

WINDOW = "kernel_shape = [2, 2], pads = [1, 0, 0, 1]"
SHAPES = {
    "Squeeze": (2, 1, 16, 1), "Col2Im": (2, 8, 16), "DFT": (2, 8, 1), "STFT": (2, 32, 1),
    "NonMaxSuppression": (1, 6, 4),
}  # fmt: skip
CALLS = {
    "Flatten": "y = Flatten(x)", "Reshape": "y = Reshape(x, target)",
    "Squeeze": "y = Squeeze(x, ax)", "Unsqueeze": "y = Unsqueeze(x, ax)",
    "Transpose": "y = Transpose<perm = [2, 0, 3, 1]>(x)",
    "DepthToSpace": "y = DepthToSpace<blocksize = 2>(x)",
    "SpaceToDepth": "y = SpaceToDepth<blocksize = 2>(x)",
    "ReverseSequence": "y = ReverseSequence<time_axis = 0, batch_axis = 1>(x, lens)",
    "Compress": "y = Compress<axis = 1>(x, pick)", "Expand": "y = Expand(x, sizes)",
    "Gather": "y = Gather<axis = 2>(x, i)",
    "GatherElements": "y = GatherElements<axis = 1>(x, places)",
    "GatherND": "y = GatherND(x, pairs)", "Slice": "y = Slice(x, starts, ends, axes, steps)",
    "Split": "y, z = Split<axis = 1, num_outputs = 2>(x)", "Tile": "y = Tile(x, repeats)",
    "MaxPool": f"y = MaxPool<{WINDOW}>(x)", "LpPool": f"y = LpPool<{WINDOW}>(x)",
    "AveragePool": f"y = AveragePool<{WINDOW}, count_include_pad = 1>(x)",
    "ReduceMax": "y = ReduceMax(x, ax)", "ReduceMin": "y = ReduceMin(x, ax)",
    "ReduceMean": "y = ReduceMean(x, ax)", "ReduceSum": "y = ReduceSum(x, ax)",
    "Cast": "y = Cast<to = 6>(x)", "CastLike": "y = CastLike(x, like)",
    "Clip": "y = Clip(x, low, high)", "PRelu": "y = PRelu(x, slope)",
    "CenterCropPad": "y = CenterCropPad<axes = [2, 3]>(x, crop)",
    "Col2Im": "y = Col2Im(x, image, block)", "CumSum": "y = CumSum(x, ax0)",
    "GridSample": "y = GridSample(x, grid)", "STFT": "y = STFT(x, hop, window)",
    "MaxUnpool": "y = MaxUnpool<kernel_shape = [2, 2], strides = [2, 2]>(x, spots)",
    "MaxRoiPool": "y = MaxRoiPool<pooled_shape = [2, 2]>(x, rois)",
    "RoiAlign": 'y = RoiAlign<mode = "max", output_height = 2>(x, areas, batch)',
    "NonMaxSuppression": "y = NonMaxSuppression(x, scores, most)",
    "TopK": "z, y = TopK(x, k)", "Unique": "y = Unique(x)",
}  # fmt: skip
"""How an operator is called where it isn't with ``x`` alone."""


def run(call: str, **feeds: Array) -> list[Array]:
    """What a node gives of these inputs, and of those of :data:`HELD` that it names."""
    return session(call, feeds).run(None, _fed(call, feeds))


def _fed(call: str, feeds: dict[str, Array]) -> dict[str, Array]:
    return {name: feeds.get(name, HELD.get(name)) for name in parser.parse_node(call).input if name}


def session(call: str, feeds: dict[str, Array]) -> onnxruntime.InferenceSession:
    """The node alone, in the IR's opset, without optimizations."""
    node = parser.parse_node(call)
    kind = helper.np_dtype_to_tensor_dtype
    inputs = [
        helper.make_tensor_value_info(name, kind(array.dtype), array.shape)
        for name, array in _fed(call, feeds).items()
    ]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output]
    graph = helper.make_graph([node], "one", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def given(op: str, seed: int = 0) -> Array:
    """Numbers of a shape that the operator takes."""
    return _numbers(*SHAPES.get(op, SHAPE), seed=seed)


def of(op: str, x: Array) -> list[Array]:
    """What the operator gives of ``x``."""
    return run(CALLS.get(op, f"y = {op}(x)"), x=x)


def each(name: str) -> Any:
    """A test for each operator of a fact."""
    return pytest.mark.parametrize("op", sorted(SETS[name]))


@pytest.mark.parametrize("name", sorted(SETS.keys() - {"TRAINING"}))
def test_operators_of_the_opset(name: str) -> None:
    assert SETS[name]
    for op in SETS[name]:
        assert not defs.get_schema(op, OPSET, "").deprecated, op


def schemas() -> list[defs.OpSchema]:
    """Those of the IR's opset."""
    names = {schema.name for schema in defs.get_all_schemas() if schema.domain == ""}
    found = [defs.get_schema(name, OPSET, "") for name in names if defs.has(name, OPSET, "")]
    return [schema for schema in found if not schema.deprecated]


def test_whole_families() -> None:
    """What ONNX's schemas tell of a whole family, all of it and nothing else."""
    names = {schema.name for schema in schemas()}
    assert {name for name in names if name.startswith("Reduce")} == facts.REDUCTIONS
    training = "ai.onnx.preview.training"
    assert {s.name for s in defs.get_all_schemas() if s.domain == training} == facts.TRAINING
    both_ways = {s.name for s in schemas() if "multidirectional" in s.doc.lower()}
    assert both_ways == facts.BROADCASTS
    assert "unidirectional" in defs.get_schema("PRelu", OPSET, "").doc


def test_sequences_and_strings() -> None:
    """By the types of inputs and outputs; Identity, If, Loop and the like take everything."""
    everything = {"Identity", "If", "Loop"}
    taken = {s.name: _types(s.inputs) for s in schemas() if s.name not in everything}
    made = {s.name: _types(s.outputs) for s in schemas() if s.name not in everything}
    lists = {name for name, types in made.items() if _are_lists(types)}
    assert lists == facts.GIVES_SEQUENCES
    assert lists | {name for name, types in taken.items() if _are_lists(types)} == facts.SEQUENCES
    text = {name for name, types in taken.items() if types == {"tensor(string)"}}
    assert text == facts.STRINGS - {"TfIdfVectorizer"}
    assert "tensor(string)" in taken["TfIdfVectorizer"]


def _types(formal: Any) -> set[str]:
    return {kind for each in formal for kind in each.types}


def _are_lists(types: set[str]) -> bool:
    return any(kind.startswith(("seq(", "optional(")) for kind in types)


@each("MOVES")
def test_moves(op: str) -> None:
    """Every output is the input's elements at places that are the same for any input."""
    x, other = given(op), given(op, 1)
    where = np.argsort(x.ravel())
    for made, again in zip(of(op, x), of(op, other), strict=True):
        places = where[np.searchsorted(x.ravel()[where], made)]
        assert (x.ravel()[places] == made).all()
        assert (other.ravel()[places] == again).all()


@each("REARRANGES")
def test_rearranges(op: str) -> None:
    x = given(op)
    (made,) = of(op, x)
    assert sorted(made.ravel()) == sorted(x.ravel())
    if op in facts.RESHAPES:
        assert (made.ravel() == x.ravel()).all()
        assert made.shape != x.shape
    elif op != "Identity":
        assert (made.ravel() != x.ravel()).any()


@each("EXTREMES")
def test_extremes(op: str) -> None:
    x = given(op)
    (made,) = of(op, x)
    assert np.isin(made, x).all()
    assert (x.min() if op == "ReduceMin" else x.max()) in made


@each("MEANS")
def test_means(op: str) -> None:
    x = given(op)
    (made,) = of(op, x)
    assert x.min() < made.min() and made.max() < x.max()
    assert made.size < x.size or op == "AveragePool"
    (alike,) = of(op, np.full_like(x, 3))
    assert (alike <= 3).all() and (alike == 3).any()
    assert (alike == 3).all() or op == "AveragePool"  # which counts zeros here
    (uncounted,) = run(f"y = AveragePool<{WINDOW}>(x)", x=np.full_like(x, 3))
    assert (uncounted == 3).all()
    if op == "ReduceMean":
        (cut,) = of(op, _whole([[-1, -2], [1, 2]]))
        assert cut.ravel().tolist() == [-1, 1]


# -- element by element ------------------------------------------------------------------

_KINDS = {
    "Not": bool, "And": bool, "Or": bool, "Xor": bool, "BitwiseNot": np.int32,
    "BitwiseAnd": np.int32, "BitwiseOr": np.int32, "BitwiseXor": np.int32, "Mod": np.int32,
    "BitShift": np.uint8,
}  # fmt: skip


def _typed(op: str, x: Array) -> Array:
    kind = _KINDS.get(op, np.float32)
    if kind is np.float32:
        return x
    return np.asarray(np.abs(x) > 1 if kind is bool else np.abs(np.rint(x)) % 7 + 1).astype(kind)


@each("UNARY")
def test_unary(op: str) -> None:
    x = _typed(op, given(op))
    order = _rng().permutation(x.size)
    (made,) = of(op, x)
    assert made.shape == x.shape
    (moved,) = of(op, x.ravel()[order].reshape(x.shape))
    np.testing.assert_allclose(moved.ravel(), made.ravel()[order], rtol=1e-5, atol=1e-6)
    (alone,) = of(op, x.ravel()[5:6])
    np.testing.assert_allclose(alone, made.ravel()[5:6], rtol=1e-5, atol=1e-6)


@each("BROADCASTS")
def test_broadcasts(op: str) -> None:
    """Small operands give what stretched ones do, whichever is small, and places don't count."""
    attributes = '<direction = "LEFT">' if op == "BitShift" else ""
    operands = [_typed(op, _numbers(*shape)) for shape in ((4, 1), (3,))]
    names = "a, b"
    if op == "Where":
        operands, names = [operands[0] > 0, operands[1], _numbers(2, 1, 1)], "a, b, c"
    if op == "Pow":
        operands[0] = np.abs(operands[0])
    call = f"y = {op}{attributes}({names})"
    letters = dict(zip("abc", operands, strict=False))
    (made,) = run(call, **letters)
    whole = dict(zip(letters, np.broadcast_arrays(*operands), strict=True))
    whole = {name: np.ascontiguousarray(array) for name, array in whole.items()}
    order = _rng().permutation(made.size)
    flat = {name: array.ravel()[order] for name, array in whole.items()}
    for feeds, expected in ((whole, made), (flat, made.ravel()[order])):
        np.testing.assert_allclose(run(call, **feeds)[0], expected, rtol=1e-5)
    assert made.shape == np.broadcast_shapes(*(array.shape for array in operands))


@each("REDUCTIONS")
def test_reductions(op: str) -> None:
    """One number of each row, in whatever order that is."""
    x = np.abs(_numbers(3, 8)) / 4
    call = f"y = {op}<keepdims = 0>(x, ax)"
    (made,) = run(call, x=x)
    assert made.shape == (3,)
    np.testing.assert_allclose(run(call, x=x[:, _rng().permutation(8)])[0], made, rtol=1e-5)


@each("POOLS")
def test_pools(op: str) -> None:
    """A channel's numbers hang on that channel of that image alone."""
    x = given(op)
    (made,) = of(op, x)
    changed = x.copy()
    changed[1, 2] += 5
    (other,) = of(op, changed)
    same = (made == other).all(axis=(2, 3))
    assert not same[1, 2] and same.sum() == same.size - 1


@each("CHANNELS_FIRST")
def test_channels_first(op: str) -> None:
    said = defs.get_schema(op, OPSET, "").inputs[0].description
    letters = said.replace(",", "").replace("x", "").replace(" ", "")
    assert "NCHW" in letters, said


@each("MATRIX_PRODUCTS")
def test_matrix_products(op: str) -> None:
    """Linear in the second input, and the third is added."""
    image = op.startswith("Conv")
    x = _numbers(1, 3, 4, 4) if image else _numbers(4, 3)
    w = _numbers(3, 3, 2, 2) if image else _numbers(3, 3)
    (made,) = run(f"y = {op}(x, w)", x=x, w=w)
    np.testing.assert_allclose(run(f"y = {op}(x, w)", x=x, w=w * 2)[0], made * 2, rtol=1e-5)
    if op == "MatMul":
        assert len(defs.get_schema(op, OPSET, "").inputs) == 2
        return
    b = _numbers(3)
    (shifted,) = run(f"y = {op}(x, w, b)", x=x, w=w, b=b)
    by_channel = b[:, None, None] if image else b
    np.testing.assert_allclose(shifted, made + by_channel, rtol=1e-5, atol=1e-4)


def test_recurrent_and_integer_products() -> None:
    for op in facts.RECURRENT:
        assert [i.name for i in defs.get_schema(op, OPSET, "").inputs][:3] == ["X", "W", "R"]
    eight = {"tensor(int8)", "tensor(uint8)"}
    for op in facts.INTEGER_PRODUCTS:
        assert set(defs.get_schema(op, OPSET, "").inputs[0].types) == eight, op
    a, b = _whole([[-3, 5]], np.int8), _whole([[7], [2]], np.int8)
    assert run("y = MatMulInteger(a, b)", a=a, b=b)[0].tolist() == [[-11]]


def _close(one: Array, other: Array) -> None:
    np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


@each("LINEAR")
def test_linear(op: str) -> None:
    x, other = given(op), given(op, 1)
    for plain, scaled, second, both in zip(
        of(op, x), of(op, x * -1.5), of(op, other), of(op, x + other), strict=True
    ):
        assert plain.any()
        _close(scaled, plain * -1.5)
        _close(both, plain + second)


@each("HOMOGENEOUS")
def test_homogeneous(op: str) -> None:
    x = given(op)
    for plain, scaled, negated in zip(of(op, x), of(op, x * 2.5), of(op, -x), strict=True):
        assert plain.any()
        _close(scaled, plain * 2.5)
        assert op in facts.LINEAR or (np.abs(negated + plain) > 1e-3).any()


def _wild(op: str) -> Array:
    """Numbers of all sizes, zeros and infinities among them."""
    x = given(op)
    x *= 10.0 ** _rng().integers(-6, 6, x.shape)
    x.ravel()[:4] = 0.0, -0.0, np.inf, -np.inf
    return x.astype(np.float32)


@each("NOT_NEGATIVE")
def test_not_negative(op: str) -> None:
    for x in (_wild(op), given(op)):
        (made,) = of(op, x)
        assert made.max() > 0 or np.isnan(made).any()
        assert not (made < 0).any()


@each("BOUNDED")
def test_bounded(op: str) -> None:
    low, high = facts.BOUNDED[op]
    assert low <= 0 <= high
    assert {low, high} <= {-1.0, 0.0, 1.0}  # which every float type has
    for x in (_wild(op), given(op)):
        (made,) = of(op, x)
        known = made[~np.isnan(made)]
        assert low <= known.min() and known.max() <= high
        assert known.min() < low + 0.2 and known.max() > high - 0.2


@each("INDEXES")
def test_indexes(op: str) -> None:
    (made,) = of(op, given(op))
    assert made.dtype == np.int64
    assert made.size and (made >= 0).all()


@each("CHOOSES")
def test_chooses(op: str) -> None:
    """Other values of the same shape: other places, or another number of them."""
    x = given(op)
    if op == "Compress":
        first, second = (run(CALLS[op], x=x, pick=np.arange(4) < n)[0] for n in (1, 3))
    elif op == "NonMaxSuppression":
        first, second = (run(CALLS[op], x=x, scores=HELD["scores"] * n)[0] for n in (1, -1))
    else:
        first, second = of(op, x)[-1], of(op, np.maximum(-x, 0))[-1]
    assert first.shape != second.shape or (first != second).any()
    assert (first.shape != second.shape) == (op != "TopK")


@each("RANDOM")
def test_random(op: str) -> None:
    """Two runs of one session differ."""
    attributes = {"RandomNormal": "shape = [64]", "RandomUniform": "shape = [64]", "Multinomial":
                  "sample_size = 64"}  # fmt: skip
    inner = attributes.get(op, "")
    call = f"y = {op}{f'<{inner}>' if inner else ''}({'' if 'shape' in inner else 'x'})"
    feeds = {} if "shape" in inner else {"x": np.full((2, 64), 0.5, np.float32)}
    alive = session(call, feeds)
    first, second = (alive.run(None, feeds)[0] for _ in range(2))
    assert (first != second).any()
