"""How a photo becomes a model's input: as the samples were prepared."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from converter.ir.model import TensorSpec
from converter.options.request import Request
from converter.preparation.staged.pictures import FORMATS
from emitters.templates import render


@dataclass(frozen=True)
class Preparation:
    """What happens to a photo; each channel of 8-bit pixels becomes ``(v * scale - mean) / std``.

    Attributes:
        channels_first: Whether the input's axes are [1, channels, height, width].
        size: Height and width.
        resize: The shorter side's length, or height and width; what is larger than ``size`` then
            is cut out of the middle.
        color: ``rgb``, ``bgr`` or ``gray``.
        interpolation: ``bilinear`` and so on.
        scale, mean, std: One mean and deviation for each channel.
    """

    channels_first: bool
    size: tuple[int, int]
    resize: int | tuple[int, int]
    color: str
    interpolation: str
    scale: float
    mean: tuple[float, ...]
    std: tuple[float, ...]

    def python(self, what: str) -> str:
        """A function ``prepare(file)`` in Python, by Pillow and numpy; ``what`` says what of."""
        values = {"way": self, "what": what, "formats": FORMATS}
        return render("emitters.packaging", "photo.py.j2", values, repr=repr)


def preparation_of(spec: TensorSpec, request: Request, *, real: bool = False) -> Preparation | None:
    """How a photo becomes the only input of a model.

    Args:
        spec: The input, as it is served.
        request: Its ``image_*`` and ``preparation``.
        real: Whether its integers stand for real numbers, and these are prepared.

    Returns:
        None where the input is no picture of one size, or the options don't give the values that
        the model was made for.
    """
    shape = spec.shape or ()
    sides = dict(zip(spec.layout or "", shape, strict=False))
    height, width, channels = (sides.get(letter) for letter in "HWC")
    fits = spec.meaning == "image" and len(shape) == 4 and channels in (1, 3)
    if not fits or not isinstance(height, int) or not isinstance(width, int):
        return None
    is_real = spec.dtype == "float32" or real
    if not is_real or (isinstance(shape[0], int) and shape[0] != 1):
        return None
    from converter.samples.images import declared_picture  # of models of pictures alone

    known = declared_picture((replace(spec, dtype="float32", scale=None),), request, {})
    if known is None or known.fill is not None or (known.height, known.width) != (height, width):
        return None
    pairs = zip(known.mean, known.std, strict=True)
    ends = [(v * known.scale - m) / s for m, s in pairs for v in (0, 255)]
    span = spec.value_range
    if span is None or not np.allclose([min(ends), max(ends)], span, rtol=1e-3, atol=1e-3):
        return None
    return Preparation(
        known.layout == "CHW",
        (height, width),
        known.resize or (height, width),
        known.color,
        known.interpolation,
        known.scale,
        known.mean,
        known.std,
    )
