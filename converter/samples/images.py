"""Samples from images: pixels become the model's input by the ``--image-*`` options.

Each channel c of 8-bit pixels v becomes ``(v * scale - mean[c]) / std[c]``, computed once in
float64 for the 256 values there are and rounded to the input's dtype. Where the input's integers
stand for real numbers, that is the real number, and what is fed is the integer nearest to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from converter.errors import UsageError
from converter.files.digest import digest_of, file_digest
from converter.ir.model import TensorSpec
from converter.options.request import Request
from converter.preparation.inputs import Picture
from converter.preparation.prepared import picture_array
from converter.preparation.staged.base import Seen
from converter.preparation.staged.pictures import value_table
from converter.samples.base import Array, Sample, Samples
from converter.samples.files import SampleFile, limit_samples, some_left
from converter.samples.fit import numpy_dtype
from converter.samples.labels import FOLDER, classes_of, content_of, labels_of_files

KEEP_BELOW = 64_000_000
"""Bytes of prepared images that are kept, so that iterating again doesn't decode again."""

ENLARGED = 2.0
"""Times its height or width from which on enlarging a picture is told: what is added is blur."""

_CHANNELS = (1, 3, 4)


class ImageSamples(Samples):
    """Samples from image files, each decoded when its turn comes.

    Args:
        files: The images, in order.
        inputs: The model's inputs: one, of [batch, channels, height, width] or
            [batch, height, width, channels], or the same without a batch.
        request: Its ``image_*``, ``labels`` and ``samples_limit`` count.
        sizes: Sizes of free dimensions.
        label_names: Names of the classes, where known.
        origin: Where they came from, for the report.

    Raises:
        UsageError: The input takes no image, or options don't fit it.
    """

    of_images = True

    def __init__(
        self,
        files: Sequence[SampleFile],
        inputs: tuple[TensorSpec, ...],
        request: Request,
        sizes: Mapping[str, int],
        *,
        label_names: tuple[str, ...] | None,
        origin: str,
    ) -> None:
        self.inputs = inputs
        self.label_names = label_names
        self.skipped = []
        self._plan = ImagePlan(inputs, request, sizes)
        self.picture = self._plan.picture
        step = self._plan.batch or 1
        if request.skip_bad:
            files = self._readable(files)
        if request.samples_limit is not None:
            files = files[: limit_samples(request.samples_limit, step) * step]
        if len(files) % step:
            raise UsageError(
                f"{len(files)} images aren't a multiple of the model's fixed batch of {step}",
                code="samples-count",
                hint=f"Use fewer: --samples-limit {len(files) // step * step}."
                if len(files) > step
                else f"Give at least {step}"
                + ", or --batch dynamic." * (request.batch != "dynamic"),
            )
        named = [file.name for file in files]
        if request.labels == FOLDER and label_names is None:
            self.label_names = label_names = classes_of(named)
        labels = labels_of_files(named, request.labels, label_names, request.metric)
        self._groups = [
            list(zip(files[i : i + step], labels[i : i + step], strict=True))
            for i in range(0, len(files), step)
        ]
        self.origin = origin
        self.files = [(file.path, file.name) for file in files]
        self._kept: dict[int, tuple[Array, Seen]] = {}
        self._enlarged: dict[str, Seen] = {}

    def _readable(self, files: Sequence[SampleFile]) -> list[SampleFile]:
        """The images that can be prepared; notes the others."""
        good = []
        for file in files:
            try:
                self._plan.prepare(file)
            except UsageError as error:
                self.skipped.append(error.message)
            else:
                good.append(file)
        return some_left(good, self.skipped)

    def __len__(self) -> int:
        return len(self._groups)

    def __iter__(self) -> Iterator[Sample]:
        batched = self._plan.batch is not None
        for index, group in enumerate(self._groups):
            names = [file.name for file, _ in group]
            labels = [label for _, label in group]
            name = names[0] if len(names) == 1 else f"{names[0]}..{names[-1]}"
            label = labels[0] if len(labels) == 1 else _together(labels)
            array, seen = self._array(index)
            feeds = {self.inputs[0].name: array if batched else array[0]}
            yield Sample(name, feeds, label, replace(seen, feeds=feeds))

    def _array(self, index: int) -> tuple[Array, Seen]:
        """The images of group ``index``, [images, ...], read-only, and what was seen of the
        first."""
        if index in self._kept:
            return self._kept[index]
        prepared = [self._plan.prepare(file) for file, _ in self._groups[index]]
        for (file, _), (_, seen) in zip(self._groups[index], prepared, strict=True):
            if max(seen.scale) > ENLARGED:
                self._enlarged[file.name] = seen
        images, seen = [image for image, _ in prepared], prepared[0][1]
        shapes = {image.shape for image in images}
        if len(shapes) > 1:
            name = self._groups[index][0][0].name
            raise UsageError(
                f"the images differ in size from {name} on, and the model's batch is fixed",
                code="samples-mismatch",
                hint="Give --image-size.",
            )
        array = np.stack(images)
        array.setflags(write=False)
        if array.nbytes * (len(self._kept) + 1) <= KEEP_BELOW:
            self._kept[index] = array, seen
        return array, seen

    @property
    def notes(self) -> Sequence[str]:
        """A line where pictures are much smaller than the model's."""
        if not self._enlarged:
            return ()
        count, small = len(self._enlarged), min(self._enlarged.values(), key=lambda s: prod(s.size))
        width, height = (round(s * f) for s, f in zip(small.size, small.scale, strict=True))
        wanted = self._plan.picture
        size = f"{wanted.height or height}x{wanted.width or width}"
        return (
            f"PICTURES ARE ENLARGED: {count} of {len(self.files)} to more than {ENLARGED:g} times "
            f"their height or width. The smallest is {small.size[1]}x{small.size[0]} pixels, and "
            f"the model's input is {size}",
        )

    @cached_property
    def digest(self) -> str:
        """The sha256 over the files' contents, names and labels, the input and the options."""
        contents = [
            [file.name, file_digest(file.path), content_of(label)]
            for group in self._groups
            for file, label in group
        ]
        return digest_of({"images": contents, "prepared": self._plan.options()})

    @property
    def meanings(self) -> dict[str, dict[str, Any]]:
        """The input is an image, of that layout, with values of that range."""
        return {self.inputs[0].name: self._plan.meaning()}

    @property
    def labelled(self) -> bool:
        """Whether every image has a label."""
        return all(label is not None for group in self._groups for _, label in group)


