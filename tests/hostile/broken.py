"""Broken files, each made by a function that says what is wrong with it.

A function writes into a folder, and gives the arguments of ``modelyard convert`` that read it.
"""

from __future__ import annotations

import io
import json
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.acceptance.cli import small_cnn

Maker = Callable[[Path], list[str]]

_info = helper.make_tensor_value_info


def _model(folder: Path, model: onnx.ModelProto) -> list[str]:
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    return ["m.onnx"]


def _relu(shape: list[int | str] | None = None) -> onnx.ModelProto:
    """One Relu of a tensor of that shape, called x and y."""
    shape = [2] if shape is None else shape
    node = helper.make_node("Relu", ["x"], ["y"], "relu")
    ports = [[_info(name, TensorProto.FLOAT, shape)] for name in "xy"]
    return _whole(helper.make_graph([node], "g", *ports))


def _whole(graph: onnx.GraphProto, **more: object) -> onnx.ModelProto:
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, **more
    )


# -- ONNX --------------------------------------------------------------------------------


def no_utf8(old: bytes) -> Maker:
    """A file in which a name (of as many bytes) is no UTF-8."""

    def make(folder: Path) -> list[str]:
        model = _relu(["batch", 4])
        model.graph.node[0].name, model.graph.doc_string = "relu", "docs"
        model.producer_name = "maker"
        helper.set_model_props(model, {"what": "ever"})
        content = model.SerializeToString()
        assert old in content
        bad = old[:-2] + b"\xff\xfe"
        (folder / "m.onnx").write_bytes(content.replace(old, bad))
        return ["m.onnx"]

    return make


def nul_in_a_location(folder: Path) -> list[str]:
    model = _with_weights(numpy_helper.from_array(np.ones(4, np.float32), "w"))
    (tensor,) = model.graph.initializer
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="w\0.bin")
    return _model(folder, model)


def no_utf8_in_a_location(folder: Path) -> list[str]:
    nul_in_a_location(folder)
    path = folder / "m.onnx"
    path.write_bytes(path.read_bytes().replace(b"w\0.bin", b"w\xff.bin"))
    return ["m.onnx"]


def _with_weights(weights: TensorProto) -> onnx.ModelProto:
    node = helper.make_node("Add", ["x", "w"], ["y"], "add")
    ports = [[_info(name, TensorProto.FLOAT, [4])] for name in "xy"]
    return _whole(helper.make_graph([node], "g", *ports, initializer=[weights]))


def huge_dimension(folder: Path) -> list[str]:
    return _model(folder, _relu([2**62]))


def huge_dimensions(folder: Path) -> list[str]:
    return _model(folder, _relu([2**62, 2**62, "batch"]))


def huge_constant(folder: Path) -> list[str]:
    nodes = [
        helper.make_node("Constant", [], ["s"], "s", value_ints=[2**62]),
        helper.make_node("Expand", ["x", "s"], ["y"], "expand"),
    ]
    ports = [_info("x", TensorProto.FLOAT, [1])], [_info("y", TensorProto.FLOAT, ["n"])]
    return _model(folder, _whole(helper.make_graph(nodes, "g", *ports)))


def huge_weights(folder: Path) -> list[str]:
    tensor = numpy_helper.from_array(np.ones(4, np.float32), "w")
    tensor.dims[:] = [2**62, 2**62]
    return _model(folder, _with_weights(tensor))


def rank_2000(folder: Path) -> list[str]:
    return _model(folder, _relu([1] * 2000))


def weights_of_rank_2000(folder: Path) -> list[str]:
    tensor = numpy_helper.from_array(np.ones(1, np.float32), "w")
    tensor.dims[:] = [1] * 2000
    return _model(folder, _with_weights(tensor))


