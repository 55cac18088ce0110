"""The file: names, free dimensions, weights inside and behind, memory, what is counted in it."""

import tracemalloc
from pathlib import Path

import numpy as np
import onnx_ir
import pytest

from converter.errors import ModelError, UnsupportedError
from converter.ir.model import Model
from converter.protocols.emitter import Artifact
from emitters.tflite import writer
from emitters.tflite.emitter import TfliteEmitter
from emitters.tflite.graph import DataType, Operator, Subgraph, Tensor, TfliteModel
from emitters.tflite.lowering import lower
from modelyard.containers.tflite import unpack
from tests.operators.cases import numbers, parsed, with_weights
from tests.tflite_emitter.running import REQUEST, emitted, lowered, run_file

DENSE = """
g (float[batch,6] image, float[6,4] w) => (float[batch,4] scores) { scores = MatMul (image, w) }"""


def _dense(seed: int = 0) -> Model:
    return with_weights(parsed(DENSE), w=numbers(6, 4, seed=seed))


def test_signature_and_free_batch(tmp_path: Path) -> None:
    model = unpack(emitted(_dense(), tmp_path).read_bytes(), "model.tflite")
    (signature,) = model.signatureDefs
    assert signature.signatureKey == b"serving_default"
    tensors = model.subgraphs[0].tensors
    (image,) = signature.inputs
    assert image.name == b"image"
    assert list(tensors[image.tensorIndex].shapeSignature) == [-1, 6]
    assert list(tensors[image.tensorIndex].shape) == [1, 6]
    assert [item.name for item in signature.outputs] == [b"scores"]
    assert tensors[signature.outputs[0].tensorIndex].name == b"scores"


def test_the_same_bytes_every_time_with_weights_on_sixteen(tmp_path: Path) -> None:
    first, second = (emitted(_dense(), tmp_path / name).read_bytes() for name in ("a", "b"))
    assert first == second
    assert first.index(numbers(6, 4).T.tobytes()) % 16 == 0


def test_weights_behind_the_flatbuffer(tmp_path: Path) -> None:
    made = lowered(_dense()).model
    inside, behind = tmp_path / "inside.tflite", tmp_path / "behind.tflite"
    writer.write(made, inside)
    writer.write(made, behind, inside=0)
    assert numbers(6, 4).T.tobytes() in behind.read_bytes()[-200:]
    feeds = {"image": numbers(2, 6, seed=1)}
    outputs = [run_file(path, feeds)["scores"] for path in (inside, behind)]
    np.testing.assert_array_equal(*outputs)
    np.testing.assert_allclose(outputs[0], feeds["image"] @ numbers(6, 4), rtol=1e-5)


def test_an_output_that_is_an_input_or_a_constant(tmp_path: Path) -> None:
    model = parsed("""g (float[n,2] x) => (float[n,2] same, float[2] given, float[n,2] again)
        <float[2] c = {3, 4}> { same = Identity (x) given = Identity (c) again = Identity (x) }""")
    found = run_file(emitted(model, tmp_path), {"x": numbers(2, 2)})
    np.testing.assert_array_equal(found["same"], numbers(2, 2))
    np.testing.assert_array_equal(found["again"], numbers(2, 2))
    np.testing.assert_array_equal(found["given"], [3, 4])


def test_every_node_that_has_no_lowering_is_listed(tmp_path: Path) -> None:
    model = parsed("""g (float[2,2] x) => (float[2,2] y) {
        a = ImageDecoder (x) b = Relu (a) c = StringSplit (b) y = ImageDecoder (x)
    }""")
    found = [(item.node, item.op) for item in lower(model).refusals]
    assert found == [(f"ImageDecoder_{index}", "ImageDecoder") for index in (0, 3)]
    early = TfliteEmitter().unsupported(model, REQUEST, simplified=False)
    assert [item.op for item in early] == ["ImageDecoder", "StringSplit", "ImageDecoder"]
    with pytest.raises(UnsupportedError, match="2 nodes"):
        emitted(model, tmp_path)
    assert not (tmp_path / "model.tflite").exists()


def test_sniffs_by_content(tmp_path: Path) -> None:
    path = emitted(_dense(), tmp_path)
    other = tmp_path / "other"
    other.write_bytes(b"\x00" * 40)
    assert TfliteEmitter().sniff(path.rename(tmp_path / "renamed.bin"))
    assert not TfliteEmitter().sniff(other)
    assert not TfliteEmitter().sniff(tmp_path)


FREE = """
g (float[batch,length,8] x, float[8,16] w, float[16,4] v) => (float[batch,4] y)
<int64[1] axes = {1}> {
  a = MatMul (x, w) t = Transpose <perm=[0,2,1]> (a) s = MatMul (a, t)
  r = ReduceMean <keepdims=0> (a, axes) b = MatMul (r, v)
  u = ReduceMean <keepdims=1> (s) f = Flatten (u) y = Add (b, f)
}"""