class ImagePlan:
    """How images become a model's input.

    Args:
        inputs: The model's inputs, one of which takes pictures.
        request: The ``--image-*`` options, and a recipe's preparation.
        sizes: Of free dimensions by name, in pixels.

    Attributes:
        batch: How many images make a sample; None where the input has no batch dimension.
    """

    def __init__(
        self, inputs: Sequence[TensorSpec], request: Request, sizes: Mapping[str, int]
    ) -> None:
        self._spec = spec = _image_input(inputs)
        shape = spec.shape or ()
        self.batch: int | None = None
        if len(shape) == 4:
            self.batch = shape[0] if isinstance(shape[0], int) else 1
        dims = shape[-3:]
        self._nchw = _is_nchw(spec, dims, request.image_layout)
        channels, height, width = dims if self._nchw else (dims[2], dims[0], dims[1])
        color = _color(spec, channels, request.image_color)
        count = channels if isinstance(channels, int) else len(color)
        size = _target_size(spec, (height, width), request.image_size, sizes)
        own = next((item for item in request.preparation if item.get("kind") == "picture"), {})
        self.picture = Picture.model_validate({
            "input": spec.name,
            "layout": "CHW" if self._nchw else "HWC",
            "color": color,
            "height": size[0],
            "width": size[1],
            "resize": _resize(request.image_resize),
            "crop": request.image_crop == "center",
            "interpolation": request.image_interpolation,
            "scale": _scale(spec, request),
            "mean": _by_channel(request.image_mean, 0.0, count, "--image-mean"),
            "std": _by_channel(request.image_std, 1.0, count, "--image-std"),
            **own,
        })  # fmt: skip
        self._known = self.picture.model_dump()
        self._table = table_of(spec, self.picture)

    def prepare(self, file: SampleFile) -> tuple[Array, Seen]:
        """One image, of the input's shape without its batch, and where its pixels came from;
        raises UsageError."""
        return picture_array(self._known, file.path, file.name, self._table)

    def meaning(self) -> dict[str, Any]:
        """What is known of the input: fields of :class:`converter.ir.model.TensorSpec`."""
        layout = ("NCHW" if self._nchw else "NHWC")[0 if len(self._spec.shape or ()) == 4 else 1 :]
        span = (float(self._table.min()), float(self._table.max()))
        return {"layout": layout, "meaning": "image", "value_range": span}

    def options(self) -> dict[str, Any]:
        """All that the prepared arrays follow from, but the images, for a digest."""
        return {
            "input": [self._spec.name, self._spec.describe()],
            "picture": self.picture.model_dump(),
            "table": self._table.astype(np.float64).tolist(),
        }


def _image_input(inputs: Sequence[TensorSpec]) -> TensorSpec:
    if len(inputs) != 1:
        raise UsageError(
            "images need a model with one input, and this model has "
            + ", ".join(f"{spec.name} {spec.describe()}" for spec in inputs),
            code="samples-mismatch",
            hint="Prepare its inputs as .npz files, or with FILE.py:FUNCTION.",
        )
    spec = inputs[0]
    if spec.rank not in (3, 4) or spec.dtype in ("string", "bool"):
        raise UsageError(
            f"the input {spec.name} takes {spec.describe()}, which isn't an image",
            code="samples-mismatch",
            hint="Prepare its inputs as .npz files, or with FILE.py:FUNCTION.",
        )
    return spec


