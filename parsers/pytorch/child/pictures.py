"""What a model that was made here says of pictures: torchvision's transforms, timm's settings.

They come to the request's `image_*` fields. What they mean is torchvision's (`transforms`,
`transforms._presets`, `models.WeightsEnum`) and timm's (`data.config`, `data.transforms_factory`).
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

_FILTERS = ("nearest", "bilinear", "bicubic", "lanczos")
_CLASSIFIER = "ImageClassification"
_ATTRIBUTES = ("transforms", "transform", "preprocess")
# To numbers of 0 to 1; v2's ToDtype only where it scales.
_SCALING = ("ToTensor", "ConvertImageDtype", "ToDtype")
_PLAIN = ("PILToTensor", "ToImage", "PILToImage", "Identity", "ToPureTensor")


class Unsaid(Exception):
    """No option says something of a transform."""


class Found(NamedTuple):
    """`images` are fields of a request, `labels` the classes' names, `origin` where both are from,
    `unsaid` what no option says, `logits` whether outputs are known to be no probabilities yet."""

    images: dict[str, Any]
    labels: list[str]
    origin: str
    unsaid: str = ""
    logits: bool = False

    def told(self) -> dict[str, Any]:
        """As JSON has it."""
        return dict(self._asdict())


NOTHING = Found({}, [], "")


def found(model: Any, params: Mapping[str, Any]) -> Found:
    """What is known of the pictures of `model`, which was made as `params` of `load` say."""
    try:
        return _of_weights(model, params) or _of_timm(model) or _of_attributes(model) or NOTHING
    except Unsaid as error:
        where, what = error.args
        return Found({}, [], where, what)


def _of_weights(model: Any, params: Mapping[str, Any]) -> Found | None:
    weights = _weights(model, params)
    if weights is None:
        return None
    origin = f"{type(weights).__name__}.{weights.name}"
    labels = list(map(str, (weights.meta or {}).get("categories") or []))
    images = _said(weights.transforms(), origin)
    classifies = type(weights.transforms()).__name__ == _CLASSIFIER
    return Found(images, labels, origin, logits=classifies and _is_of(model, "torchvision.models"))


def _weights(model: Any, params: Mapping[str, Any]) -> Any:
    """The torchvision weights that a model has: it says so, it was made of them, or its file has
    the name of theirs."""
    models = sys.modules.get("torchvision.models")
    if models is None:
        return None
    own = getattr(model, "weights", None)
    if isinstance(own, models.WeightsEnum):
        return own
    builder = str(params.get("source") or "").rpartition(":")[2].rpartition(".")[2]
    if not _is_of(model, "torchvision.models") or builder not in models.list_models():
        return None
    known = models.get_model_weights(builder)
    args = params.get("args") or []
    asked = (params.get("kwargs") or {}).get("weights", args[0] if args else None)
    if isinstance(asked, str):
        return known[asked.rpartition(".")[2]]
    file = os.path.basename(params.get("weights") or "")  # noqa: PTH119
    return next((item for item in known if item.url.rpartition("/")[2] == file), None)


def _of_timm(model: Any) -> Found | None:
    settings = getattr(model, "pretrained_cfg", None)
    if not _is_of(model, "timm") or not isinstance(settings, Mapping):
        return None
    if not set(settings).issuperset(("input_size", "mean", "std")):
        return None
    origin = f"timm's pretrained_cfg of {settings.get('architecture') or type(model).__name__}"
    _, height, width = settings["input_size"]
    mode, share = settings.get("crop_mode") or "center", settings.get("crop_pct") or 0.875
    if mode == "squash":
        resize = f"{math.floor(height / share)}x{math.floor(width / share)}"
    elif mode == "center" and height == width:
        resize = str(math.floor(height / share))
    else:
        raise Unsaid(origin, f"crop_mode {mode} of {height}x{width}")
    images = {
        "image_resize": resize,
        "image_size": f"{height}x{width}",
        "image_interpolation": _filter(settings.get("interpolation"), origin),
        "image_mean": list(map(float, settings["mean"])),
        "image_std": list(map(float, settings["std"])),
    }
    labels = list(map(str, settings.get("label_names") or []))
    return Found(images, labels, origin, logits=bool(getattr(model, "num_classes", 0)))


def _of_attributes(model: Any) -> Found | None:
    """Of the user's own module: the transforms that it has as an attribute."""
    for name in _ATTRIBUTES:
        value = vars(model).get(name)
        if value is not None and _is_of(value, "torchvision.transforms"):
            origin = f"its {name}"
            return Found(_said(value, origin), [], origin)
    return None


def _is_of(value: Any, package: str) -> bool:
    return f"{type(value).__module__}.".startswith(f"{package}.")


def _said(transform: Any, origin: str) -> dict[str, Any]:
    """The fields that a transform comes to."""
    if type(transform).__name__ == _CLASSIFIER:
        return {
            **_sizes(transform.resize_size, transform.crop_size, origin),
            "image_interpolation": _filter(transform.interpolation, origin),
            "image_mean": list(map(float, transform.mean)),
            "image_std": list(map(float, transform.std)),
        }
    return _walked(list(_flat(transform)), origin)


def _flat(transform: Any) -> Iterator[Any]:
    """The steps of a Compose, or of several in one another."""
    if type(transform).__name__ in ("Compose", "Sequential"):
        steps = getattr(transform, "transforms", None)
        for step in list(transform.children()) if steps is None else steps:
            yield from _flat(step)
    else:
        yield transform


def _walked(steps: Sequence[Any], origin: str) -> dict[str, Any]:
    images: dict[str, Any] = {"image_scale": 1.0}
    resize: Any = None
    crop: Any = None
    for step in steps:
        kind = type(step).__name__
        if not _is_of(step, "torchvision.transforms"):
            raise Unsaid(origin, f"{type(step).__module__}.{kind}")
        if "image_mean" in images or (kind == "Resize" and (resize or crop)):
            raise Unsaid(origin, f"{kind} in a place that Modelyard doesn't know")
        if kind == "Resize" and step.size and not step.max_size:
            resize, images["image_interpolation"] = step.size, _filter(step.interpolation, origin)
        elif kind == "CenterCrop" and not crop:
            crop = step.size
        elif kind in _SCALING and getattr(step, "scale", True):
            images.pop("image_scale", None)
        elif kind == "Normalize":
            images["image_mean"] = list(map(float, step.mean))
            images["image_std"] = list(map(float, step.std))
        elif kind not in (*_PLAIN, *_SCALING):
            raise Unsaid(origin, kind)
    return {**images, **_sizes(resize, crop, origin)}


def _sizes(resize: Any, crop: Any, origin: str) -> dict[str, Any]:
    first, last = _side(resize), _side(crop)
    if last is None:
        if isinstance(first, str) and "x" not in first:
            raise Unsaid(origin, "a shorter side without a crop, so the size isn't fixed")
        return {"image_size": first} if first else {}
    if first is None:
        raise Unsaid(origin, "a crop without a resize")
    size = last if "x" in last else f"{last}x{last}"
    return {"image_resize": first, "image_size": size}


def _side(size: Any) -> str | None:
    """`256` for a shorter side, `256x224` for height and width."""
    if size is None or isinstance(size, int):
        return None if size is None else str(size)
    return "x".join(str(side) for side in size)


def _filter(said: Any, origin: str) -> str:
    name = str(getattr(said, "value", said))
    if name not in _FILTERS:
        raise Unsaid(origin, f"interpolation {name}")
    return name
