"""Inputs that a package takes as images: pixels of 0..255, prepared inside the program.

Core ML hands a program the pixels of one image, ``[1, channels, height, width]`` in the colour
order that the package declares. What makes the model's input of them (``(v * scale - mean) / std``,
the model's own layout) are the program's first operations. coremltools' ``ImageType`` would put
them there as well, but has one scale for all channels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from converter.errors import UsageError
from converter.ir.model import TensorSpec
from converter.options.request import Request
from converter.preparation.inputs import Picture
from converter.samples.images import ImagePlan
from emitters.coreml.request import package

Array = np.ndarray[Any, Any]

_COLORS = {"rgb": "RGB", "bgr": "BGR", "gray": "GRAYSCALE"}
"""coremltools' ``colorlayout`` by our ``--image-color``."""

_WHOLE_WITHIN = 1e-2
"""How far from a whole number a value may be that was a pixel: float32 rounding of what is divided
by a scale of 1/255 stays far below."""


@dataclass(frozen=True)
class Image:
    """How pixels become a model's input: ``v * scale[c] + bias[c]``, then the layout.

    Attributes:
        color: ``RGB``, ``BGR`` or ``GRAYSCALE``, the order of channels.
        layout: The model's: ``NCHW``, ``NHWC``, ``CHW`` or ``HWC``.
        scale, bias: By channel.
    """

    color: str
    layout: str
    scale: tuple[float, ...]
    bias: tuple[float, ...]

    def arranged(self, dims: Sequence[Any]) -> tuple[Any, ...]:
        """Dimensions in the model's order as the package has them: one image, channels first."""
        sizes = dict(zip(self.layout, dims, strict=True))
        return (1, sizes["C"], sizes["H"], sizes["W"])

    def pixels(self, array: Array) -> Array:
        """The pixels that a model's input was made of, float32, ``[1, C, H, W]``.

        Where they are whole numbers of 0..255 but for rounding, they become just those.
        """
        batched = array if "N" in self.layout else array[np.newaxis]
        moved = batched.transpose(0, 3, 1, 2) if self.layout.endswith("C") else batched
        scale, bias = (np.reshape(part, (1, -1, 1, 1)) for part in (self.scale, self.bias))
        found = (moved.astype(np.float64) - bias) / scale
        near = np.rint(found)
        is_image = near.size and np.abs(found - near).max() < _WHOLE_WITHIN
        is_image = is_image and near.min() >= 0 and near.max() <= 255
        return np.ascontiguousarray(near if is_image else found, np.float32)


def require_inputs(request: Request, inputs: Sequence[TensorSpec]) -> None:
    """Refuses names of inputs that the model doesn't have.

    Raises:
        UsageError: There is one.
    """
    names = [spec.name for spec in inputs]
    for name in package(request).coreml_images:
        if name not in names:
            raise UsageError(
                f"--coreml-image {name}: the model has no such input",
                code="interface-mismatch",
                hint=f"Its inputs: {', '.join(names)}.",
            )


def images_of(request: Request, inputs: Sequence[TensorSpec]) -> dict[str, Image]:
    """What ``--coreml-image`` names, by the input's name.

    Raises:
        UsageError: There is no such input, or it takes no image that Core ML has.
    """
    require_inputs(request, inputs)
    by_name = {spec.name: spec for spec in inputs}
    return {name: _image(request, by_name[name]) for name in package(request).coreml_images}


def _image(request: Request, spec: TensorSpec) -> Image:
    said = f"--coreml-image {spec.name}"
    if spec.scale is not None:
        raise UsageError(
            f"{said}: its integers have a scale, which an image of Core ML can't have",
            code="option-not-applicable",
        )
    plan = ImagePlan((spec,), request, {})
    layout = str(plan.meaning()["layout"])
    color = plan.picture.color
    sizes = dict(zip(layout, spec.shape or (), strict=True))
    if color not in _COLORS:
        raise UsageError(
            f"{said}: {spec.describe()} has 4 channels, but an image of Core ML has 1 or 3",
            code="option-not-applicable",
        )
    if isinstance(sizes.get("N", 1), int) and sizes.get("N", 1) != 1:
        raise UsageError(
            f"{said}: its batch is fixed to {sizes['N']}, but Core ML takes one image at a time",
            code="option-not-applicable",
            hint="Convert with --batch 1.",
        )
    scale, bias = _linear(plan.picture)
    return Image(_COLORS[color], layout, scale, bias)


def _linear(picture: Picture) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Scale and bias by channel: ``(v * s - m) / d`` is ``v * (s / d) - m / d``."""
    if picture.scale == 0:
        raise UsageError("--image-scale 0 turns every image into zeros", code="option-value")
    mean, std = np.asarray(picture.mean), np.asarray(picture.std)
    return tuple((picture.scale / std).tolist()), tuple((0.0 - mean / std).tolist())
