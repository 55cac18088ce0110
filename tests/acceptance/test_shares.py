"""What a report says of shares and sizes, held against the files themselves.

Files are read here by other means than the product's: LiteRT's interpreter, onnx's protobufs,
coremltools' own loader. A layer is known by how many weights it has.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from modelyard.containers.coreml import coremltools
from tests.acceptance.cli import Said, command, written

LAYERS = {"conv0": (16, 3, 3, 3), "conv1": (24, 16, 3, 3), "conv2": (32, 24, 3, 3), "fc": (80, 32)}
PLACES = {"conv0": 17 * 17, "conv1": 9 * 9, "conv2": 5 * 5, "fc": 1}
MACS = {int(np.prod(shape)): PLACES[n] * int(np.prod(shape)) for n, shape in LAYERS.items()}
"""Multiply-adds of a layer by how many weights it has."""

STORED = ("int8-weights", "int4-weights", "palettized", "fp16+int8-weights")
RUNS = {
    "usual": ["--to", "onnx,tflite,coreml,tensorrt,tensorrt-rtx", "--precision", "fp32,fp16,int8"],
    "dynamic": ["--to", "onnx,tflite", "--precision", "int8-dynamic"],
    "sixteen": ["--to", "tflite", "--precision", "int16x8"],
    "stored": ["--to", "onnx,coreml", "--coreml-target", "iOS18", "--precision", ",".join(STORED)],
}


NET = """net (float[batch, 3, 17, 17] x) => (float[batch, 80] y) {
    [conv0] p = Conv<pads = [1, 1, 1, 1]>(x, conv0) [relu0] a = Relu(p)
    [conv1] q = Conv<pads = [1, 1, 1, 1], strides = [2, 2]>(a, conv1) [relu1] b = Relu(q)
    [conv2] r = Conv<pads = [1, 1, 1, 1], strides = [2, 2]>(b, conv2) [relu2] c = Relu(r)
    [mean] mean = GlobalAveragePool(c) [flat] flat = Flatten(mean)
    [fc] y = Gemm<transB = 1>(flat, fc) }"""


def _net(path: Path, *, scale: float = 1.0) -> Path:
    rng, weights = np.random.default_rng(0), {}
    for name, shape in LAYERS.items():
        values = scale * rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))
        weights[name] = values.astype(np.float32)
    rows = rng.standard_normal((16, 3, 17, 17)).astype(np.float32)
    np.savez(path.with_suffix(".npz"), x=rows)
    return written(path, NET, **weights)


def _convert(model: Path, out: Path, *options: str, code: int = 0) -> Said:
    line = ("convert", model, "--samples", model.with_suffix(".npz"), "--out", out, "--no-bench")
    return command(*line, *options, code=code)


def _artifacts(out: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((out / "report.json").read_text())["artifacts"]
    return found


# -- counting ------------------------------------------------------------------------------


def _tflite(path: Path) -> Iterator[tuple[int, str]]:
    """Weights and type of each layer, as LiteRT lists its operators."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    plain = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    interpreter = Interpreter(str(path), experimental_op_resolver_type=plain)
    tensors = {item["index"]: item for item in interpreter.get_tensor_details()}
    for op in interpreter._get_ops_details():
        if op["op_name"] in ("CONV_2D", "FULLY_CONNECTED"):
            x, weights = (tensors[index] for index in op["inputs"][:2])
            types = np.dtype(x["dtype"]).name, np.dtype(weights["dtype"]).name
            named = {("float32", "int8"): "int8-dynamic", ("int16", "int8"): "int16x8"}
            yield int(np.prod(weights["shape"])), named.get(types, types[0])


def _onnx(path: Path) -> Iterator[tuple[int, str]]:
    model = onnx.shape_inference.infer_shapes(onnx.load(path))
    makers = {name: node for node in model.graph.node for name in node.output}
    held = {tensor.name: tensor for tensor in model.graph.initializer}
    types = {v.name: v.type.tensor_type.elem_type for v in model.graph.value_info}
    types |= {v.name: v.type.tensor_type.elem_type for v in model.graph.output}

    def back(name: str) -> list[str]:
        """What a weight is made by, and its constant."""
        steps = []
        while name not in held:
            steps.append(makers[name].op_type)
            at = 1 if steps[-1] == "GatherElements" else 0  # the indices, and not the tables
            name = makers[name].input[at]
        return [*steps, name]

    for node in model.graph.node:
        if node.op_type in ("Conv", "Gemm", "MatMul", "MatMulInteger", "ConvInteger"):
            *steps, weight = back(node.input[1])
            integers = "DequantizeLinear" in steps and node.input[0] in makers
            if node.op_type.endswith("Integer"):
                kind = "int8-dynamic"
            elif integers and makers[node.input[0]].op_type == "DequantizeLinear":
                kind = "int8"
            else:
                kind = helper.tensor_dtype_to_np_dtype(types[node.output[0]]).name
            yield int(np.prod(held[weight].dims)), kind


