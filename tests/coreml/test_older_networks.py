"""Neural networks until iOS12, written as protobufs: values by numpy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from converter.coreml_file import coremltools
from converter.errors import ModelError, UnsupportedError
from converter.ir import Model
from converter.request import Request
from parsers.coreml import CoremlParser
from parsers.coreml_import.importer import read
from tests.coreml.running import Array, agrees, run

RNG = np.random.default_rng(12)
F = np.float32
X = RNG.standard_normal((1, 3, 4, 5)).astype(F)


def _real(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(F)


class Net:
    """A network that is being written."""

    def __init__(self, shape: tuple[int, ...] = (3, 4, 5), kind: str = "neuralNetwork") -> None:
        coremltools()
        from coremltools.proto import Model_pb2

        self.spec = Model_pb2.Model(specificationVersion=1)
        self.message = getattr(self.spec, kind)
        self.message.SetInParent()
        array = self.spec.description.input.add(name="x").type.multiArrayType
        array.shape.extend(shape)
        array.dataType = array.FLOAT32

    def add(self, kind: str, inputs: str, outputs: str, **fields: Any) -> Any:
        """A layer; gives its parameters."""
        layer = self.message.layers.add(name=f"{kind}_{outputs.replace(' ', '_')}")
        layer.input.extend(inputs.split())
        layer.output.extend(outputs.split())
        how = getattr(layer, kind)
        how.SetInParent()
        for name, value in fields.items():
            if isinstance(value, list):
                getattr(how, name).extend(value)
            else:
                setattr(how, name, value)
        return how

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

    def compute(self, folder: Path, x: Array = X) -> list[Array]:
        """What it gives."""
        return run(self.model(folder), {"x": x})


def test_reorders(tmp_path: Path) -> None:
    net = Net()
    net.add("flatten", "x", "a", mode=0)
    net.add("flatten", "x", "b", mode=1)
    net.add("reshape", "x", "c", targetShape=[6, 2, 5], mode=0)
    net.add("reshape", "x", "d", targetShape=[1, 6, 2, 5], mode=1)
    net.add("permute", "x", "e", axis=[0, 3, 1, 2])
    net.add("concat", "x x", "f")
    net.add("slice", "x", "g", startIndex=1, endIndex=-1, stride=2, axis=2)
    found = net.gives(*"abcdefg").compute(tmp_path)
    last = X.transpose(0, 2, 3, 1)
    agrees(found[0], X.reshape(1, 60, 1, 1))
    agrees(found[1], last.reshape(1, 60, 1, 1))
    agrees(found[2], X.reshape(1, 6, 2, 5))
    agrees(found[3], last.reshape(1, 2, 5, 6).transpose(0, 3, 1, 2))
    agrees(found[4], X.transpose(0, 3, 1, 2))
    agrees(found[5], np.concatenate([X, X], 1))
    agrees(found[6], X[..., 1:-1:2])


def test_arithmetic(tmp_path: Path) -> None:
    net = Net()
    scale, bias, constant = _real(3), _real(3, 4, 5), _real(3, 1, 1)
    net.add("loadConstant", "", "k", shape=[3, 1, 1]).data.floatValue.extend(constant.flat)
    net.add("add", "x k x", "a")
    net.add("multiply", "x", "b", alpha=2.5)
    net.add("average", "x a", "c")
    net.add("max", "x a b", "d")
    net.add("min", "x a b", "e")
    how = net.add("scale", "x", "f", shapeScale=[3], shapeBias=[3, 4, 5], hasBias=True)
    how.scale.floatValue.extend(scale)
    how.bias.floatValue.extend(bias.flat)
    net.add("bias", "x", "g", shape=[1]).bias.floatValue.extend([0.5])
    net.add("unary", "x", "h", type=6, scale=2.0, shift=0.5)
    net.add("unary", "h", "i", type=3, alpha=1.5)
    found = net.gives(*"abcdefghi").compute(tmp_path)
    a = X + constant + X
    agrees(found[0], a)
    agrees(found[1], X * F(2.5))
    agrees(found[2], (X + a) / 2)
    agrees(found[3], np.maximum(np.maximum(X, a), X * F(2.5)))
    agrees(found[4], np.minimum(np.minimum(X, a), X * F(2.5)))
    agrees(found[5], X * scale.reshape(3, 1, 1) + bias)
    agrees(found[6], X + F(0.5))
    agrees(found[7], np.abs(2 * X + F(0.5)))
    agrees(found[8], np.abs(2 * X + F(0.5)) ** F(1.5))


def test_reductions_softmax_and_splits(tmp_path: Path) -> None:
    net = Net((4, 3, 5))
    x = np.abs(_real(1, 4, 3, 5)) + F(0.1)
    net.add("reduce", "x", "a", mode=1, axis=0)
    net.add("reduce", "x", "b", mode=3, axis=1)
    net.add("reduce", "x", "c", mode=9, axis=2)
    net.add("softmax", "x", "d")
    net.add("split", "x", "e f", nOutputs=2)
    net.add("mvn", "x", "g", acrossChannels=True)
    net.add("pooling", "x", "h", type=1, globalPooling=True)
    found = net.gives(*"abcdefgh").compute(tmp_path, x)
    power = np.exp(x)
    agrees(found[0], x.mean((1, 2, 3), keepdims=True))
    agrees(found[1], np.log(x + 1e-6).sum((2, 3), keepdims=True).astype(F))
    agrees(found[2], x.argmax(1, keepdims=True).astype(F))
    agrees(found[3], power / power.sum(1, keepdims=True))
    agrees(found[4], x[:, :2])
    agrees(found[5], x[:, 2:])
    agrees(found[6], x - x.mean((1, 2, 3), keepdims=True))
    agrees(found[7], x.mean((2, 3), keepdims=True))


def _classifier(net: Net) -> Array:
    """A convolution of two channels, and a matrix, with probabilities of three classes."""
    kernel, matrix = _real(2, 3, 4, 5), _real(3, 2)
    how = net.add("convolution", "x", "a", outputChannels=2, kernelChannels=3, kernelSize=[4, 5])
    how.valid.SetInParent()
    how.weights.floatValue.extend(kernel.flat)
    how = net.add("innerProduct", "a", "b", inputChannels=2, outputChannels=3)
    how.weights.floatValue.extend(matrix.flat)
    net.add("softmax", "b", "scores")
    return np.asarray(np.einsum("ochw,ko->chwk", kernel, matrix))


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
    pixels = RNG.integers(0, 256, (1, 3, 4, 5)).astype(F)
    (found,) = run(model, {"x": pixels})
    scaled = pixels * 0.01 + np.array([0.1, 0.2, 0.3]).reshape(3, 1, 1)
    power = np.exp(np.einsum("nchw,chwk->nk", scaled, whole))
    agrees(found, (power / power.sum()).astype(F))
    source.close()


def test_arrays_of_one_size(tmp_path: Path) -> None:
    """Channels without height and width, in and out."""
    net = Net((3,))
    matrix = _real(4, 3)
    how = net.add("innerProduct", "x", "y", inputChannels=3, outputChannels=4)
    how.weights.floatValue.extend(matrix.flat)
    model = net.gives("y", shape=(4,)).model(tmp_path)
    assert model.inputs[0].shape == (1, 3) and model.outputs[0].shape == (1, 4)
    x = _real(1, 3)
    agrees(run(model, {"x": x})[0], x @ matrix.T)


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
@pytest.mark.parametrize("kind", ["linear", "table"])
def test_weights_of_few_bits(tmp_path: Path, bits: int, kind: str) -> None:
    """As coremltools packs them: the first in the highest bits."""
    coremltools()
    from coremltools.models.neural_network.quantization_utils import (
        _convert_array_to_nbit_quantized_bytes,
    )

    integers = RNG.integers(0, 1 << bits, (4, 3)).astype(np.uint8)
    net = Net((3,))
    how = net.add("innerProduct", "x", "y", inputChannels=3, outputChannels=4)
    how.weights.rawValue = _convert_array_to_nbit_quantized_bytes(
        integers.flatten(), bits
    ).tobytes()
    how.weights.quantization.numberOfBits = bits
    if kind == "linear":
        scale, bias = np.abs(_real(4)), _real(4)
        how.weights.quantization.linearQuantization.scale.extend(scale)
        how.weights.quantization.linearQuantization.bias.extend(bias)
        matrix = integers * scale[:, None] + bias[:, None]
    else:
        table = _real(1 << bits)
        how.weights.quantization.lookupTableQuantization.floatValue.extend(table)
        matrix = table[integers]
    x = _real(1, 3)
    (found,) = net.gives("y", shape=(4,)).compute(tmp_path, x)
    agrees(found, (x @ matrix.T).astype(F))


def test_weights_of_float16_and_rounded_up_pools(tmp_path: Path) -> None:
    kernel = _real(2, 3, 3, 3).astype(np.float16)
    net = Net((3, 8, 8))
    how = net.add("convolution", "x", "a", outputChannels=2, kernelChannels=3)
    how.same.SetInParent()
    how.weights.float16Value = kernel.tobytes()
    how = net.add("pooling", "a", "b", type=0, kernelSize=[3, 3], stride=[2, 2])
    how.includeLastPixel.paddingAmounts.extend([0, 0])
    x = _real(1, 3, 8, 8)
    found = net.gives("a", "b").compute(tmp_path, x)
    padded = np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    wanted = np.einsum("nchwij,ocij->nohw", windows, kernel.astype(F))
    agrees(found[0], wanted.astype(F), 1e-4)
    rows = np.pad(wanted, [(0, 0), (0, 0), (0, 1), (0, 1)], constant_values=-np.inf)
    pooled = np.lib.stride_tricks.sliding_window_view(rows, (3, 3), (2, 3))[:, :, ::2, ::2]
    agrees(found[1], pooled.max((4, 5)).astype(F), 1e-4)


def test_rows_and_layer_normalization(tmp_path: Path) -> None:
    """Of networks from iOS13 on, whose tensors have any rank."""
    net = Net((2, 3, 1))
    net.message.arrayInputShapeMapping = 1
    table, gamma, beta = _real(6, 10), _real(6), _real(6)
    how = net.add("embeddingND", "x", "a", vocabSize=10, embeddingSize=6)
    how.weights.floatValue.extend(table.flat)
    how = net.add("layerNormalization", "a", "b", normalizedShape=[6], eps=0.01)
    how.gamma.floatValue.extend(gamma)
    how.beta.floatValue.extend(beta)
    net.add("flattenTo2D", "b", "c", axis=-1)
    net.add("rankPreservingReshape", "b", "d", targetShape=[3, 0, -1])
    numbers = RNG.integers(0, 10, (2, 3, 1)).astype(F)
    found = net.gives(*"abcd").compute(tmp_path, numbers)
    rows = table.T[numbers[..., 0].astype(int)]
    agrees(found[0], rows)
    mean, spread = rows.mean(-1, keepdims=True), rows.var(-1, keepdims=True)
    normal = (rows - mean) / np.sqrt(spread + 0.01) * gamma + beta
    agrees(found[1], normal.astype(F))
    agrees(found[2], normal.reshape(6, 6).astype(F))
    agrees(found[3], normal.reshape(3, 3, 4).astype(F))


def test_orders_and_indices(tmp_path: Path) -> None:
    net = Net((3, 4))
    net.message.arrayInputShapeMapping = 1
    net.add("reverse", "x", "a", reverseDim=[True, False])
    net.add("topK", "x", "b c", axis=-1, K=2)
    net.add("topK", "x", "d e", axis=0, K=1, useBottomK=True)
    net.add("argSort", "x", "f", axis=1)
    net.add("argSort", "x", "g", axis=1, descending=True)
    net.add("gatherAlongAxis", "x f", "h", axis=1)
    net.add("cumSum", "x", "i", axis=1, excludeFinalSum=True, reverse=True)
    net.add("lowerTriangular", "x", "j", k=1)
    net.add("upperTriangular", "x", "k")
    net.add("matrixBandPart", "x", "l", numLower=0, numUpper=1)
    net.add("matrixBandPart", "x", "m", numLower=1, numUpper=-1)
    net.add("rangeStatic", "", "n", startValue=1.0, endValue=3.0, stepSizeValue=0.5)
    net.add("fillLike", "x", "o", value=2.0)
    net.add("fillStatic", "", "p", value=2.0, targetShape=[2, 1])
    net.add("loadConstantND", "", "row", shape=[4]).data.floatValue.extend([1, 2, 3, 4])
    net.add("broadcastToLike", "row x", "q")
    net.add("reshapeLike", "x h", "r")
    net.add("oneHot", "c", "s", oneHotVectorSize=3, axis=-1, onValue=5.0, offValue=-1.0)
    net.add("addBroadcastable", "n row", "t")
    net.add("floor", "t", "u")
    x = _real(3, 4)
    found = net.gives(*"abcdefghijklmnopqrs").compute(tmp_path, x)
    order = np.argsort(x, 1, kind="stable")
    down = order[:, ::-1]
    sums = np.cumsum(x[:, ::-1], 1)[:, ::-1] - x
    index = down[:, :2]
    expected = [
        x[::-1],
        np.take_along_axis(x, index, 1),
        index,
        x.min(0, keepdims=True),
        x.argmin(0)[None],
        order,
        down,
        np.sort(x, 1),
        sums,
        np.tril(x, 1),
        np.triu(x),
        np.triu(np.tril(x, 1)),
        np.triu(x, -1),
        np.arange(1, 3, 0.5),
        np.full((3, 4), 2),
        np.full((2, 1), 2),
        np.tile(np.arange(1, 5), (3, 1)),
        x,
        np.where(np.eye(4)[index][..., :3] > 0, 5, -1),
    ]
    for value, wanted in zip(found, expected, strict=True):
        agrees(value, wanted.astype(F))


# -- what can't be read ------------------------------------------------------------------


def _refused(net: Net, folder: Path) -> list[tuple[str, str]]:
    with pytest.raises(UnsupportedError) as caught:
        net.model(folder)
    return [(item.node, item.op) for item in caught.value.items]


def test_layers_that_arent_read_are_all_listed(tmp_path: Path) -> None:
    net = Net()
    net.add("gru", "x", "a")
    net.add("softmax", "a", "b")
    net.add("custom", "b", "c", className="Mine")
    found = _refused(net.gives("c"), tmp_path)
    assert found == [("gru_a", "gru"), ("custom_c", "custom")]


@pytest.mark.parametrize(
    "add",
    [
        lambda net: net.add("permute", "x", "y", axis=[1, 0, 2, 3]),
        lambda net: net.add("concat", "x x", "y", sequenceConcat=True),
        lambda net: net.add("mvn", "x", "y", normalizeVariance=True),
        lambda net: net.add("lrn", "x", "y", localSize=4, alpha=1.0, beta=1.0),
        lambda net: net.add("innerProduct", "x", "y", inputChannels=60, outputChannels=2),
    ],
)
def test_layers_with_what_isnt_read(tmp_path: Path, add: Callable[[Net], Any]) -> None:
    net = Net()
    add(net)
    (found,) = _refused(net.gives("y"), tmp_path)
    assert found[0].endswith("_y")


def test_a_layer_of_what_nothing_gives(tmp_path: Path) -> None:
    net = Net()
    net.add("softmax", "nothing", "y")
    with pytest.raises(ModelError, match="nothing gives nothing"):
        net.gives("y").model(tmp_path)


def test_an_output_that_nothing_gives(tmp_path: Path) -> None:
    net = Net()
    net.add("softmax", "x", "y")
    with pytest.raises(ModelError, match="no layer gives its output z"):
        net.gives("z").model(tmp_path)
