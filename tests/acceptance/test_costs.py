"""What an artifact costs: memory by phase and its gate, time by operator and by layer."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from converter.report.icicle import icicle
from converter.runtime.layers import Node, join
from converter.runtime.session import OperatorTime, Profile
from emitters.tflite.alone import joined
from tests.acceptance.cli import command, typed, written

WIDE, NARROW = 6144, 256
WEIGHTS = 2 * WIDE * NARROW * 4
"""Bytes of the model's weights: two products."""

CONVERT = "convert net.onnx --to onnx,tflite --out build --threads 1 --no-bench --no-check"


def build(path: Path) -> None:
    """Two products that take nearly all of the time, in layers of which one is in another, and an
    operator that XNNPACK doesn't take."""
    weights = {"up": (NARROW, WIDE), "down": (WIDE, NARROW)}
    rng = np.random.default_rng(0)
    values = {name: rng.standard_normal(shape).astype(np.float32) / 100
              for name, shape in weights.items()}  # fmt: skip
    one = numpy_helper.from_array(np.array(1, np.int64), "axis")
    nodes = [
        helper.make_node("MatMul", ["x", "up"], ["wide"], "encoder.block.up"),
        helper.make_node("Relu", ["wide"], ["active"], "encoder.block/Relu"),
        helper.make_node("MatMul", ["active", "down"], ["low"], "encoder.down"),
        helper.make_node("CumSum", ["low", "axis"], ["y"], "head/CumSum"),
    ]
    sides = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", NARROW]) for name in "xy"
    ]
    initializers = [*(numpy_helper.from_array(value, name) for name, value in values.items()), one]
    graph = helper.make_graph(nodes, "net", sides[:1], sides[1:], initializers)
    opset = [helper.make_opsetid("", 20)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=9), path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where ``build`` holds the model as ONNX and TFLite, profiled."""
    made = tmp_path_factory.mktemp("costs")
    build(made / "net.onnx")
    typed(f"{CONVERT} --profile --max-memory 1GB", made)
    return made


@pytest.fixture(scope="module")
def artifacts(folder: Path) -> dict[str, dict[str, Any]]:
    report = json.loads((folder / "build/report.json").read_text())
    return {item["target"]: item for item in report["artifacts"]}


@pytest.mark.parametrize("target", ["onnx", "tflite"])
def test_memory_is_measured_by_phase(artifacts: dict[str, Any], target: str) -> None:
    memory = artifacts[target]["memory"]
    phases = {phase["name"]: phase for phase in memory["phases"]}
    assert [*phases] == ["start", "open", "first run", "steady"]
    added = max(p["peak"] for p in phases.values()) - phases["start"]["resident"]
    assert WEIGHTS * 0.95 < added < 8 * WEIGHTS  # they are there, with copies that runtimes make
    assert all(phase["peak"] >= phase["resident"] for phase in phases.values())
    assert memory["arena"] > (NARROW + WIDE if target == "onnx" else NARROW) * 4
    (gate,) = (g for g in artifacts[target]["gates"] if g["name"] == "memory peak")
    assert gate["status"] == "passed"
    assert gate["value"] * 1e6 == pytest.approx(added)


@pytest.mark.parametrize("file", ["onnx/fp32/model.onnx", "tflite/fp32/model.tflite"])
def test_too_much_memory_misses_a_gate(folder: Path, file: str) -> None:
    line = f"bench build/{file} --bench-seconds 0.05 --max-memory"
    said = typed(f"{line} 12MB", folder, 4)
    assert re.search(r"memory peak: [\d.]+ MB, limit 12 MB; resident in phase \w+", said.err)
    shown = typed(f"{line} 1GB", folder).out
    assert re.search(r"memory +[\d.]+ MB at most, above the [\d.]+ MB of a process", shown)
    assert "arena" in shown


def test_without_latency_a_conversion_is_still_held_to_it(folder: Path) -> None:
    line = "convert net.onnx --to onnx --out small --no-check --no-bench --max-memory"
    typed(f"{line} 12MB", folder, 4)
    report = json.loads((folder / "small.failed/report.json").read_text())
    assert report["artifacts"][0]["memory"]["phases"] and not report["artifacts"][0]["latency"]
    assert "memory peak" in (folder / "small.failed/report.html").read_text()


@pytest.mark.parametrize("size", ["0", "12XB"])
def test_what_is_no_size_is_refused(folder: Path, size: str) -> None:
    said = command("bench", "build/onnx", f"--max-memory={size}", cwd=folder, code=2)
    assert "no size" in said.err


def test_a_server_has_neither(folder: Path) -> None:
    line = "bench build/onnx --server http://127.0.0.1:9 --profile"
    assert "work with a file" in typed(line, folder, 2).err


@pytest.mark.parametrize(("target", "layers", "head"), [
    ("onnx", {"encoder.block.up", "encoder.down", "head"}, ("head", "cpu", True)),
    # Relu is in the product before it, and outputs of the file have the user's names
    ("tflite", {"encoder.block", "encoder.down"}, ("", "LiteRT", False)),
])  # fmt: skip
def test_time_goes_to_layers_of_the_source(
    artifacts: dict[str, Any], target: str, layers: set[str], head: tuple[str, str, bool]
) -> None:
    profile = artifacts[target]["profile"]
    spent: Counter[str] = Counter()
    for item in profile["operators"]:
        spent[item["layer"]] += item["us"]
    assert spent.keys() >= layers
    assert {name for name, _ in spent.most_common(2)} == {"encoder.down", *layers} - {"head"}
    assert 0.3 * profile["us"] < sum(spent.values()) <= profile["us"] * 1.001
    left = next(i for i in profile["operators"] if i["op"].upper() == "CUMSUM")
    assert (left["layer"], left["place"], left["joined"]) == head


def test_the_report_has_it_as_a_picture(folder: Path) -> None:
    page = (folder / "build/report.html").read_text()
    assert page.count("Where the time goes") == 2
    assert re.search(r"<title>encoder\.block\.up: [\d.,]+ us, [\d.]+%</title>", page) or (
        "<title>encoder.block: " in page
    )
    assert ">encoder " in page or ">encoder<" in page


def test_bench_shows_tables(folder: Path) -> None:
    said = typed("bench build/tflite --bench-seconds 0.05 --profile --threads 1", folder)
    assert "layer of the source" in said.out and "encoder.down" in said.out
    assert re.search(r"Fully Connected +XNNPACK +2", said.out)
    assert re.search(r"CUMSUM +LiteRT +1", said.out)
    found = typed("bench build/onnx --bench-seconds 0.05 --profile --json", folder).json
    (item,) = found.get("artifacts", [found])
    assert item["profile"]["operators"] and item["memory"]["phases"]


def test_what_a_runtime_renamed_is_joined(tmp_path: Path) -> None:
    """ONNX Runtime puts Conv and Relu into one node of its own layout, called after an output."""
    text = """
        g (float[1,8,32,32] x) => (float[1,8,32,32] y) {
            c = Conv <pads: ints = [1,1,1,1]> (x, w) y = Relu(c)
        }"""
    weights = np.full((8, 8, 3, 3), 0.1, np.float32)
    model = onnx.load(written(tmp_path / "m.onnx", text, w=weights))
    for node, name in zip(model.graph.node, ("stem.conv", "stem/Relu"), strict=True):
        node.name = name
    onnx.save(model, tmp_path / "m.onnx")
    line = "bench m.onnx --bench-seconds 0.05 --profile --json"
    operators = typed(line, tmp_path).json["profile"]["operators"]
    (conv,) = (item for item in operators if "Conv" in item["op"])
    assert conv["name"] not in ("stem.conv", "stem/Relu")  # else there was nothing to join
    assert conv["joined"] and conv["layer"].startswith("stem")


COMPUTED = [
    # x and a, then a and b: the largest are next to one another
    ("{ a = Relu(x) b = Concat<axis: int = 1>(a, a) y = ReduceSum<keepdims: int = 0>(b, n) }",
     400 + 800),
    # a Reshape takes nothing; x is there until its last use
    ("{ a = Reshape(x, s) b = Exp(a) c = Add(a, b) y = ReduceSum<keepdims: int = 0>(c, n) }",
     400 * 3),
]  # fmt: skip


@pytest.mark.parametrize(("body", "bytes_"), COMPUTED)
def test_inspect_computes_what_tensors_need_at_once(tmp_path: Path, body: str,
                                                    bytes_: int) -> None:  # fmt: skip
    head = "g (float[1,width] x) => (float[1] y) <int64[1] n = {1}, int64[2] s = {1,-1}>"
    written(tmp_path / "m.onnx", f"{head} {body}")
    found = typed("inspect m.onnx --dim width=100 --json", tmp_path).json
    assert found["activations"] == bytes_
    assert "computed from the graph at" in typed("inspect m.onnx --dim width=100", tmp_path).out


def test_a_picture_has_boxes_in_boxes() -> None:
    """Heights are shares of the run; a chain is one box; names from files are escaped."""
    told = (("a.b.c", 60.0), ("a.b.d", 20.0), ("<script>", 10.0), ("", 5.0))
    operators = tuple(OperatorTime("n", "Op", "cpu", us, layer) for layer, us in told)
    drawn = str(icicle(Profile("r", 1, 100.0, operators)))
    boxes = dict(re.findall(r'<title>([^:]*): [^<]*</title><rect [^>]*height="([\d.]+)"', drawn))
    heights = {name: float(height) for name, height in boxes.items()}
    assert heights.keys() == {
        "a.b", "a.b.c", "a.b.d", "&lt;script&gt;", "of no layer", "between operators",
    }  # fmt: skip
    assert heights["a.b.c"] / heights["a.b"] == pytest.approx(0.75, abs=0.01)
    assert ">a.b 80.0%<" in drawn and "<script>" not in drawn


@pytest.mark.parametrize("target", ["onnx", "tflite"])
def test_a_branch_is_not_counted_twice(tmp_path: Path, target: str) -> None:
    """An If's time is its own, and what its branch runs is told apart; a scalar is fed as one."""
    text = """
        g (float[65536] x, bool c) => (float[65536] y) {
            y = If(c) <
                then_branch = t () => (float[65536] a) { e = Exp(x) a = Sin(e) },
                else_branch = f () => (float[65536] b) { h = Exp(x) b = Cos(h) }
            >
        }"""
    written(tmp_path / "m.onnx", text, 20)
    options = "--no-check --no-bench --profile --threads 1 --samples random:1 --out build"
    typed(f"convert m.onnx --to {target} {options}", tmp_path)
    profile = json.loads((tmp_path / "build/report.json").read_text())["artifacts"][0]["profile"]
    assert not profile["why"]
    spent = {item["op"].upper(): item["us"] for item in profile["operators"]}
    assert "IF" in spent and len(spent) == 3
    assert sum(spent.values()) <= profile["us"] * 1.001


