"""Neural networks until iOS12, written as protobufs: values by numpy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from converter.errors import ModelError, UnsupportedError
from converter.ir.model import Model
from converter.options.request import Request
from modelyard.containers.coreml import coremltools
from parsers.coreml.importer import read
from parsers.coreml.parser import CoremlParser
from tests.coreml.running import Array, agrees, drawing, run

F = np.float32
X = drawing(12, -2, 2)(1, 3, 4, 5)


class Net:
    """A network that is being written."""

    def __init__(self, shape: tuple[int, ...] = (3, 4, 5), kind: str = "neuralNetwork") -> None:
        coremltools()
        from coremltools.proto import Model_pb2

        self.spec = Model_pb2.Model(specificationVersion=1)
        self.message = getattr(self.spec, kind)
        self.message.SetInParent()
        self.expected: dict[str, Any] = {}
        array = self.spec.description.input.add(name="x").type.multiArrayType
        array.shape.extend(shape)
        array.dataType = array.FLOAT32

    def add(self, kind: str, inputs: str, outputs: str, *expected: Any, **fields: Any) -> Net:
        """A layer, and what its outputs are, where they are checked. ``a__b`` is the field b of the
        field a; numbers are appended where they are several; ``{}`` says that the field is there.
        """
        self.expected |= dict(zip(outputs.split(), expected, strict=False))
        layer = self.message.layers.add(name=f"{kind}_{outputs.replace(' ', '_')}")
        layer.input.extend(inputs.split())
        layer.output.extend(outputs.split())
        getattr(layer, kind).SetInParent()
        for name, value in fields.items():
            *path, last = name.split("__")
            at = getattr(layer, kind)
            for part in path:
                at = getattr(at, part)
            if isinstance(value, list | np.ndarray):
                getattr(at, last).extend(np.ravel(value).tolist())
            elif isinstance(value, dict):
                getattr(at, last).SetInParent()
            else:
                setattr(at, last, value)
        return self

    def gives(self, *names: str, shape: tuple[int, ...] = ()) -> Net:
        """Its outputs."""
        for name in names:
            array = self.spec.description.output.add(name=name).type.multiArrayType
            array.shape.extend(shape)
            array.dataType = array.FLOAT32
        return self

    def model(self, folder: Path) -> Model:
        """It, read from a file."""
        return read(self.save(folder))

    def save(self, folder: Path) -> Path:
        """It as a file."""
        path = folder / "net.mlmodel"
        path.write_bytes(self.spec.SerializeToString())
        return path

    def check(self, folder: Path, x: Array = X, tolerance: float | None = None) -> None:
        """Asserts what its layers give."""
        found = run(self.gives(*self.expected).model(folder), {"x": x})
        for value, wanted in zip(found, self.expected.values(), strict=True):
            agrees(value, np.asarray(wanted).astype(F), tolerance)


def test_reorders(tmp_path: Path) -> None:
    net, last = Net(), X.transpose(0, 2, 3, 1)
    net.add("flatten", "x", "a", X.reshape(1, 60, 1, 1), mode=0)
    net.add("flatten", "x", "b", last.reshape(1, 60, 1, 1), mode=1)
    net.add("reshape", "x", "c", X.reshape(1, 6, 2, 5), targetShape=[6, 2, 5], mode=0)
    turned = last.reshape(1, 2, 5, 6).transpose(0, 3, 1, 2)
    net.add("reshape", "x", "d", turned, targetShape=[1, 6, 2, 5], mode=1)
    net.add("permute", "x", "e", X.transpose(0, 3, 1, 2), axis=[0, 3, 1, 2])
    net.add("concat", "x x", "f", np.concatenate([X, X], 1))
    net.add("slice", "x", "g", X[..., 1:-1:2], startIndex=1, endIndex=-1, stride=2, axis=2)
    net.check(tmp_path)


def test_arithmetic(tmp_path: Path) -> None:
    net, real = Net(), drawing(1)
    scale, bias, constant = real(3), real(3, 4, 5), real(3, 1, 1)
    a, b, h = X + constant + X, X * F(2.5), np.abs(2 * X + F(0.5))
    net.add("loadConstant", "", "k", shape=[3, 1, 1], data__floatValue=constant)
    net.add("add", "x k x", "a", a)
    net.add("multiply", "x", "b", b, alpha=2.5)
    net.add("average", "x a", "c", (X + a) / 2)
    net.add("max", "x a b", "d", np.maximum(np.maximum(X, a), b))
    net.add("min", "x a b", "e", np.minimum(np.minimum(X, a), b))
    how: dict[str, Any] = {"shapeScale": [3], "shapeBias": [3, 4, 5], "hasBias": True}
    how |= {"scale__floatValue": scale, "bias__floatValue": bias}
    net.add("scale", "x", "f", X * scale.reshape(3, 1, 1) + bias, **how)
    net.add("bias", "x", "g", X + F(0.5), shape=[1], bias__floatValue=[0.5])
    net.add("unary", "x", "h", h, type=6, scale=2.0, shift=0.5)
    net.add("unary", "h", "i", h ** F(1.5), type=3, alpha=1.5)
    net.check(tmp_path)


def test_reductions_softmax_and_splits(tmp_path: Path) -> None:
    net, x = Net((4, 3, 5)), drawing(2, 0.1, 2)(1, 4, 3, 5)
    power, mean = np.exp(x), x.mean((1, 2, 3), keepdims=True)
    logarithms = np.log(x + 1e-6).sum((2, 3), keepdims=True)
    net.add("reduce", "x", "a", mean, mode=1, axis=0)
    net.add("reduce", "x", "b", logarithms, mode=3, axis=1)
    net.add("reduce", "x", "c", x.argmax(1, keepdims=True), mode=9, axis=2)
    net.add("softmax", "x", "d", power / power.sum(1, keepdims=True))
    net.add("split", "x", "e f", x[:, :2], x[:, 2:], nOutputs=2)
    net.add("mvn", "x", "g", x - mean, acrossChannels=True)
    net.add("pooling", "x", "h", x.mean((2, 3), keepdims=True), type=1, globalPooling=True)
    net.check(tmp_path, x)


def _classifier(net: Net) -> Array:
    """A convolution of two channels, and a matrix, with probabilities of three classes."""
    real = drawing(3)
    kernel, matrix = real(2, 3, 4, 5), real(3, 2)
    sizes = {"outputChannels": 2, "kernelChannels": 3, "kernelSize": [4, 5]}
    net.add("convolution", "x", "a", **sizes, valid={}, weights__floatValue=kernel)
    _inner(net, "a", "b", 2, 3, weights__floatValue=matrix)
    net.add("softmax", "b", "scores")
    return np.asarray(np.einsum("ochw,ko->chwk", kernel, matrix))


def _inner(net: Net, x: str, y: str, channels: int, outputs: int, **fields: Any) -> Net:
    return net.add("innerProduct", x, y, inputChannels=channels, outputChannels=outputs, **fields)


@pytest.mark.parametrize("named", ["scores", ""])
def test_a_classifier_of_images(tmp_path: Path, named: str) -> None:
    net = Net(kind="neuralNetworkClassifier")
    told = net.spec.description
    image = told.input[0].type.imageType
    image.width, image.height, image.colorSpace = 5, 4, image.BGR
    step = net.message.preprocessing.add(featureName="x").scaler
    step.channelScale, step.blueBias, step.greenBias, step.redBias = 0.01, 0.1, 0.2, 0.3
    whole = _classifier(net)
    net.message.stringClassLabels.vector.extend(["cat", "dog", "owl"])
    net.message.labelProbabilityLayerName = named
    told.output.add(name="label").type.stringType.SetInParent()
    told.output.add(name="chances").type.dictionaryType.stringKeyType.SetInParent()
    told.predictedFeatureName, told.predictedProbabilitiesName = "label", "chances"
    source = CoremlParser().open(Request(str(net.save(tmp_path))), tmp_path, lambda text: None)
    model = source.parse()
    (spec,), (scores,) = model.inputs, model.outputs
    assert spec.shape == (1, 3, 4, 5) and spec.meaning == "image"
    assert scores.labels == ("cat", "dog", "owl") and scores.shape == (1, 3)
    assert model.source["kind"] == "neural network" and model.source["images"] == {"x": "BGR"}
    pixels = np.random.default_rng(13).integers(0, 256, (1, 3, 4, 5)).astype(F)
    (found,) = run(model, {"x": pixels})
    scaled = pixels * 0.01 + np.array([0.1, 0.2, 0.3]).reshape(3, 1, 1)
    power = np.exp(np.einsum("nchw,chwk->nk", scaled, whole))
    agrees(found, (power / power.sum()).astype(F))
    source.close()


def test_arrays_of_one_size(tmp_path: Path) -> None:
    """Channels without height and width, in and out."""
    matrix, x = drawing(4)(4, 3), drawing(5)(1, 3)
    net = _inner(Net((3,)), "x", "y", 3, 4, weights__floatValue=matrix)
    model = net.gives("y", shape=(4,)).model(tmp_path)
    assert model.inputs[0].shape == (1, 3) and model.outputs[0].shape == (1, 4)
    agrees(run(model, {"x": x})[0], x @ matrix.T)


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
@pytest.mark.parametrize("kind", ["linear", "table"])
def test_weights_of_few_bits(tmp_path: Path, bits: int, kind: str) -> None:
    """As coremltools packs them: the first in the highest bits."""
    coremltools()
    from coremltools.models.neural_network.quantization_utils import (
        _convert_array_to_nbit_quantized_bytes as packed,
    )

    integers = np.random.default_rng(bits).integers(0, 1 << bits, (4, 3)).astype(np.uint8)
    real, way = drawing(6), "weights__quantization__"
    scale, bias, table, x = abs(real(4)), real(4), real(1 << bits), real(1, 3)
    if kind == "linear":
        linear = f"{way}linearQuantization__"
        fields: dict[str, Any] = {f"{linear}scale": scale, f"{linear}bias": bias}
        matrix = integers * scale[:, None] + bias[:, None]
    else:
        fields = {f"{way}lookupTableQuantization__floatValue": table}
        matrix = table[integers]
    fields["weights__rawValue"] = packed(integers.flatten(), bits).tobytes()
    net = _inner(Net((3,)), "x", "y", 3, 4, **fields, **{f"{way}numberOfBits": bits})
    (found,) = run(net.gives("y", shape=(4,)).model(tmp_path), {"x": x})
    agrees(found, (x @ matrix.T).astype(F))


def test_weights_of_float16_and_rounded_up_pools(tmp_path: Path) -> None:
    real = drawing(7)
    kernel, x = real(2, 3, 3, 3).astype(np.float16), real(1, 3, 8, 8)
    net, sizes = Net((3, 8, 8)), {"outputChannels": 2, "kernelChannels": 3}
    padded = np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    wanted = np.einsum("nchwij,ocij->nohw", windows, kernel.astype(F))
    rows = np.pad(wanted, [(0, 0), (0, 0), (0, 1), (0, 1)], constant_values=-np.inf)
    pooled = np.lib.stride_tricks.sliding_window_view(rows, (3, 3), (2, 3))[:, :, ::2, ::2]
    given = {"same": {}, "weights__float16Value": kernel.tobytes()}
    net.add("convolution", "x", "a", wanted, **sizes, **given)
    up = {"kernelSize": [3, 3], "stride": [2, 2], "includeLastPixel__paddingAmounts": [0, 0]}
    net.add("pooling", "a", "b", pooled.max((4, 5)), type=0, **up)
    net.check(tmp_path, x, 1e-4)


# -- what can't be read ------------------------------------------------------------------


def _refused(net: Net, folder: Path) -> list[tuple[str, str]]:
    with pytest.raises(UnsupportedError) as caught:
        net.model(folder)
    return [(item.node, item.op) for item in caught.value.items]


def test_layers_that_arent_read_are_all_listed(tmp_path: Path) -> None:
    net = Net().add("gru", "x", "a").add("softmax", "a", "b")
    net.add("custom", "b", "c", className="Mine")
    assert _refused(net.gives("c"), tmp_path) == [("gru_a", "gru"), ("custom_c", "custom")]


@pytest.mark.parametrize(("kind", "inputs", "fields"), [
    ("permute", "x", {"axis": [1, 0, 2, 3]}),
    ("concat", "x x", {"sequenceConcat": True}),
    ("mvn", "x", {"normalizeVariance": True}),
    ("lrn", "x", {"localSize": 4, "alpha": 1.0, "beta": 1.0}),
    ("innerProduct", "x", {"inputChannels": 60, "outputChannels": 2}),
])  # fmt: skip
def test_layers_with_what_isnt_read(tmp_path: Path, kind: str, inputs: str, fields: Any) -> None:
    (found,) = _refused(Net().add(kind, inputs, "y", **fields).gives("y"), tmp_path)
    assert found[0].endswith("_y")


@pytest.mark.parametrize(
    ("takes", "gives", "said"),
    [("nothing", "y", "nothing gives nothing"), ("x", "z", "no layer gives its output z")],
)
def test_what_nothing_gives(tmp_path: Path, takes: str, gives: str, said: str) -> None:
    with pytest.raises(ModelError, match=said):
        Net().add("softmax", takes, "y").gives(gives).model(tmp_path)