def _coreml(path: Path) -> Iterator[tuple[int, str]]:
    library = coremltools()
    from coremltools.converters.mil.frontend.milproto.load import load
    from coremltools.converters.mil.mil import types

    model = library.models.MLModel(str(path), skip_model_load=True)
    spec = model.get_spec()
    program = load(spec, spec.specificationVersion, model.weights_dir)
    for op in program.functions["main"].operations:
        if op.op_type in ("conv", "linear", "matmul"):
            x, weight = (op.x, op.y) if op.op_type == "matmul" else (op.x, op.weight)
            integers = x.op is not None and x.op.op_type == "dequantize"
            stored = weight.op.op_type.startswith("constexpr")
            kind = "int8" if integers and stored else types.nptype_from_builtin(x.dtype)
            name = kind if isinstance(kind, str) else np.dtype(kind).name
            yield int(np.prod(weight.shape)), name


def _engine(path: Path) -> Iterator[tuple[int, str]]:
    """Of the network that an engine was built from, layers by their nodes' names."""
    sizes = {name: int(np.prod(shape)) for name, shape in LAYERS.items()}
    for layer in json.loads(path.with_name("engine.json").read_text())["layers"]:
        if layer["kind"] in ("CONVOLUTION", "MATRIX_MULTIPLY"):
            yield sizes[layer["nodes"][0]], layer["type"]


READERS: dict[str, Callable[[Path], Iterable[tuple[int, str]]]] = {
    "tflite": _tflite, "onnx": _onnx, "tensorrt": _onnx, "coreml": _coreml, "tensorrt-rtx": _engine
}  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A run's output; one layer of the network stays float32 in each."""
    folder = tmp_path_factory.mktemp("shares")
    model = _net(folder / "net.onnx")

    def run(name: str) -> Path:
        out = folder / name
        if not out.exists():
            options = ["--keep-float", "conv1", "--min-cosine", "0.9", *RUNS[name]]
            _convert(model, out, *options)
        return out

    return run


@pytest.mark.slow
@pytest.mark.parametrize("run", RUNS)
def test_shares_are_those_of_the_files(made: Callable[[str], Path], run: str) -> None:
    out = made(run)
    for item in _artifacts(out):
        counts: Counter[str] = Counter()
        layers = list(READERS[item["target"]](out / item["path"]))
        assert sorted(size for size, _ in layers) == sorted(MACS)
        for size, kind in layers:
            counts[kind] += MACS[size]
        title = item["target"], item["precision"]
        shares = {kind: count / sum(MACS.values()) for kind, count in counts.items()}
        assert item["computes"] == pytest.approx(shares), title
        if item["precision"] == "fp32":
            assert item["lowered_share"] is None and item["size_ratio"] is None
            continue
        plain = shares.get("float32", 0.0)
        assert item["lowered_share"] == pytest.approx(1 - plain), title
        (said,) = (line for line in item["decisions"] if "% of the multiply-adds are " in line)
        assert float(said.split("%")[0]) == pytest.approx(100 * max(shares.values()), abs=0.06)


def _bytes_of(path: Path) -> tuple[int, int]:
    """Bytes of a file's weights, and of those in integers or float16, by its own format."""
    if path.suffix == ".onnx":
        tensors = onnx.load(path).graph.initializer
        found = [(array.dtype, array.nbytes) for array in map(numpy_helper.to_array, tensors)]
    else:
        from ai_edge_litert import schema_py_generated as schema

        model = schema.Model.GetRootAs(path.read_bytes(), 0)
        graph = model.Subgraphs(0)
        numbers = {0: np.float32, 1: np.float16, 2: np.int32, 4: np.int64, 9: np.int8}
        sizes = {
            graph.Tensors(i).Buffer(): (
                np.dtype(numbers[graph.Tensors(i).Type()]),
                model.Buffers(graph.Tensors(i).Buffer()).DataLength(),
            )
            for i in range(graph.TensorsLength())
        }
        found = list(sizes.values())
    kept = [(dtype, size) for dtype, size in found if dtype not in (np.int32, np.int64)]
    return sum(s for _, s in kept), sum(s for dtype, s in kept if dtype != np.float32)


@pytest.mark.slow
@pytest.mark.parametrize("run", ["usual", "dynamic", "stored"])
def test_bytes_are_those_of_the_files(made: Callable[[str], Path], run: str) -> None:
    out = made(run)
    items = _artifacts(out)
    plain = {item["target"]: item for item in items if item["precision"] == "fp32"}
    for item in items:
        path = out / item["path"]
        if item["precision"] != "fp32" and path.suffix in (".onnx", ".tflite"):
            whole, lower = _bytes_of(path)
            if item["precision"] != "fp16+int8-weights":  # whose float16 isn't what was asked for
                assert item["stored_share"] == pytest.approx(lower / whole)
            told = Counter(item["stored"]) - Counter(int32=1 << 40, int64=1 << 40)
            assert told.total() == whole
        if item["precision"] != "fp32" and item["target"] in plain:
            assert item["size_ratio"] == item["bytes"] / plain[item["target"]]["bytes"]
            assert item["size_against"] == f"{item['target']} fp32"
        elif item["precision"] != "fp32":
            assert item["size_against"] == "the weights in float32"
            assert item["size_ratio"] == item["bytes"] / (4 * sum(MACS))