NODES = [
    Node("enc.a", "Conv", "x", ["c"]),
    Node("c_QuantizeLinear", "QuantizeLinear", "c", ["q"]),
    Node("enc.b/MatMul", "MatMul", "q", ["m"]),
    Node("Transpose", "Transpose", "m", ["y"]),
]


@pytest.mark.parametrize(("name", "outputs", "layer"), [
    ("enc.a", [], "enc.a"),
    ("fused", ["m"], "enc.b"),  # by what it gives
    ("c_nchwc", [], "enc.a"),
    ("c_QuantizeLinear", [], "enc.a"),  # what is quantized is its maker's
    ("InsertedPrecisionFreeCast_m", ["InsertedPrecisionFreeCast_m"], "enc.b"),
    ("enc.b/MatMul/MatMulScaleFusion/", [], "enc.b"),
    ("Transpose", ["y"], ""),
    ("ReorderInput", ["new"], None),
])  # fmt: skip
def test_names_of_runtimes_tell_layers(name: str, outputs: list[str], layer: str | None) -> None:
    (found,) = join([OperatorTime(name, "Op", "cpu", 1.0, joined=False)], NODES, {name: outputs})
    assert (found.layer if found.joined else None) == layer


def test_an_unknown_operator_is_its_neighbours_where_these_agree() -> None:
    names = ["enc.a", "new", "enc.a", "other", "enc.b/MatMul"]
    operators = [OperatorTime(name, "Op", "cpu", 1.0, joined=False) for name in names]
    found = join(operators, NODES, {})
    assert [item.layer if item.joined else None for item in found] == [
        "enc.a", "enc.a", "enc.a", None, "enc.b",
    ]  # fmt: skip


def test_numbered_layers_of_others_files_stay_apart() -> None:
    """Ours are numbered where one node became several operators; Keras numbers its layers."""
    operators = [
        {"index": at, "name": name, "op": "CONV_2D", "inputs": [], "delegated": True}
        for at, name in enumerate(["conv2d", "conv2d_1"])
    ]
    events = [("Convolution (NHWC, F32) IGEMM", at, True, 1.0, False) for at in range(2)]
    found = {"operators": operators, "events": events, "tensors": ["conv2d", "conv2d_1"]}
    theirs = joined(found, frozenset(), ours=False)
    assert [item.layer for item in theirs] == ["conv2d", "conv2d_1"]
    assert {item.layer for item in joined(found, frozenset(), ours=True)} == {"conv2d"}
