"""Makers of broken files, for tables that say what is wrong with each.

A maker writes into a folder, and gives the arguments of ``modelyard convert`` that read it.
"""

from __future__ import annotations

import io
import json
import struct
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import h5py
import numpy as np
import onnx

Maker = Callable[[Path], list[str]]


def files(line: str, contents: Mapping[str, bytes]) -> Maker:
    """Files by path, read by that line."""

    def make(folder: Path) -> list[str]:
        for name, content in contents.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        return line.split()

    return make


def deep(depth: int = 100_000) -> str:
    return "[" * depth + "]" * depth


# -- ONNX --------------------------------------------------------------------------------

RELU = "g (float[2] x) => (float[2] y) { [relu] y = Relu (x) }"


def parsed(text: str, ir_version: int = 8) -> onnx.ModelProto:
    """A model of ONNX's text, its header left out; of functions of the domain ``f``, too."""
    head = f'<ir_version: {ir_version}, opset_import: ["" : 17, "f" : 1], producer_name: "maker">'
    return onnx.parser.parse_model(f"{head} {text}")


def onnx_file(
    text: str, old: bytes = b"", new: bytes = b"", *, args: str = "", ir_version: int = 8
) -> Maker:
    """A file of such a model, in which some bytes are as many others."""
    content = parsed(text, ir_version).SerializeToString()
    assert old in content and len(old) == len(new)
    return files(f"m.onnx {args}", {"m.onnx": content.replace(old, new)})


def calling(*functions: str) -> str:
    """A model that calls ``F0``, and functions ``F0``, ``F1`` and so on, of a body each."""
    head = '<domain: "f", opset_import: ["" : 17, "f" : 1]>'
    made = [f"{head} F{i} (a) => (b) {{ {body} }}" for i, body in enumerate(functions)]
    return "\n".join(["g (float[n, 4] x) => (float[n, 4] y) { [call] y = f.F0 (x) }", *made])


def chain(functions: int, calls: int = 1) -> str:
    """A model of functions each of which calls the next so often, one after another."""
    names = ["a", *(f"t{i}" for i in range(1, calls)), "b"]
    places = list(zip(names[1:], names, strict=False))
    called = [*(f"f.F{i}" for i in range(1, functions)), "Neg"]
    return calling(*(" ".join(f"{o} = {name} ({i})" for o, i in places) for name in called))


def nested_ifs(depth: int) -> str:
    flat = inner = "g () => (float[2] b) { b = Relu (x) }"
    for _ in range(depth):
        inner = (
            f"g () => (float[2] b) {{ b = If (c) <then_branch = {inner}, else_branch = {flat}> }}"
        )
    return inner.replace("()", "(float[2] x, bool c)", 1)


def metadata(text: str) -> onnx.ModelProto:
    """A model with that in its metadata, where ours has its own."""
    model = parsed(RELU)
    onnx.helper.set_model_props(model, {"modelyard": text})
    return model


# -- Core ML, PyTorch and Hugging Face ---------------------------------------------------


def package(manifest: object) -> Maker:
    """A package with that manifest and a model of random bytes."""
    text = manifest if isinstance(manifest, str) else json.dumps(manifest)
    model = np.random.default_rng(0).bytes(500)
    return files("m.mlpackage", {
        "m.mlpackage/Data/com.apple.CoreML/model.mlmodel": model,
        "m.mlpackage/Manifest.json": text.encode(),
    })  # fmt: skip


def item(**more: str) -> dict[str, object]:
    """A package's manifest, with something else in its entry."""
    entry = {"path": "com.apple.CoreML/model.mlmodel", "name": "model.mlmodel",
             "author": "com.apple.CoreML", "description": "", **more}  # fmt: skip
    entries = {"itemInfoEntries": {"a": entry}, "rootModelIdentifier": "a"}
    return {"fileFormatVersion": "1.0.0", **entries}


def zipped(entries: Mapping[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    with zipfile.ZipFile(made := io.BytesIO(), "w", compression) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return made.getvalue()


def torchscript(*names: str) -> bytes:
    """An archive with the entries of TorchScript, and odd ones."""
    usual = ("m/constants.pkl", "m/code/m.py", "m/data.pkl", "m/version")
    return zipped(dict.fromkeys((*usual, *names), b"\x80\x02N."))


NET = b"""import torch
class Net(torch.nn.Linear):
    def __init__(self): super().__init__(2, 2)
"""


def weights(content: bytes) -> Maker:
    """A class, and a file of weights for it."""
    line = "net.py:Net --weights w.safetensors --input x:batchx2"
    return files(line, {"net.py": NET, "w.safetensors": content})


def safetensors(header: bytes, length: int | None = None) -> bytes:
    return struct.pack("<Q", len(header) if length is None else length) + header + bytes(16)


BERT = json.dumps({
    "model_type": "bert", "architectures": ["BertModel"], "hidden_size": 8, "num_hidden_layers": 1,
    "num_attention_heads": 1, "intermediate_size": 8, "vocab_size": 10,
}).encode()  # fmt: skip
RESNET = b"""{"model_type": "resnet", "architectures": ["ResNetForImageClassification"],
"embedding_size": 8, "hidden_sizes": [8], "depths": [1]}"""


def hugging_face(config: bytes, weights: bytes = b"", **others: bytes) -> Maker:
    """A folder with that configuration, with these weights or with other files of JSON."""
    contents = {f"hf/{name.replace('__', '.')}.json": data for name, data in others.items()}
    if "model__safetensors__index" not in others:
        contents["hf/model.safetensors"] = weights or safetensors(b"{}")
    return files("hf", {"hf/config.json": config, **contents})


# -- Keras -------------------------------------------------------------------------------


def h5(config: object, *, cut: int = 0, break_at: int = 0) -> Maker:
    """A file of Keras 2 with that configuration; cut short, or with bytes changed."""
    with h5py.File(made := io.BytesIO(), "w") as file:
        file.attrs["model_config"] = json.dumps(config)
        file.attrs["keras_version"], file.attrs["backend"] = b"2.9.0", b"tensorflow"
        group = file.create_group("model_weights")
        group.attrs["layer_names"] = np.array([b"d"])
        group.create_group("d").attrs["weight_names"] = np.array([b"d/kernel:0"])
        group["d"]["d/kernel:0"] = np.ones((4, 2), np.float32)
    content = bytearray(made.getvalue())
    content = content[: len(content) - cut]
    if break_at:
        content[break_at : break_at + 64] = b"\xff" * 64
    return files("m.h5", {"m.h5": bytes(content)})


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


# -- samples -----------------------------------------------------------------------------


def npy(text: str | bytes) -> bytes:
    """An array's file with that header."""
    head = text.encode() if isinstance(text, str) else text
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head + bytes(16)


def header(descr: str = "'<f4'", shape: str = "(4,)") -> str:
    return f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n"
