"""The ORT target: files in ONNX Runtime's own format, read back by its own tools."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from converter.errors import ModelError
from converter.ir.model import Model
from converter.options.recipe import make_request
from emitters.ort import emitter as target
from emitters.ort.emitter import OrtEmitter
from emitters.ort.flatbuffer import graphs, nodes, session_of, tools
from tests.acceptance.cli import command, modelyard, tree, written
from tests.artifacts import Made
from tests.passes.models import noise, run, text_model

REQUEST = make_request({"source": "model.onnx"})
FILES = ("model.ort", "required_operators.config")

NET = """net (float[batch, 3, 17, 17] x) => (float[batch, 80] y) {
    [c0] p = Conv<pads = [1, 1, 1, 1]>(x, w0) a = Relu(p)
    [c1] q = Conv<pads = [1, 1, 1, 1], strides = [2, 2]>(a, w1) b = Relu(q)
    mean = GlobalAveragePool(b) flat = Flatten(mean) [fc] y = Gemm<transB = 1>(flat, w2) }"""
SHAPES = {"w0": (16, 3, 3, 3), "w1": (24, 16, 3, 3), "w2": (80, 24)}
MACS = {"c0": 16 * 27 * 17 * 17, "c1": 24 * 144 * 9 * 9, "fc": 80 * 24}


def _net(folder: Path) -> Path:
    rng = np.random.default_rng(0)
    weights = {
        name: (rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)
        for name, shape in SHAPES.items()
    }
    np.savez(folder / "x.npz", x=rng.standard_normal((16, 3, 17, 17)).astype(np.float32))
    return written(folder / "m.onnx", NET, **weights)


def _operators(path: Path) -> set[tuple[str, int, str]]:
    """Domain, version and name of each operator, by ONNX Runtime's own walk over the file."""
    required: dict[str, dict[int, set[str]]] = {}
    tools().OrtFormatModelProcessor(str(path), required, None).process()
    return {
        (d, v, op) for d, versions in required.items() for v, ops in versions.items() for op in ops
    }


def _configured(config: Path, *, types: bool) -> tuple[set[tuple[str, int, str]], Any]:
    """What ONNX Runtime's build script takes out of the configuration."""
    from onnxruntime.tools.reduced_build_config_parser import parse_config

    required, filtered = parse_config(str(config), types)
    return {
        (d, v, op) for d, vs in required.items() for v, ops in vs.items() for op in ops
    }, filtered


def _artifacts(out: Path) -> dict[str, dict[str, Any]]:
    listed = json.loads((out / "report.json").read_text())["artifacts"]
    return {item["precision"]: item for item in listed}


def _artifact(model: Model, folder: Path) -> Any:
    return OrtEmitter().emit(model, folder, "fp32", REQUEST)


# -- whole conversions -----------------------------------------------------------------------


@pytest.mark.slow
def test_every_precision_the_same_bytes_twice(tmp_path: Path) -> None:
    precisions = "fp32,fp16,int8,int8-dynamic,int8-weights,fp16+int8-weights"
    line = ["convert", _net(tmp_path), "--to", "ort", "--precision", precisions, "--samples"]
    line += [tmp_path / "x.npz", "--no-bench", "--few-samples", "--no-cache"]
    for name in ("one", "two"):  # processes with hash tables of their own
        modelyard(*line, "--out", tmp_path / name, code=0)
    found = _artifacts(tmp_path / "one")
    assert list(found) == precisions.split(",")
    for precision in found:
        one, two = (tmp_path / name / "ort" / precision for name in ("one", "two"))
        assert set(FILES) < set(tree(one)) and tree(one) == tree(two), precision
        assert _configured(one / FILES[1], types=False)[0] == _operators(one / FILES[0])
    whole = sum(MACS.values())
    assert found["fp32"]["computes"] == {"float32": 1.0}
    assert found["int8"]["computes"] == {"int8": 1.0} and found["int8"]["lowered_share"] == 1
    assert found["int8-dynamic"]["computes"]["int8-dynamic"] == pytest.approx(MACS["fc"] / whole)
    assert found["fp16"]["computes"] == {"float32": 1.0} and found["fp16"]["stored_share"] == 1
    assert found["int8-weights"]["stored_share"] > 0.5
    assert found["fp16"]["bytes"] < found["fp32"]["bytes"]
    assert any("computed with in float32" in line for line in found["fp16"]["decisions"])


