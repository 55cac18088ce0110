"""What MMdnn's users know of Keras' models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from converter.errors import UsageError
from converter.protocols.mmdnn import Known
from parsers.tensorflow.mmdnn import fetched


def _files(network: str | None, weights: str | None, named: bool) -> dict[str, Any] | None:
    """Refuses a network whose weights are apart."""
    first = network or weights or ""
    if not (named and network and weights) and not first.lower().endswith(".json"):
        return None
    raise UsageError(
        f"{Path(first).name} holds a Keras network without its weights. Modelyard can't join "
        "them, because that depends on the version of Keras that wrote them",
        code="mmdnn",
        hint="Join them where they were made: model = keras.models.model_from_json(...); "
        "model.load_weights(...); model.save('model.keras'). Then: -sf keras -iw "
        "model.keras",
    )


MMDNN = Known(
    example="-sf keras -iw inception_v3.h5 -df onnx -om inception_v3.onnx",
    files=_files,
    written={"trainable": True},
    fetched=fetched(
        inception_v3="InceptionV3",
        vgg16="VGG16",
        vgg19="VGG19",
        resnet50="ResNet50",
        mobilenet="MobileNet",
        xception="Xception",
        nasnet="NASNetLarge",
        densenet="DenseNet121",
        yolo2="",
    ),
)