def chained_functions(folder: Path) -> list[str]:
    """150 functions, each of which calls the next: more than is taken."""
    count, opsets = 150, [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)]
    functions = [
        helper.make_function(
            "f", f"F{i}", ["a"], ["b"],
            [helper.make_node(*((f"F{i + 1}", ["a"], ["b"]) if i + 1 < count
                                else ("Relu", ["a"], ["b"])),
                              domain="f" if i + 1 < count else "")],
            opsets,
        )
        for i in range(count)
    ]  # fmt: skip
    node = helper.make_node("F0", ["x"], ["y"], "call", domain="f")
    ports = [[_info(name, TensorProto.FLOAT, [2])] for name in "xy"]
    model = helper.make_model(
        helper.make_graph([node], "g", *ports), functions=functions, opset_imports=opsets,
        ir_version=8,
    )  # fmt: skip
    return _model(folder, model)


def function_of_itself(folder: Path) -> list[str]:
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)]
    inner = helper.make_node("F", ["a"], ["b"], domain="f")
    function = helper.make_function("f", "F", ["a"], ["b"], [inner], opsets)
    node = helper.make_node("F", ["x"], ["y"], "call", domain="f")
    ports = [[_info(name, TensorProto.FLOAT, [2])] for name in "xy"]
    model = helper.make_model(
        helper.make_graph([node], "g", *ports), functions=[function], opset_imports=opsets,
        ir_version=8,
    )  # fmt: skip
    return _model(folder, model)


def function_of_opset(version: int) -> Maker:
    """A function that says that it is of that opset."""

    def make(folder: Path) -> list[str]:
        opsets = [helper.make_opsetid("", version)]
        body = [helper.make_node("Relu", ["a"], ["b"])]
        model = _relu()
        model.graph.node[0].op_type, model.graph.node[0].domain = "F", "own"
        model.opset_import.append(helper.make_opsetid("own", 1))
        model.functions.append(helper.make_function("own", "F", ["a"], ["b"], body, opsets))
        return _model(folder, model)

    return make


def nested_bodies(folder: Path) -> list[str]:
    """An If in an If, as deep as protobuf reads (100 levels, of which each takes three)."""
    flat = inner = _body(helper.make_node("Relu", ["x"], ["b"]))
    for _ in range(30):
        inner = _body(helper.make_node("If", ["c"], ["b"], then_branch=inner, else_branch=flat))
    inner.input.extend([_info("x", TensorProto.FLOAT, [2]), _info("c", TensorProto.BOOL, [])])
    return _model(folder, _whole(inner))


def _body(node: onnx.NodeProto) -> onnx.GraphProto:
    return helper.make_graph([node], "g", [], [_info("b", TensorProto.FLOAT, [2])])


def metadata(text: str) -> Maker:
    def make(folder: Path) -> list[str]:
        model = _relu()
        helper.set_model_props(model, {"modelyard": text})
        return _model(folder, model)

    return make


def attribute_of_another_type(folder: Path) -> list[str]:
    model = _relu()
    node = model.graph.node[0]
    node.op_type = "Softmax"
    node.attribute.append(helper.make_attribute("axis", "one"))
    return _model(folder, model)


def shapes_that_contradict(folder: Path) -> list[str]:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], "mul")]
    weights = numpy_helper.from_array(np.ones((3, 3), np.float32), "w")
    ports = [_info("x", TensorProto.FLOAT, [2, 4])], [_info("y", TensorProto.FLOAT, [2, 3])]
    return _model(folder, _whole(helper.make_graph(nodes, "g", *ports, initializer=[weights])))


def axis_beyond(folder: Path) -> list[str]:
    node = helper.make_node("Concat", ["x", "x"], ["y"], "join", axis=2**40)
    ports = [[_info(name, TensorProto.FLOAT, None)] for name in "xy"]
    return [*_model(folder, _whole(helper.make_graph([node], "g", *ports))), "--input", "x:2x2"]


def wrong_data_type(folder: Path) -> list[str]:
    model = _relu()
    model.graph.input[0].type.tensor_type.elem_type = 4711
    return _model(folder, model)


