"""What a Keras model says of the pictures that it takes: by layers that scale pixels in it, or by
the name that `keras.applications` gave it, whose `preprocess_input` is known.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

# Layers that leave pixels 0..255 as they are.
_BEFORE = ("InputLayer", "Resizing", "CenterCrop", "RandomFlip", "RandomRotation", "RandomCrop")

# keras.applications.imagenet_utils' modes, as fields of a request.
_CAFFE = {"image_color": "bgr", "image_scale": 1.0, "image_mean": [103.939, 116.779, 123.68]}
_TF = {"image_mean": [0.5], "image_std": [0.5]}
_TORCH = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}
_NONE = {"image_scale": 1.0}
_NAMES: tuple[tuple[str, Mapping[str, Any]], ...] = (
    (r"resnet(50|101|152)|vgg(16|19)", _CAFFE),
    (r"resnet(50|101|152)v2|xception|inception_v3|inception_resnet_v2|nasnet_(mobile|large)", _TF),
    (r"mobilenet(v2)?_\d\.\d\d_\d+", _TF),
    (r"densenet(121|169|201)", _TORCH),
    (r"convnext_(tiny|small|base|large|xlarge)", _NONE),
)


def found(name: str, layers: Sequence[Any]) -> dict[str, Any]:
    """`images`, fields of a request, and `origin`, what says them; empty where nothing does."""
    for layer in layers:
        kind = type(layer).__name__
        if kind == "Rescaling":
            origin = f"its layer {layer.name}, which scales pixels"
            return {"images": dict(_NONE), "origin": origin}
        if kind not in _BEFORE:
            break
    for pattern, images in _NAMES:
        if re.fullmatch(pattern, name):
            origin = f"its name, {name}: keras.applications' preprocess_input"
            return {"images": dict(images), "origin": origin}
    return {}
