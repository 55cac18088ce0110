"""Small good files of every kind: ``python -m tests.hostile.good GROUP FOLDER`` makes them.

It takes the frameworks, so that they are made once. ``FOLDER/KIND/VARIANT/`` is a folder to run a
command in; what is damaged in it are the files whose names begin with ``m``.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

Place = Callable[[str, str, str], Path]

NET = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.Linear(4, 8), torch.nn.Linear(8, 3)

    def forward(self, x):
        return self.last(torch.relu(self.first(x)))
"""

_GRAPHS = {
    "control": """g (float[n, 4] x, bool c, int64[k] ids) => (float[n, 4] y, float[k, 4] e)
        <float[9, 4] table> {
        [pick] z = If (c) <
            then_branch = yes () => (float[n, 4] a) {
                two = Constant <value = float {2}> () a = Mul (x, two) },
            else_branch = no () => (float[n, 4] b) { b = Neg (x) }>
        count = Constant <value = int64 {3}> ()
        [turn] y = Loop (count, , z) <
            body = body (int64 i, bool go, float[n, 4] s) => (bool on, float[n, 4] t) {
            on = Identity (go) t = Tanh (s) }>
        e = Gather (table, ids) }""",
    "small": """g (float[batch, 4] x) => (float[batch, 2, 2] y)
        <int64[3] shape = {-1, 2, 2}, float scale = {0.1}, int8 zero = {3}> {
        q = QuantizeLinear (x, scale, zero) d = DequantizeLinear (q, scale, zero)
        s = Softmax <axis = 1> (d) [cast] c = Cast <to = 1> (s) y = Reshape (c, shape) }""",
}
_FUNCTIONS = """<ir_version: 8, opset_import: ["" : 17, "own" : 1]>
    g (float[batch, 4] x) => (float[batch, 4] y) { a = own.twice <by = 2.0> (x) y = own.quad (a) }
    <domain: "own", opset_import: ["" : 17]> twice <by> (x) => (y) {
        b = Constant <value_float : float = @by> () y = Mul (x, b) }
    <domain: "own", opset_import: ["" : 17, "own" : 1]> quad (x) => (y) {
        a = own.twice <by = 2.0> (x) y = own.twice <by = 2.0> (a) }
"""


def _plain(folder: Path) -> None:
    from converter import api
    from tests.acceptance.cli import images, small_cnn, written

    def place(kind: str, variant: str, file: str) -> Path:
        path = folder / kind / variant / file
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    table = np.ones((9, 4), np.float32)
    small_cnn(place("onnx", "cnn", "m.onnx"), channels=4)
    written(place("onnx", "control", "m.onnx"), _GRAPHS["control"], table=table)
    written(place("onnx", "small", "m.onnx"), _GRAPHS["small"])
    _other_onnx(place)
    ref = small_cnn(place("cache", "default", "ref.onnx"), channels=4)
    api.convert(str(ref), to="onnx", samples="random:1", bench=False, out=str(folder / "out"))
    shutil.rmtree(folder / "out")
    out = folder / "out"
    with_cnn = {"bench": False, "samples": "random:2", "cache": False}
    api.convert(
        str(ref), to=["onnx", "tflite", "coreml"], out=str(out), serve=["triton"], **with_cnn
    )
    for variant in ("inspect", "check", "diff"):
        shutil.copy(ref, place("report", variant, "ref.onnx"))
        shutil.copytree(out, place("report", variant, "m"), dirs_exist_ok=True)
    shutil.copy(next(out.rglob("*.tflite")), place("tflite", "ours", "m.tflite"))
    shutil.copytree(next(out.rglob("*.mlpackage")), place("coreml", "package", "m.mlpackage"))
    shutil.rmtree(out)
    _tflite_and_coreml(place)
    for variant, source in (("npz", "m.npz"), ("npy", "m.npy"), ("folder", "m/0.npz"),
                            ("images", "m/0.png"), ("labels", "m.csv"),
                            ("names", "m.txt")):  # fmt: skip
        shutil.copy(ref, place("samples", variant, "ref.onnx"))
        path = place("samples", variant, source)
        if path.suffix == ".npz":
            images(path, 2)
        elif path.suffix == ".png":
            _pictures(path)
        elif path.suffix == ".npy":
            np.save(path, np.zeros((2, 3, 16, 16), np.float32))
        else:
            for name in ("x.npz", "x/0.npz", "x/1.npz"):
                images(place("samples", variant, name), 1)
            named = [f"class {i}" for i in range(10)]
            path.write_text(
                "\n".join(named if variant == "names" else ["file,label", "0.npz,1", "1.npz,2"])
            )
    place("samples", "table", "m.csv").write_text("a,b,c,d,label\n1,2,3,4,0\n5,6e3,-7,8.5,1\n")
    written(folder / "samples/table/ref.onnx", _GRAPHS["small"])
    _recipes(place)


def _other_onnx(place: Place) -> None:
    import onnx
    from onnx import helper, numpy_helper

    from tests.acceptance.cli import small_cnn

    whole = onnx.load(small_cnn(place("onnx", "external", "m.onnx"), channels=4))
    onnx.save(whole, place("onnx", "external", "m.onnx"), save_as_external_data=True,
              location="mw.bin", size_threshold=0)  # fmt: skip
    onnx.save(onnx.parser.parse_model(_FUNCTIONS), place("onnx", "functions", "m.onnx"))
    values = numpy_helper.from_array(np.array([1, 2], np.float32), "w")
    at = numpy_helper.from_array(np.array([[0, 1], [2, 3]]), "w_at")
    sparse = helper.make_sparse_tensor(values, at, [4, 4])
    info, node = helper.make_tensor_value_info, helper.make_node
    graph = helper.make_graph([node("MatMul", ["x", "w"], ["y"])], "g", [info("x", 1, ["n", 4])],
                              [info("y", 1, ["n", 4])], sparse_initializer=[sparse])  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    helper.set_model_props(model, {"a": "b"})
    onnx.save(model, place("onnx", "sparse", "m.onnx"))