@pytest.mark.slow
@pytest.mark.smoke
def test_a_real_classifier(artifact: Callable[[str, str, str], Made]) -> None:
    for precision in ("fp32", "fp16", "int8"):
        made = artifact("ccexam-mnist", "ort", precision)
        assert made.item.gates and all(gate.passed for gate in made.item.gates), precision
        assert _configured(made.path.with_name(FILES[1]), types=False)[0] == _operators(made.path)
    assert made.item.computes["int8"] > 0.9


@pytest.mark.slow
def test_bodies_of_a_real_model(artifact: Callable[[str, str, str], Made]) -> None:
    made = artifact("silero-vad-half", "ort", "fp32")
    assert made.item.gates and all(gate.passed for gate in made.item.gates)
    inside = [op for graph, _ in list(graphs(session_of(made.path).Model().Graph(), {}))[1:]
              for op in nodes(graph)]  # fmt: skip
    required = _configured(made.path.with_name(FILES[1]), types=False)[0]
    assert inside and {node.OpType().decode() for node in inside} <= {op for *_, op in required}


# -- the file --------------------------------------------------------------------------------


def _resolver(path: Path) -> dict[bytes, dict[bytes, list[tuple[int, int]]]]:
    """Of each operator, the inputs and outputs that a type of its kernel is of."""
    found = session_of(path).KernelTypeStrResolver()
    return {
        entry.OpId(): {
            each.KernelTypeStr(): [
                (each.Args(i).ArgType(), each.Args(i).Index()) for i in range(each.ArgsLength())
            ]
            for each in map(entry.KernelTypeStrArgs, range(entry.KernelTypeStrArgsLength()))
        }
        for entry in map(found.OpKernelTypeStrArgs, range(found.OpKernelTypeStrArgsLength()))
    }