def taken_before_made(folder: Path) -> list[str]:
    """A branch that takes what a later node makes, in a format that has to be written anew."""
    branches = [_body(helper.make_node("Neg", [name], ["b"], name)) for name in ("x", "later")]
    nodes = [
        helper.make_node("If", ["c"], ["y"], "if", then_branch=branches[0],
                         else_branch=branches[1]),
        helper.make_node("Relu", ["x"], ["later"], "relu"),
    ]  # fmt: skip
    ports = [_info("x", TensorProto.FLOAT, [2]), _info("c", TensorProto.BOOL, [])]
    model = _whole(helper.make_graph(nodes, "g", ports, [_info("y", TensorProto.FLOAT, [2])]))
    model.ir_version = 13
    return _model(folder, model)


# -- Core ML -----------------------------------------------------------------------------


def package(manifest: object) -> Maker:
    """A package with that manifest and a model of random bytes."""

    def make(folder: Path) -> list[str]:
        data = folder / "m.mlpackage/Data/com.apple.CoreML"
        data.mkdir(parents=True)
        (data / "model.mlmodel").write_bytes(np.random.default_rng(0).bytes(500))
        text = manifest if isinstance(manifest, str) else json.dumps(manifest)
        (folder / "m.mlpackage/Manifest.json").write_text(text)
        return ["m.mlpackage"]

    return make


ENTRY = {"path": "com.apple.CoreML/model.mlmodel", "name": "model.mlmodel",
          "author": "com.apple.CoreML", "description": ""}  # fmt: skip


# -- PyTorch -----------------------------------------------------------------------------


def torchscript(names: list[str]) -> Maker:
    """An archive with the entries of TorchScript, and odd ones."""

    def make(folder: Path) -> list[str]:
        with zipfile.ZipFile(folder / "m.pt", "w") as archive:
            for name in ("m/constants.pkl", "m/code/m.py", "m/data.pkl", "m/version", *names):
                archive.writestr(name, b"\x80\x02N.")
        return ["m.pt", "--input", "x:2x2"]

    return make


def torchscript_bytes(old: bytes, new: bytes) -> Maker:
    def make(folder: Path) -> list[str]:
        torchscript(["m/name.txt"])(folder)
        content = (folder / "m.pt").read_bytes()
        assert old in content
        (folder / "m.pt").write_bytes(content.replace(old, new))
        return ["m.pt", "--input", "x:2x2"]

    return make


NET = """import torch
class Net(torch.nn.Linear):
    def __init__(self): super().__init__(2, 2)
"""


def weights(content: bytes, name: str = "w.safetensors") -> Maker:
    """A class, and a file of weights for it."""

    def make(folder: Path) -> list[str]:
        (folder / "net.py").write_text(NET)
        (folder / name).write_bytes(content)
        return ["net.py:Net", "--weights", name, "--input", "x:batchx2"]

    return make


def safetensors(header: bytes, length: int | None = None) -> bytes:
    return struct.pack("<Q", len(header) if length is None else length) + header + bytes(16)


def zipped(**entries: bytes) -> bytes:
    with zipfile.ZipFile(made := io.BytesIO(), "w") as archive:
        for name, content in entries.items():
            archive.writestr(name.replace("__", "/"), content)
    return made.getvalue()


# -- Hugging Face ------------------------------------------------------------------------


def hugging_face(
    config: bytes, weights: bytes = b"", index: bytes = b"", images: bytes = b""
) -> Maker:
    def make(folder: Path) -> list[str]:
        (folder / "hf").mkdir()
        (folder / "hf/config.json").write_bytes(config)
        (folder / "hf/model.safetensors").write_bytes(weights or safetensors(b"{}"))
        if images:
            (folder / "hf/preprocessor_config.json").write_bytes(images)
        if index:
            (folder / "hf/model.safetensors").unlink()
            (folder / "hf/model.safetensors.index.json").write_bytes(index)
        return ["hf"]

    return make


BERT = json.dumps({
    "model_type": "bert", "architectures": ["BertModel"], "hidden_size": 8, "num_hidden_layers": 1,
    "num_attention_heads": 1, "intermediate_size": 8, "vocab_size": 10,
}).encode()  # fmt: skip
RESNET = b"""{"model_type": "resnet", "architectures": ["ResNetForImageClassification"],
"embedding_size": 8, "hidden_sizes": [8], "depths": [1]}"""


