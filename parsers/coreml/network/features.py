"""A network's inputs and outputs as its description tells them (``FeatureTypes.proto``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir

from parsers.coreml.description import colour_of
from parsers.coreml.network.tensors import Network
from parsers.coreml.reader import DataType
from parsers.coreml.refusal import Refusal

_INT32 = 131104
_COLOURS = {"RGB": ("red", "green", "blue"), "BGR": ("blue", "green", "red")}
_ENDLESS = -1

Sizes = list[int | str]


def read_input(net: Network, feature: Any) -> onnx_ir.Value:
    """A graph's input; the network's value for it is made of it.

    Until iOS12 an array of one size is channels, of three channels, height and width; here all
    have a batch of 1 before. Whole numbers become float32, which networks compute in.
    """
    kind = feature.type.WhichOneof("Type")
    if kind == "imageType":
        shape: Sizes = _image(feature.name, feature.type.imageType)
        dtype = DataType.FLOAT
    elif kind == "multiArrayType":
        array = feature.type.multiArrayType
        shape = _array(feature.name, array)
        if net.legacy and len(shape) not in (1, 3):
            raise Refusal(f"an input of {len(shape)} sizes: only 1 or 3 are possible")
        shape = [1, *shape] if net.legacy else shape
        dtype = DataType.INT32 if array.dataType == _INT32 else DataType.FLOAT
    else:
        raise Refusal(f"an input of the kind {kind}")
    made = onnx_ir.Value(
        name=feature.name, shape=onnx_ir.Shape(shape), type=onnx_ir.TensorType(dtype)
    )
    net.reader.op = feature.name
    value = made
    if dtype != DataType.FLOAT:
        value = net.node("Cast", [made], {"to": int(DataType.FLOAT)}, DataType.FLOAT)
    if net.legacy and len(shape) == 2:
        value = net.shaped(value, [0, -1, 1, 1])
    net.values[feature.name] = value
    return made


def _image(name: str, image: Any) -> Sizes:
    """[1, channels, height, width]; free where there is a range, or several sizes."""
    colour = colour_of(image)
    channels = 3 if colour in _COLOURS else 1
    free = image.WhichOneof("SizeFlexibility") is not None
    if free:
        return [1, channels, f"{name}_height", f"{name}_width"]
    return [1, channels, int(image.height), int(image.width)]


def _array(name: str, array: Any) -> Sizes:
    """An array's sizes; those that may be several have names."""
    shape: Sizes = [int(size) for size in array.shape]
    flexible = array.WhichOneof("ShapeFlexibility")
    if flexible == "shapeRange":
        ranges = [(int(r.lowerBound), int(r.upperBound)) for r in array.shapeRange.sizeRanges]
        allowed = [{low, high} for low, high in ranges]
    elif flexible == "enumeratedShapes":
        shapes = [list(item.shape) for item in array.enumeratedShapes.shapes]
        if len({len(item) for item in shapes}) != 1:
            raise Refusal("an input of shapes with more and with fewer axes")
        allowed = [set(sizes) for sizes in zip(*shapes, strict=True)]
    else:
        return shape
    return [
        next(iter(sizes)) if len(sizes) == 1 and _ENDLESS not in sizes else f"{name}_{axis}"
        for axis, sizes in enumerate(allowed)
    ]


def preprocess(net: Network, steps: Sequence[Any], told: Any) -> None:
    """What is done to images before: a scale and a bias for each colour, or a mean image.

    Args:
        net: The network; the value of each image is replaced.
        steps: The network's ``NeuralNetworkPreprocessing`` messages.
        told: The ``ModelDescription``.
    """
    images = {item.name: item.type.imageType for item in told.input if _is_image(item)}
    for step in steps:
        name = step.featureName or next(iter(images), "")
        if name not in images:
            raise Refusal(f"preprocessing of {name or 'nothing'}, which isn't an image")
        net.reader.op = f"{name}_preprocessed"
        x = net.values[name]
        if step.WhichOneof("preprocessor") == "meanImage":
            mean = np.array(step.meanImage.meanImage, np.float32)
            shape = [net.size(x, axis) for axis in (1, 2, 3)]
            net.values[name] = net.node("Sub", [x, net.const(mean.reshape(shape))])
            continue
        scaler = step.scaler
        scaled = net.node("Mul", [x, net.const(scaler.channelScale)])
        colour = colour_of(images[name])
        names = _COLOURS.get(colour, ("gray",))
        bias = np.array([getattr(scaler, f"{part}Bias") for part in names], np.float32)
        net.values[name] = net.node("Add", [scaled, net.channels(bias)])


def _is_image(feature: Any) -> bool:
    return bool(feature.type.WhichOneof("Type") == "imageType")


def read_output(net: Network, feature: Any, value: onnx_ir.Value) -> onnx_ir.Value:
    """An output as it is described: until iOS12 an array of one size has no height and width.

    Args:
        net: The network.
        feature: The output's ``FeatureDescription``.
        value: What the last layer gives.
    """
    kind = feature.type.WhichOneof("Type")
    net.reader.op = feature.name
    if net.legacy and kind in ("dictionaryType", "doubleType"):
        return net.shaped(value, [0, -1])
    if kind != "multiArrayType":
        return value
    array = feature.type.multiArrayType
    if net.legacy and len(array.shape) == 1:
        value = net.shaped(value, [0, -1])
    if array.dataType == _INT32:
        value = net.node("Cast", [value], {"to": int(DataType.INT32)}, DataType.INT32)
    return value