def _tflite_and_coreml(place: Place) -> None:
    from tests.coreml.test_hostile import KERNEL
    from tests.coreml.test_older_networks import Net
    from tests.tflite.real import real_file

    shutil.copy(real_file("alexa"), place("tflite", "alexa", "m.tflite"))
    net = Net((3, 8, 8))
    net.add("convolution", "x", "a", outputChannels=4, kernelChannels=3, kernelSize=[3, 3],
            valid={}, weights__floatValue=KERNEL)  # fmt: skip
    net.add("pooling", "a", "b", kernelSize=[2, 2], stride=[2, 2], same={})
    net.add("split", "b", "d e", nOutputs=2).add("concat", "d e b", "y")
    shutil.copy(net.gives("y").save(place("coreml", "network", "net").parent),
                place("coreml", "network", "m.mlmodel"))  # fmt: skip
    for other in (place("coreml", "network", "m.mlmodel").parent).iterdir():
        if not other.name.startswith("m."):
            other.unlink()


def _pictures(path: Path) -> None:
    from PIL import Image

    rng = np.random.default_rng(0)
    for name, mode in (
        ("0.png", "RGB"),
        ("1.jpg", "RGB"),
        ("2.bmp", "L"),
        ("3.png", "P"),
        ("4.webp", "RGB"),
    ):
        picture = Image.fromarray(
            rng.integers(0, 255, (16, 16, 3), np.uint8).astype(np.uint8)
        ).convert(mode)
        picture.save(path.with_name(name))


def _recipes(place: Place) -> None:
    import yaml

    import recipes

    shipped = sorted(Path(recipes.__file__).parent.glob("*.yaml"))
    every = {"precision": "fp32,int8", "input": ["x:batchx4"], "dim": {"n": 3}, "labels": "none",
             "metric": ["top1"], "min-cosine": 0.99, "batch": "dynamic", "seed": 3,
             "image-mean": [1, 2, 3.5], "arg": {"a": [1, {"b": None}]}, "to": ["onnx", "tflite"],
             "bench-batch": [1, 8], "fix": ["a=1"], "name": "net"}  # fmt: skip
    for path in (*shipped, Path("every.yaml")):
        given = every if path.stem == "every" else yaml.safe_load(path.read_text())
        target = place("recipe", path.stem, "m.yaml")
        target.with_name("cut.onnx").write_bytes(b"\x08\x08\x12\x09")
        source = {"source": "cut.onnx"}
        if "parts" in given:
            source = {"parts": {name: {**part, **source} for name, part in given["parts"].items()}}
        text = yaml.safe_dump({**given, **source, "out": "out"}, sort_keys=False)
        target.write_text(text)


def _torch(folder: Path) -> None:
    import torch

    space: dict[str, type] = {}
    exec(NET, space)
    torch.manual_seed(0)
    net, x = space["Net"]().eval(), torch.zeros(2, 4)
    for variant in ("script", "untrusted", "program", "state", "legacy", "safetensors"):
        place = folder / "torch" / variant
        place.mkdir(parents=True)
        if variant in ("state", "legacy"):
            torch.save(
                net.state_dict(), place / "m.pth", _use_new_zipfile_serialization=variant == "state"
            )
        elif variant == "program":
            torch.export.save(torch.export.export(net, (x,)), place / "m.pt2")
        elif variant == "safetensors":
            from safetensors.torch import save_file

            save_file(net.state_dict(), place / "m.safetensors")
        else:
            torch.jit.trace(net, x).save(str(place / "m.pt"))
        if variant in ("state", "legacy", "safetensors"):
            (place / "net.py").write_text(NET)


def _huggingface(folder: Path) -> None:
    from tests.huggingface.models import save

    for name in ("bert-classes", "resnet"):
        place = folder / "huggingface" / name / "m"
        place.mkdir(parents=True)
        save(name, place)


def _tensorflow(folder: Path) -> None:
    import keras
    import tensorflow as tf

    keras.utils.set_random_seed(0)
    layers = keras.layers
    net = keras.Sequential([keras.Input((6, 6, 3)), layers.Conv2D(2, 3, name="conv"), layers.ReLU(),
                            layers.BatchNormalization(), layers.Flatten(),
                            layers.Dense(2)])  # fmt: skip
    for name in ("h5", "keras"):
        (folder / "keras" / name).mkdir(parents=True)
        net.save(folder / "keras" / name / f"m.{name}")
    call = tf.function(lambda x: net(x), input_signature=[tf.TensorSpec([None, 6, 6, 3], name="x")])
    saved = folder / "tensorflow/saved/m"
    module = tf.Module()
    module.net, module.call = net, call
    tf.saved_model.save(module, str(saved), signatures=call)
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    frozen = convert_variables_to_constants_v2(call.get_concrete_function())
    tf.io.write_graph(frozen.graph, str(folder / "tensorflow/frozen"), "m.pb", as_text=False)


if __name__ == "__main__":
    {"plain": _plain, "torch": _torch, "huggingface": _huggingface, "tensorflow": _tensorflow}[
        sys.argv[1]
    ](Path(sys.argv[2]))