# -- Keras -------------------------------------------------------------------------------


def h5(config: object = None, *, cut: int = 0, break_at: int = 0) -> Maker:
    """A file of Keras 2 with that configuration; cut short, or with bytes changed."""

    def make(folder: Path) -> list[str]:
        with h5py.File(folder / "m.h5", "w") as file:
            if config is not None:
                file.attrs["model_config"] = (
                    config if isinstance(config, str | bytes) else json.dumps(config)
                )
            file.attrs["keras_version"], file.attrs["backend"] = b"2.9.0", b"tensorflow"
            group = file.create_group("model_weights")
            group.attrs["layer_names"] = np.array([b"d"])
            group.create_group("d").attrs["weight_names"] = np.array([b"d/kernel:0"])
            group["d"]["d/kernel:0"] = np.ones((4, 2), np.float32)
        path = folder / "m.h5"
        content = bytearray(path.read_bytes())
        if cut:
            content = content[:-cut]
        if break_at:
            content[break_at : break_at + 64] = b"\xff" * 64
        path.write_bytes(content)
        return ["m.h5"]

    return make


def dense(**more: object) -> dict[str, object]:
    layer = {"class_name": "Dense", "config": {
        "name": "d", "units": 2, "use_bias": False, "batch_input_shape": [None, 4], **more,
    }}  # fmt: skip
    return {"class_name": "Sequential", "config": {"name": "s", "layers": [layer]}}


def nested(depth: int) -> dict[str, object]:
    """A Sequential in a Sequential."""
    made = dense()
    for _ in range(depth):
        made = {"class_name": "Sequential", "config": {"name": "s", "layers": [made]}}
    return made


def keras(config: bytes, weights: bytes = b"no hdf5", metadata: bytes = b"{}") -> Maker:
    entries = {"config.json": config, "metadata.json": metadata, "model.weights.h5": weights}
    return any_file("m.keras", zipped(**entries))


def deep(depth: int = 100_000) -> str:
    return "[" * depth + "]" * depth


# -- TensorFlow --------------------------------------------------------------------------


def saved_model(content: bytes) -> Maker:
    def make(folder: Path) -> list[str]:
        (folder / "sm/variables").mkdir(parents=True)
        (folder / "sm/saved_model.pb").write_bytes(content)
        return ["sm"]

    return make


def any_file(name: str, content: bytes, *args: str) -> Maker:
    def make(folder: Path) -> list[str]:
        (folder / name).write_bytes(content)
        return [name, *args]

    return make


# -- samples and recipes -----------------------------------------------------------------


def samples(name: str, content: bytes, *args: str) -> Maker:
    """A good model, and samples in a file."""

    def make(folder: Path) -> list[str]:
        small_cnn(folder / "m.onnx")
        (folder / name).write_bytes(content)
        return ["m.onnx", "--samples", name, *args]

    return make


def npy(header: str | bytes, *, version: bytes = b"\1\0", data: int = 16) -> bytes:
    """An array's file with that header."""
    text = header.encode() if isinstance(header, str) else header
    size = struct.pack("<H" if version == b"\1\0" else "<I", len(text))
    return b"\x93NUMPY" + version + size + text + bytes(data)


def header(descr: str = "'<f4'", shape: str = "(4,)", order: str = "False") -> str:
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n"


def npz(*headers: str, compression: int = zipfile.ZIP_STORED) -> bytes:
    with zipfile.ZipFile(made := io.BytesIO(), "w", compression) as archive:
        for number, text in enumerate(headers):
            archive.writestr(f"{number or 'image'}.npy", npy(text))
    return made.getvalue()


def recipe(text: str | bytes) -> Maker:
    def make(folder: Path) -> list[str]:
        small_cnn(folder / "m.onnx")
        content = text.encode() if isinstance(text, str) else text
        (folder / "r.yaml").write_bytes(content)
        return ["run", "r.yaml"]

    return make
