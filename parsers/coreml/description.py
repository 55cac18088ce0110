"""What a Core ML file says of itself, its inputs and its outputs (``ModelDescription``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from converter.files.scrub import scrub
from converter.ir.model import Model
from converter.preparation.suggested import IMAGES, Suggested
from parsers.coreml.opened import PROGRAM, SMALL, Opened, words

_COREMLTOOLS = "com.github.apple.coremltools."
_FLEXIBLE = "ShapeFlexibility"
_GREY = ("GRAYSCALE", "GRAYSCALE_FLOAT16")


def facts(opened: Opened, function: str | None) -> dict[str, Any]:
    """What is known of the source: format, kind, what made it, and what its author wrote."""
    told = opened.spec.description
    metadata = dict(told.metadata.userDefined)
    version = metadata.get(_COREMLTOOLS + "version")
    found = {
        "format": "coreml",
        "framework": "Core ML",
        "kind": _kind(opened),
        "specification": opened.spec.specificationVersion,
        "function": function if len(opened.functions) > 1 else None,
        "producer": f"coremltools {version}" if version else None,
        "made_from": metadata.get(_COREMLTOOLS + "source"),
        "description": told.metadata.shortDescription,
        "author": told.metadata.author,
        "license": told.metadata.license,
        "version": told.metadata.versionString,
        "images": images(opened.description(function)),
        "shapes": shapes(opened.description(function)),
        "features": _descriptions(opened.description(function)),
        "metadata": {key: text for key, text in metadata.items() if _is_short(key, text)},
    }
    return {key: scrub(value) for key, value in found.items() if value}


def _kind(opened: Opened) -> str:
    if opened.kind in SMALL:
        return words(opened.kind)
    if opened.stages:
        return f"pipeline of {len(opened.stages)} models"
    return "ML program" if opened.kind == PROGRAM else "neural network"


def _is_short(key: str, text: str) -> bool:
    return not key.startswith(_COREMLTOOLS) and len(text) <= 1000


def _descriptions(told: Any) -> dict[str, str]:
    features = [*told.input, *told.output]
    return {item.name: item.shortDescription for item in features if item.shortDescription}


def colour_of(image: Any) -> str:
    """An image's colours: ``RGB``, ``BGR``, ``GRAYSCALE``, or ``UNKNOWN``."""
    names = {number: name for name, number in type(image).ColorSpace.items()}
    return str(names.get(image.colorSpace, "UNKNOWN"))


def images(told: Any) -> dict[str, str]:
    """The colours of inputs and outputs that are images, by name: RGB, BGR, GRAYSCALE..."""
    found = {}
    for feature in (*told.input, *told.output):
        if feature.type.WhichOneof("Type") == "imageType":
            found[feature.name] = colour_of(feature.type.imageType)
    return found


def shapes(told: Any, *, outputs: bool = False) -> dict[str, dict[str, list[list[int]]]]:
    """Of inputs, or outputs, that may have several shapes, by name: ``any of`` those listed, or
    each size ``from`` and ``to`` which it goes; -1 is without end. Of images height and width."""
    found = {}
    for feature in told.output if outputs else told.input:
        kind = feature.type.WhichOneof("Type")
        if kind not in ("imageType", "multiArrayType"):
            continue
        message = getattr(feature.type, kind)
        flexible = message.WhichOneof("SizeFlexibility" if kind == "imageType" else _FLEXIBLE)
        if flexible is not None:
            found[feature.name] = _flexible(message, flexible)
    return found


def _flexible(message: Any, flexible: str) -> dict[str, list[list[int]]]:
    if flexible == "enumeratedShapes":
        return {"any of": [list(item.shape) for item in message.enumeratedShapes.shapes]}
    if flexible == "enumeratedSizes":
        return {"any of": [[size.height, size.width] for size in message.enumeratedSizes.sizes]}
    if flexible == "shapeRange":
        ranges = list(message.shapeRange.sizeRanges)
    else:
        ranges = [message.imageSizeRange.heightRange, message.imageSizeRange.widthRange]
    ends = [[item.lowerBound for item in ranges], [item.upperBound for item in ranges]]
    return {"from": [ends[0]], "to": [ends[1]]}


def suggested(model: Model, told: Any, answer: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """For ``Model.source``: what outputs mean, and of a model whose only input is an image, how
    pictures become it: pixels as they are, in its order of colours.

    Args:
        model: The model, with its interface.
        told: The file's ``ModelDescription``.
        answer: What outputs mean, as a pipeline says it.
    """
    known, origins = images(told), {}
    colours = [known.get(spec.name) for spec in model.inputs]
    options: dict[str, Any] = {}
    if colours in (["RGB"], ["BGR"], ["GRAYSCALE"], ["GRAYSCALE_FLOAT16"]):
        options = {"image_scale": 1.0} | ({"image_color": "bgr"} if colours == ["BGR"] else {})
        origins["prepare (picture)"] = "the file's image type"
    origins |= {f"answer ({item['kind']})": "the file's pipeline" for item in answer}
    return {**({IMAGES: options} if options else {}),
            **Suggested(answer=answer, origins=origins).told()}  # fmt: skip


def describe(
    model: Model,
    told: Any,
    names: Mapping[str, str],
    classes: Mapping[str, Sequence[str]],
) -> None:
    """Keeps what the file says of inputs and outputs: images, states, classes.

    Args:
        model: The Model.
        told: The file's description.
        names: The model's name for each of the file's inputs and outputs.
        classes: Labels, by the file's name of the output with their probabilities.
    """
    for name in images(told):
        if name in names:
            model.describe(names[name], layout="NCHW", meaning="image", value_range=(0.0, 255.0))
    for name in (state.name for state in told.state):
        for found in (name, f"{name}_out"):
            if found in names:
                model.describe(names[found], meaning="state")
    for name, labels in classes.items():
        if name in names:
            model.describe(names[name], meaning="scores", labels=tuple(labels))


def warnings(told: Any) -> list[str]:
    """What a user has to know of inputs: the order of colours, values that stand in for them."""
    said = []
    colours = {name: colour for name, colour in images(told).items() if colour not in _GREY}
    for name in (item.name for item in told.input if item.name in colours):
        said.append(
            f"IMAGE: {name} is an image for Core ML, and here a tensor of its pixels: "
            f"{colours[name]}, channels first, 0..255. The file's own scaling is in the model."
        )
    if told.state:
        listed = ", ".join(state.name for state in told.state)
        said.append(
            "STATE IS EXPLICIT: the file keeps state between runs; in the converted model each "
            f"NAME is an input, and NAME_out the output to feed as NAME in the next run: {listed}."
        )
    optional = [item.name for item in told.input if item.type.isOptional]
    if optional:
        said.append(
            "OPTIONAL INPUTS: the file gives them a value where they are left out; in the "
            f"converted model they have to be given: {', '.join(optional)}."
        )
    return said
