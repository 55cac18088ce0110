"""TFLite files become structures: sparse constants dense ones, inputs and outputs named."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

from converter.errors import ModelError, UnsupportedError, UsageError
from modelyard.containers.tflite import pack, unpack
from parsers.tflite.constants import constant
from parsers.tflite.model import TfliteModel
from parsers.tflite.names import find_entry
from parsers.tflite.reader import read
from parsers.tflite.sparse import densify
from tests.tflite.build import File, Graph, adder, filled
from tests.tflite.litert import Stepped
from tests.tflite.real import real_file


def _read(file: File) -> TfliteModel:
    return read(file.content(), "test.tflite")


def _refused(file: File) -> str:
    with pytest.raises(ModelError) as caught:
        _read(file)
    return str(caught.value)


def test_a_graph_its_constants_and_its_options() -> None:
    file, _ = adder()
    model = _read(file)
    (graph,) = model.subgraphs
    assert {t.name: t.shape for t in graph.tensors} == {"x": (1, 4), "one": (4,), "y": (1, 4)}
    assert {t.dtype for t in graph.tensors} == {"float32"}
    assert graph.tensors[1].data is not None and graph.tensors[1].data.tolist() == [1.0] * 4
    assert graph.tensors[0].data is None
    (add,) = graph.operators
    assert (add.name, add.inputs, add.outputs) == ("ADD", (0, 1), (2,))
    assert isinstance(add.options, schema.AddOptionsT)
    assert (graph.inputs, graph.outputs, model.description) == ((0,), (2,), "a test")


@pytest.mark.parametrize(("dtype", "stored", "expected"), [
    ("int4", [0x21, 0xF8, 0x07], [1, 2, -8, -1, 7]),
    ("uint4", [0x21, 0xF8, 0x07], [1, 2, 8, 15, 7]),
    ("int2", [0b11_10_01_00, 0b01], [0, 1, -2, -1, 1]),
])  # fmt: skip
def test_packed_integers(dtype: str, stored: list[int], expected: list[int]) -> None:
    content = np.array(stored, np.uint8)
    assert constant(content, dtype, (5,), None, "w").tolist() == expected
    with pytest.raises(ModelError, match="the constant w"):
        constant(content, dtype, (9,), None, "w")


def test_strings() -> None:
    texts = [b"one", b"", "zw\u00f6lf".encode()]
    ends = np.cumsum([4 * 5, *map(len, texts)])
    content = np.concatenate([[3], ends]).astype(np.int32).tobytes() + b"".join(texts)
    found = constant(np.frombuffer(content, np.uint8), "string", (3,), None, "names")
    assert found.tolist() == texts
    with pytest.raises(ModelError, match="holds 3 strings"):
        constant(np.frombuffer(content, np.uint8), "string", (2,), None, "names")


def test_packing_gives_the_same_model_with_aligned_weights() -> None:
    content = real_file("face-short").read_bytes()
    packed = pack(unpack(content, "a"), "a")
    before, after = read(content, "a").subgraphs[0], read(packed, "a").subgraphs[0]
    for old, new in zip(before.tensors, after.tensors, strict=True):
        assert (old.name, old.dtype, old.shape) == (new.name, new.dtype, new.shape)
        assert old.data is None or np.array_equal(old.data, new.data)
    at = np.frombuffer(packed, np.uint8).__array_interface__["data"][0]
    weights = [
        t.data.__array_interface__["data"][0] - at for t in after.tensors if t.data is not None
    ]
    assert weights and all(offset % 16 == 0 for offset in weights)


def test_buffers_behind_the_flatbuffer() -> None:
    """Where models above 2 GiB keep them: the table says where they lie in the file."""
    file, _ = adder()
    weights = np.array([1.0, 2.0, 3.0, 4.0], np.float32)
    at = 4096
    buffer = file.model.buffers[1]
    buffer.data, buffer.offset, buffer.size = None, at, weights.nbytes
    content = file.content().ljust(at, b"\0") + weights.tobytes()
    data = read(content, "large.tflite").subgraphs[0].tensors[1].data
    assert data is not None and data.tolist() == weights.tolist()
    with pytest.raises(ModelError, match="cut short: buffer 1 ends at byte 4112"):
        read(content[:-1], "large.tflite")


Damage = Callable[[Graph], Any]


def _put(of: str, at: int, **fields: Any) -> Damage:
    """Gives a tensor or an operator other fields."""

    def damage(graph: Graph) -> None:
        for name, value in fields.items():
            to = np.array(value, np.int32) if isinstance(value, list) else value
            setattr(getattr(graph.raw, of)[at], name, to)

    return damage


def _late(graph: Graph) -> None:
    _put("operators", 0, inputs=[0, graph.tensor("late", (4,))])(graph)


@pytest.mark.parametrize(("damage", "said"), [
    (_put("tensors", 1, shape=[5]),
     r"the constant one \(subgraph 0\) of type float32 has 16 bytes; .* needs 20"),
    (_put("tensors", 1, buffer=77), "has buffer 77 of 2"),
    (_put("tensors", 0, type=99), "unknown type 99"),
    (_put("operators", 0, inputs=[0, 9]),
     r"operator 0 \(ADD\), inputs: there is no tensor 9; there are 3"),
    (_put("operators", 0, opcodeIndex=3), "operator code 3 of 1"),
    (lambda graph: graph.interface([0], [graph.tensor("lost", (2,))]),
     r"nothing writes the output tensor 3 \(lost\)"),
    (lambda graph: graph.op("ADD", [0, 1], [2]),
     r"operator 1 \(ADD\) writes tensor 2 \(y\), which has a value already"),
    (_late, r"reads tensor 3 \(late\) before anything wrote it"),
    (_put("tensors", 0, shape=[2**31 - 1] * 3), "too large to be right"),
    (lambda graph: graph.tensor("q", (1, 3), "INT8", scale=[1, 2], zero=[0, 0], axis=1),
     r"q \(subgraph 0\) of shape \[1, 3\] has 2 scales along 1"),
    (lambda graph: graph._file.signature("serving_default", graph, {"x": 2}, {"y": 2}),
     "calls tensor 2 its input 'x', but the graph has no such"),
])  # fmt: skip
def test_what_contradicts_itself_is_named(damage: Damage, said: str) -> None:
    file, graph = adder()
    damage(graph)
    with pytest.raises(ModelError, match=said) as caught:
        _read(file)
    assert caught.value.message.startswith("test.tflite")


def test_subgraphs_that_run_one_another_and_other_versions() -> None:
    file, graph = adder()
    other = file.graph("other")
    graph.op("CALL_ONCE", [], [], initSubgraphIndex=other.index)
    other.op("CALL_ONCE", [], [], initSubgraphIndex=graph.index)
    assert "the subgraphs 0, 1 run one another in a circle" in _refused(file)
    file, graph = adder()
    for _ in range(30):
        other = file.graph("other")
        for _ in range(2):
            graph.op("CALL_ONCE", [], [], initSubgraphIndex=other.index)
        graph = other
    assert "31 subgraphs have 2,147,483,647 operators, 31 deep" in _refused(file)
    file, _ = adder()
    file.model.version = 2
    assert "has the schema version 2; Modelyard reads version 3" in _refused(file)
    with pytest.raises(ModelError, match="is not a TFLite file"):
        read(b"\x08\x09protobuf", "model.onnx")


def test_weights_in_other_files_and_in_blocks_are_listed() -> None:
    file, graph = adder()
    graph.raw.tensors[0].externalBuffer = 1
    graph.tensor("blocks", (1, 3), "INT8", scale=[1], zero=[0])
    how = graph.raw.tensors[-1].quantization
    how.detailsType = schema.QuantizationDetails.BlockwiseQuantization
    how.details = schema.BlockwiseQuantizationT()
    with pytest.raises(UnsupportedError) as caught:
        _read(file)
    assert [item.node for item in caught.value.items] == ["x", "blocks"]


def _dense(size: int) -> Any:
    return filled(schema.DimensionMetadataT(), format=0, denseSize=size)


def _compressed(segments: Sequence[int], indices: Sequence[int]) -> Any:
    starts = filled(schema.Int32VectorT(), values=np.array(segments, np.int32))
    places = filled(schema.Uint8VectorT(), values=np.array(indices, np.uint8))
    return filled(schema.DimensionMetadataT(), format=1, arraySegments=starts, arrayIndices=places)


def _sparsity(order: Sequence[int], levels: Sequence[Any], blocks: Sequence[int] = ()) -> Any:
    of = {"traversalOrder": np.array(order, np.int32), "dimMetadata": list(levels)}
    given = np.array(blocks, np.int32) if blocks else None
    return filled(schema.SparsityParametersT(), blockMap=given, **of)


@pytest.mark.parametrize(("how", "expected"), [
    (_sparsity([0, 1], [_dense(3), _compressed([0, 2, 2, 4], [0, 3, 1, 2])]),
     [[1, 0, 0, 2], [0, 0, 0, 0], [0, 3, 4, 0]]),
    (_sparsity([1, 0], [_dense(2), _compressed([0, 1, 4], [2, 0, 1, 2])]),
     [[0, 2], [0, 3], [1, 4]]),
    (_sparsity([0, 1, 2, 3], [_dense(2), _compressed([0, 1, 2], [1, 0]), _dense(2), _dense(2)],
               blocks=[0, 1]),
     [[0, 0, 1, 2], [0, 0, 3, 4], [5, 6, 0, 0], [7, 8, 0, 0]]),
], ids=["compressed rows", "compressed columns", "blocks, the schema's own example"])  # fmt: skip
def test_levels(how: Any, expected: list[list[int]]) -> None:
    values = np.arange(1, 1 + np.count_nonzero(expected), dtype=np.float32)
    assert densify(values, np.shape(expected), how, "w").tolist() == expected


@pytest.mark.parametrize(("order", "levels"), [
    ([0, 1], [_dense(3), _compressed([0, 2, 2, 4], [0, 9, 1, 2])]),
    ([0, 1], [_dense(3), _compressed([0, 2, 2], [0, 3, 1, 2])]),
    ([0, 1], [_dense(3), _compressed([0, 2, 1, 4], [0, 3, 1, 2])]),
    ([0, 1], [_dense(3), _compressed([0, 2, 2, 3], [0, 3, 1])]),
    ([0, 1], [_dense(1 << 30), _dense(1 << 30)]),
    ([0, 0], [_dense(3), _dense(4)]),
    ([0], [_dense(3)]),
])  # fmt: skip
def test_levels_that_contradict_each_other(order: list[int], levels: list[Any]) -> None:
    with pytest.raises(ModelError, match="the sparse tensor w contradicts itself"):
        densify(np.arange(1, 5, dtype=np.float32), (3, 4), _sparsity(order, levels), "w")
    with pytest.raises(ModelError, match="too large"):
        densify(np.ones(4, np.float32), (1 << 20, 1 << 20), _sparsity([0, 1], []), "w")


def test_a_real_models_weights_are_as_litert_unpacks_them() -> None:
    path = real_file("face-sparse")
    graph = read(path.read_bytes(), path.name).subgraphs[0]
    litert = Stepped(path)
    litert.run({})
    unpacked = [op for op in graph.operators if op.name == "DENSIFY"]
    assert len(unpacked) == 46
    for operator in unpacked:
        ours = graph.tensors[operator.inputs[0]].data
        assert ours is not None and 0 < np.count_nonzero(ours) < ours.size
        assert np.array_equal(ours, litert.get(operator.outputs[0]))


def _named(inputs: list[str], outputs: list[str]) -> tuple[list[str], list[str]]:
    file = File()
    graph = file.graph()
    ins = [graph.tensor(name, (2,)) for name in inputs]
    outs = [graph.add(ins[0], ins[-1], (2,), name) for name in outputs]
    graph.interface(ins, outs)
    entry = find_entry(read(file.content(), "f"), None, "f")
    assert entry.signature is None
    assert [*entry.inputs.values(), *entry.outputs.values()] == [*ins, *outs]
    return list(entry.inputs), list(entry.outputs)


@pytest.mark.parametrize(("inputs", "outputs", "found"), [
    (["serving_default_x:0"], ["StatefulPartitionedCall:0"], (["x"], ["output_0"])),
    (["a", "b:0"], ["Identity_1", "Identity"], (["a", "b"], ["output_1", "output_0"])),
    (["Identity"], ["scores"], (["Identity"], ["scores"])),
    (["", ""], ["", "y"], (["input_0", "input_1"], ["output_0", "y"])),
    (["x", "x:0"], ["x", "x"], (["x", "x_2"], ["x_3", "x_4"])),
])  # fmt: skip
def test_without_a_signature(inputs: list[str], outputs: list[str], found: Any) -> None:
    assert _named(inputs, outputs) == found


def _with_signatures(*keys: str) -> File:
    file = File()
    for key in keys:
        graph = file.graph(key)
        x = graph.tensor("serving_default_x:0", (2,))
        y = graph.add(x, x, (2,), "StatefulPartitionedCall:0")
        graph.interface([x], [y])
        file.signature(key, graph, {"sound": x}, {"louder": y})
    return file


def test_the_default_and_the_one_that_is_asked_for() -> None:
    """A signature's names are the user's; several without a default are listed."""
    entry = find_entry(read(_with_signatures("run").content(), "f"), None, "f")
    assert (entry.subgraph, entry.signature) == (0, "run")
    assert (list(entry.inputs), list(entry.outputs)) == (["sound"], ["louder"])
    model = read(_with_signatures("encode", "serving_default", "decode").content(), "f")
    assert find_entry(model, None, "f").subgraph == 1
    assert find_entry(model, "decode", "f").subgraph == 2
    model = read(_with_signatures("encode", "decode").content(), "f.tflite")
    with pytest.raises(UsageError, match="2 signatures, and none of them is") as caught:
        find_entry(model, None, "f.tflite")
    assert caught.value.details == ("encode: sound -> louder", "decode: sound -> louder")
