"""The sizes that a package declares for its inputs: Core ML refuses all others, and so do we.

Source: ``FeatureTypes.proto`` of Apple's model format. A multi-array has a default shape, and may
have a list of shapes or a range for each dimension; an image has a default size, and may have a
list of sizes or a range for its height and width.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from converter.errors import ModelError, UsageError, from_os_error
from modelyard.containers.coreml import coremltools, find_parts

Shape = tuple[int, ...]

_WIDEN = "Convert with --shapes NAME:MIN,OPT,MAX, or --max-batch for the batch."
_LIST_IT = "Give samples of these shapes, or convert with --coreml-shapes that lists this one too."


@dataclass(frozen=True)
class Declared:
    """What one input may be.

    Attributes:
        ranges: The smallest and largest size of each dimension; the largest -1 where there is none.
        listed: The only shapes, where they are listed.
    """

    ranges: tuple[tuple[int, int], ...]
    listed: tuple[Shape, ...] = ()

    def require(self, name: str, shape: Shape) -> None:
        """Holds an array's shape against it.

        Raises:
            UsageError: Core ML wouldn't take it.
        """
        if self.listed:
            fits = shape in self.listed
            allowed = ", ".join("x".join(map(str, item)) for item in self.listed)
        else:
            fits = len(shape) == len(self.ranges) and all(
                low <= size and (high < 0 or size <= high)
                for size, (low, high) in zip(shape, self.ranges, strict=True)
            )
            allowed = "x".join(map(_range, self.ranges))
        if not fits:
            raise UsageError(
                f"{name} is {'x'.join(map(str, shape))}, but the package takes {allowed}",
                code="shape-range",
                hint=_LIST_IT if self.listed else _WIDEN,
            )


def read_description(path: Path) -> Any:
    """A package's ``ModelDescription``.

    Raises:
        UsageError: It can't be read.
        ModelError: It is damaged.
    """
    coremltools()
    from coremltools.proto import Model_pb2
    from google.protobuf.message import DecodeError

    try:
        return Model_pb2.Model.FromString(find_parts(path).model.read_bytes()).description
    except OSError as error:
        raise from_os_error(error, f"reading {path.name}") from error
    except DecodeError as error:
        raise ModelError(
            f"{path.name} is damaged: its model can't be decoded", code="model-damaged"
        ) from error


def declared(features: Iterable[Any]) -> dict[str, Declared]:
    """What a ``ModelDescription`` says of its inputs that are arrays or images, by name."""
    found = {}
    for feature in features:
        kind = feature.type.WhichOneof("Type")
        if kind == "multiArrayType":
            found[feature.name] = _array(feature.type.multiArrayType)
        elif kind == "imageType":
            found[feature.name] = _image(feature.type.imageType)
    return found


def _array(array: Any) -> Declared:
    if array.HasField("enumeratedShapes"):
        return Declared((), tuple(tuple(item.shape) for item in array.enumeratedShapes.shapes))
    if array.HasField("shapeRange"):
        sizes = array.shapeRange.sizeRanges
        return Declared(tuple((int(size.lowerBound), int(size.upperBound)) for size in sizes))
    return Declared(tuple((int(size), int(size)) for size in array.shape))


def _image(image: Any) -> Declared:
    channels = 1 if image.colorSpace in (image.GRAYSCALE, image.GRAYSCALE_FLOAT16) else 3
    if image.HasField("enumeratedSizes"):
        sizes = image.enumeratedSizes.sizes
        return Declared((), tuple((1, channels, int(s.height), int(s.width)) for s in sizes))
    height = width = None
    if image.HasField("imageSizeRange"):
        sides = image.imageSizeRange
        height = (int(sides.heightRange.lowerBound), int(sides.heightRange.upperBound))
        width = (int(sides.widthRange.lowerBound), int(sides.widthRange.upperBound))
    fixed = (int(image.height), int(image.height)), (int(image.width), int(image.width))
    return Declared(((1, 1), (channels, channels), height or fixed[0], width or fixed[1]))


def _range(bounds: tuple[int, int]) -> str:
    low, high = bounds
    if low == high:
        return str(low)
    return f"({low} or more)" if high < 0 else f"({low} to {high})"