def test_sorting_what_comes_before_the_model_changes_nothing(tmp_path: Path) -> None:
    path = _net(tmp_path)
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "plain.ort")
    options.add_session_config_entry("session.save_model_format", "ORT")
    without = ["NchwcTransformer", "Pad_Fusion"]
    onnxruntime.InferenceSession(
        str(path), options, ["CPUExecutionProvider"], disabled_optimizers=without
    )
    model = Model.load(path)
    made = _artifact(model, tmp_path / "out").path
    assert _resolver(made) == _resolver(tmp_path / "plain.ort") != {}
    assert made.stat().st_size % 32 == 0  # what is aligned from the end is so from the start
    feeds = noise(model, batch=3)
    session = onnxruntime.InferenceSession(str(made), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(session.run(None, feeds)[0], run(model, feeds)["y"], atol=1e-5)


def test_types_that_a_build_can_keep_to(tmp_path: Path) -> None:
    made = _artifact(text_model("m (float[n] x) => (int64[n] y) { y = Cast<to = 7>(x) }"), tmp_path)
    operators, types = _configured(made.files[1], types=True)
    assert operators == {("ai.onnx", 19, "Cast")}
    cpp = "".join(types.get_cpp_entries())
    assert "kOnnxDomain, Cast, Input, 0, float)" in cpp and "Output, 0, int64_t)" in cpp, cpp
    assert '"inputs": {"0": ["float"]}, "outputs": {"0": ["int64_t"]}' in made.files[1].read_text()
    assert str(tmp_path) not in made.files[1].read_text()


def test_padding_before_a_pooling_is_computed_as_written(tmp_path: Path) -> None:
    model = text_model(
        "m (float[batch,2,6,6] x) => (float[batch,2,c,d] y) "
        "<int64[8] p = {0,0,1,1,0,0,1,1}> { a = Pad(x, p) y = MaxPool<kernel_shape = [2,2]>(a) }"
    )
    feeds = {"x": -np.abs(noise(model)["x"])}
    session = OrtEmitter().open(_artifact(model, tmp_path), REQUEST)
    np.testing.assert_array_equal(session.run(feeds)["y"], run(model, feeds)["y"])


@pytest.mark.parametrize(("line", "inputs", "macs"), [
    ("y = MatMul(x, z)", "float[n,5,6] x, float[n,6,7] z", 2 * 5 * 6 * 7),
    ("t = Transpose<perm = [0,2,1]>(x) y = MatMul(t, z)", "float[n,6,5] x, float[n,6,7] z", 420),
    ("y = ConvTranspose(x, z)", "float[n,3,4,4] x, float[3,5,2,2] z", 2 * 48 * 20),
    ("y, h, c = LSTM<hidden_size = 4>(x, w, r)", "float[7,n,3] x, float[1,16,3] w, float[1,16,4] r",
     7 * 2 * 16 * 7),
    ("y = Einsum<equation = \"nij,njk->nik\">(x, z)", "float[n,5,6] x, float[n,6,7] z", None),
])  # fmt: skip
def test_multiply_adds(line: str, inputs: str, macs: int | None, tmp_path: Path) -> None:
    made = _artifact(text_model(f"m ({inputs}) => (float[] y) {{ {line} }}"), tmp_path)
    (product,) = OrtEmitter().contents(made, REQUEST, {"n": 2}).products
    assert (product.computes, product.macs) == ("float32", macs)


def test_how_far_it_is_optimized(tmp_path: Path) -> None:
    _net(tmp_path)
    line = ("convert", tmp_path / "m.onnx", "--to", "ort", "--no-bench", "--out", tmp_path / "out")
    command(*line, "--ort-optimization", "basic", code=0)
    operators = _operators(tmp_path / "out" / "ort" / "fp32" / FILES[0])
    assert {domain for domain, *_ in operators} == {"ai.onnx"}
    said = command("convert", tmp_path / "m.onnx", "--ort-optimization", "basic", "--dry-run")
    assert "--ort-optimization (for ort)" in said.out + said.err


# -- what isn't taken --------------------------------------------------------------------------


@pytest.mark.parametrize("precision", ["bf16", "palettized", "int16x8"])
def test_precisions_that_it_has_not(precision: str, tmp_path: Path) -> None:
    line = ("convert", _net(tmp_path), "--to", "ort", "--precision", precision)
    assert f"ort has no {precision}" in command(*line, "--out", tmp_path / "out", code=2).err


def test_operators_and_sizes_that_it_has_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path / "m.onnx", "m (float[2] x) => (float[2] y) { [a] y = Nothing(x) }")
    said = command("convert", path, "--to", "ort", "--out", tmp_path / "out", code=3)
    assert "Nothing" in said.err
    monkeypatch.setattr(target, "LIMIT", 1000)
    with pytest.raises(ModelError, match="the limit is 1,000"):
        _artifact(Model.load(_net(tmp_path)), tmp_path)


def test_a_file_by_itself(tmp_path: Path) -> None:
    made = _artifact(Model.load(_net(tmp_path)), tmp_path).path
    assert OrtEmitter().sniff(made) and not OrtEmitter().sniff(tmp_path / "m.onnx")
    told = command("inspect", made, "--json", code=0).json
    assert told["operators"]["FusedConv"] == 2 and told["stored"]["float32"] > 0
    command("check", made, "--against", tmp_path / "m.onnx", code=0)
    for length in (8, 60, 2000):
        cut = tmp_path / f"cut{length}.ort"
        cut.write_bytes(made.read_bytes()[:length])
        command("inspect", cut, code=3)