@pytest.mark.slow
def test_types_below_a_byte_are_counted_packed(made: Callable[[str], Path]) -> None:
    stored = {
        (item["target"], item["precision"]): item["stored"] for item in _artifacts(made("stored"))
    }
    numbers = sum(MACS) - 3456  # conv1 stays
    assert stored["coreml", "int4-weights"]["int4"] * 2 + stored["coreml", "int4-weights"].get(
        "int8", 0
    ) == pytest.approx(numbers, abs=500)
    assert stored["onnx", "int4-weights"]["int8"] >= numbers - 500  # a byte each
    assert stored["coreml", "palettized"]["uint6"] * 8 / 6 == pytest.approx(numbers, abs=500)


# -- what was seen -------------------------------------------------------------------------


def _exact(path: Path) -> Path:
    """A layer that int8 loses nothing of, and one that the budget takes out, behind a padding."""
    rng = np.random.default_rng(0)
    kernel = rng.integers(-127, 128, (16, 8, 3, 3)).astype(np.float32)
    kernel[:, 0, 0, 0] = 127
    swap = np.eye(8, dtype=np.float32)[::-1].reshape(8, 8, 1, 1).copy()
    text = """net (float[batch, 8, 12, 12] x) => (float[batch, 16, 6, 6] y) {
        [first] p = Conv(x, v)
        [second] y = Conv<pads = [1, 1, 1, 1], strides = [2, 2]>(p, w) }"""
    written(path, text, v=swap, w=kernel / 128)
    x = rng.integers(0, 256, (16, 8, 12, 12)).astype(np.float32)
    x[:, :, 0, 0], x[:, :, 0, 1] = 0, 255
    np.savez(path.with_suffix(".npz"), x=x)
    return path


def test_what_a_budget_leaves_in_float32_is_not_called_int8(tmp_path: Path) -> None:
    out = tmp_path / "out"
    ran = _convert(
        _exact(tmp_path / "m.onnx"), out,
        "--to", "tflite", "--precision", "int8", "--min-cosine", "0.9999999",
    )  # fmt: skip
    (item,) = _artifacts(out)
    assert sorted(_tflite(out / item["path"])) == [(64, "int8"), (1152, "float32")]
    share = 64 * 144 / (64 * 144 + 1152 * 36)
    assert item["lowered_share"] == pytest.approx(share)
    assert "18.2%" in ran.out and "100%" not in ran.out + str(item["decisions"])
    assert any(line.startswith("second (Conv) stays float32") for line in item["decisions"])


def test_fp16_that_lowers_nothing_says_so(tmp_path: Path) -> None:
    model, out = _net(tmp_path / "m.onnx"), tmp_path / "out"
    targets = ("onnx", "tflite", "tensorrt", "tensorrt-rtx")
    fp16 = ["--to", ",".join(targets), "--precision", "fp32,fp16", "--keep-float", "*"]
    ran = _convert(model, out, *fp16)
    said = " ".join(ran.out.split())
    assert "Unlowered in onnx fp16, tensorrt fp16, tensorrt-rtx fp16: none of its" in said
    assert "Unlowered in tflite fp16: none of its multiply-adds" in said
    assert ran.out.count(" unlowered ") == len(targets) and "it was asked to" in " ".join(
        ran.out.split()
    )
    report = json.loads((out / "report.json").read_text())
    assert report["verdict"] == "unlowered"
    for item in report["artifacts"][1::2]:
        assert (item["lowered_share"], item["stored_share"]) == (0, 0)
        assert 0.98 < item["size_ratio"] < 1.02, item["target"]
        assert ("lowered", "not judged") in [(g["name"], g["status"]) for g in item["gates"]]
    strict = _convert(model, tmp_path / "strict", *fp16, "--strict", code=4)
    assert "lowered: none of its multiply-adds" in strict.err
    assert not (tmp_path / "strict").exists()
    left = {path.name for path in (tmp_path / "strict.failed").iterdir()}
    assert left == {"report.html", "report.json", "manifest.json"}


def test_weights_that_float16_has_no_numbers_for(tmp_path: Path) -> None:
    model, out = _net(tmp_path / "m.onnx", scale=1e6), tmp_path / "out"
    ran = _convert(model, out, "--precision", "fp16")
    assert "beside the weights in float32, where no fp32 artifact was made" in ran.out
    (item,) = _artifacts(out)
    halves = sum(MACS[size] for size, kind in _onnx(out / item["path"]) if kind == "float16")
    assert item["lowered_share"] == pytest.approx(halves / sum(MACS.values()))
    assert ran.code == 0 and not halves and "unlowered" in ran.out