def _is_nchw(spec: TensorSpec, dims: Sequence[int | str], asked: str | None) -> bool:
    """Whether channels come first: as asked for, as known, else by which axis has 1, 3 or 4."""
    known = (asked or spec.layout or "").lower()
    if known in ("nchw", "chw"):
        return True
    if known in ("nhwc", "hwc"):
        return False
    first, last = dims[0] in _CHANNELS, dims[2] in _CHANNELS
    if first == last:
        raise UsageError(
            f"it isn't clear which dimension of {spec.name} {spec.describe()} holds the channels",
            code="samples-mismatch",
            hint="Give --image-layout nchw or nhwc.",
        )
    return first


def _color(spec: TensorSpec, channels: int | str, asked: str) -> str:
    """``gray``, ``rgb``, ``bgr``, ``rgba`` or ``bgra``; one channel is gray without asking."""
    if isinstance(channels, str):
        return asked
    fitting = {1: ("gray", "rgb"), 3: ("rgb", "bgr"), 4: ("rgb", "bgr")}.get(channels, ())
    if asked not in fitting:
        raise UsageError(
            f"--image-color {asked} doesn't fit {spec.name} {spec.describe()}: "
            f"it has {channels} channels",
            code="samples-mismatch",
        )
    return "gray" if channels == 1 else asked + "a" * (channels - 3)


def _target_size(
    spec: TensorSpec,
    dims: tuple[int | str, int | str],
    asked: str | None,
    sizes: Mapping[str, int],
) -> tuple[int | None, int | None]:
    """Height and width: the model's, else the user's, else each image's own (None)."""
    wanted = _pair(asked, "--image-size") if asked else (None, None)
    found: list[int | None] = []
    for dim, size in zip(dims, wanted, strict=True):
        known = dim if isinstance(dim, int) else sizes.get(dim)
        if known is not None and size is not None and known != size:
            raise UsageError(
                f"--image-size {asked} doesn't fit {spec.name} {spec.describe()}: "
                + (
                    f"{dim} is {known}" if isinstance(dim, str) else f"it takes {known}, not {size}"
                ),
                code="samples-mismatch",
            )
        found.append(size if known is None else known)
    return found[0], found[1]


def _resize(text: str | None) -> int | tuple[int, int] | None:
    if text is None:
        return None
    if re.fullmatch(r"[1-9]\d*", text):
        return int(text)
    return _pair(text, "--image-resize")


def _pair(text: str, flag: str) -> tuple[int, int]:
    if not (match := re.fullmatch(r"([1-9]\d*)x([1-9]\d*)", text.lower())):
        raise UsageError(
            f"{flag} {text}: expected HEIGHTxWIDTH, as in 224x224", code="option-value"
        )
    return int(match[1]), int(match[2])


def _scale(spec: TensorSpec, request: Request) -> float:
    """The user's; else 1/255 where real numbers are wanted."""
    if request.image_scale is not None:
        return request.image_scale
    return 1 / 255 if spec.is_float or spec.scale is not None else 1.0


def table_of(spec: TensorSpec, picture: Picture) -> Array:
    """What each pixel value becomes, of the input's type, [channels, 256]."""
    if not np.isfinite([picture.mean, picture.std]).all() or not all(picture.std):
        raise UsageError(
            "--image-mean and --image-std have to be numbers, and --image-std can't be 0",
            code="option-value",
        )
    exact, dtype = value_table(picture.model_dump()), numpy_dtype(spec)
    if spec.scale is not None:
        ends = np.iinfo(dtype)
        exact = np.rint(exact / spec.scale) + (spec.zero_point or 0)
        exact = np.clip(exact, ends.min, ends.max)
    with np.errstate(all="ignore"):  # what doesn't fit is refused below
        table = exact.astype(dtype)
    fits = np.isfinite(table) if spec.is_float else table.astype(np.float64) == exact
    if not fits.all():
        bad = exact[~fits][0]
        raise UsageError(
            f"the prepared images hold {bad:g}, which {spec.name} ({spec.dtype}) can't hold",
            code="samples-mismatch",
            hint="Change --image-scale, --image-mean and --image-std.",
        )
    return table


def _by_channel(
    values: Sequence[float], default: float, channels: int, flag: str
) -> tuple[float, ...]:
    """One number a channel; one for all may be given."""
    if len(values) not in (0, 1, channels):
        raise UsageError(
            f"{flag} has {len(values)} values, but the model's image has {channels} channels",
            code="option-value",
        )
    return tuple(np.broadcast_to(np.asarray(values or [default], np.float64), (channels,)).tolist())


def _together(labels: list[Any]) -> Array | None:
    return None if labels[0] is None else np.asarray(labels)


def declared_picture(
    inputs: Sequence[TensorSpec], request: Request, sizes: Mapping[str, int]
) -> Picture | None:
    """How an image becomes a model's only input, as the options of images say; None where they
    don't fit: samples of another kind leave them without effect.

    Args:
        inputs: The model's.
        request: Its ``image_*``.
        sizes: Sizes of free dimensions.
    """
    try:
        return ImagePlan(inputs, request, sizes).picture
    except UsageError:
        return None