BRANCH = """
g (float[2,8] x, bool c, float[8,4] w) => (float[2,4] y) {
  y = If (c) <
    then_branch = one () => (float[2,4] a) { a = MatMul (x, w) },
    else_branch = two () => (float[2,4] b) { d = MatMul (x, w)  b = Relu (d) }
  >
}"""


def _counted(model: Model, folder: Path, **sizes: int) -> tuple[list[float | None], dict[str, int]]:
    artifact = Artifact("tflite", "fp32", emitted(model, folder))
    found = TfliteEmitter().contents(artifact, REQUEST, sizes)
    assert {product.computes for product in found.products} == {"float32"}
    return [product.macs for product in found.products], dict(found.stored)


@pytest.mark.parametrize(("length", "batch"), [(1, 1), (20, 1), (5, 3)])
def test_free_sizes_are_those_of_the_samples(tmp_path: Path, length: int, batch: int) -> None:
    model = with_weights(parsed(FREE), w=numbers(8, 16), v=numbers(16, 4))
    macs, stored = _counted(model, tmp_path, batch=batch, length=length)
    rows = batch * length
    products = [rows * 8 * 16, rows * length * 16, batch * 16 * 4]
    assert sorted(macs, key=str) == sorted(products, key=str)
    assert stored["float32"] >= 4 * (8 * 16 + 16 * 4)


def test_bodies_count_once_each_and_what_they_share_once(tmp_path: Path) -> None:
    macs, stored = _counted(with_weights(parsed(BRANCH), w=numbers(8, 4)), tmp_path)
    assert macs == [2 * 8 * 4] * 2
    assert stored["float32"] < 2 * 4 * np.prod((8, 4))


WIDTH = 1024
ROWS = 560_000


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    """A table of 2.3 GB that takes next to nothing on the disk; its last row isn't zero."""
    path = tmp_path / "weights"
    with path.open("wb") as file:
        file.truncate(ROWS * WIDTH * 4)
        file.seek((ROWS - 1) * WIDTH * 4)
        file.write(numbers(WIDTH).tobytes())
    return path


@pytest.mark.slow
def test_weights_above_two_gibibytes(tmp_path: Path, weights: Path) -> None:
    path = emitted(_table(weights), tmp_path / "out")
    assert 2**31 < ROWS * WIDTH * 4 <= path.stat().st_size < ROWS * WIDTH * 4 + 16384
    found = run_file(path, {"rows": np.asarray([5, ROWS - 1, 0])})["y"]
    np.testing.assert_allclose(found[1], np.maximum(numbers(WIDTH), 0), rtol=1e-6)
    assert not found[0].any() and not found[2].any()


def _table(weights: Path) -> Model:
    model = parsed(f"""
g (int64[n] rows, float[{ROWS},{WIDTH}] table) => (float[n,{WIDTH}] y) {{
  picked = Gather (table, rows)
  y = Relu (picked)
}}""")
    graph = model.graph.graph
    table = graph.inputs.pop(1)
    table.const_value = onnx_ir.ExternalTensor(
        weights.name, 0, ROWS * WIDTH * 4, onnx_ir.DataType.FLOAT, name="table",
        shape=onnx_ir.Shape([ROWS, WIDTH]), base_dir=str(weights.parent),
    )  # fmt: skip
    graph.register_initializer(table)
    return model


def test_more_elements_than_litert_counts_are_refused(tmp_path: Path) -> None:
    huge = np.broadcast_to(np.zeros(1, np.int8), (1 << 16, 1 << 15))
    table = Tensor("table", huge.shape, DataType.INT8, huge)
    out = Tensor("y", (1,), DataType.INT8)
    graph = Subgraph("main", [], [out], [Operator("GATHER", [table], [out])])
    with pytest.raises(ModelError, match="more elements") as caught:
        writer.write(TfliteModel([graph], {}, {"y": out}), tmp_path / "model.tflite")
    assert caught.value.details == ("table: 2,147,483,648 elements",)
    assert not list(tmp_path.iterdir())


def test_writing_copies_one_constant_at_a_time(tmp_path: Path) -> None:
    count, width = 12, 512
    ends = "".join(f", float[{width},{width}] w{number}" for number in range(count))
    steps = "".join(f"  x{n + 1} = MatMul (x{n}, w{n})\n" for n in range(count))
    text = f"g (float[1,{width}] x0{ends}) => (float[1,{width}] x{count}) {{\n{steps}}}"
    weights = {f"w{number}": numbers(width, width, seed=number) for number in range(count)}
    made = lowered(with_weights(parsed(text), **weights)).model
    tracemalloc.start()
    writer.write(made, tmp_path / "model.tflite")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    each = width * width * 4
    assert (tmp_path / "model.tflite").stat().st_size > count * each
    assert peak < 3 * each
