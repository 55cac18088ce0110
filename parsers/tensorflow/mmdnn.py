"""What MMdnn's users know of TensorFlow's models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from converter.errors import UsageError
from converter.protocols.mmdnn import Known


def _files(network: str | None, weights: str | None, named: bool) -> dict[str, Any] | None:
    """A TF1 checkpoint: the graph's .meta, and the weights' common beginning."""
    if not (named and network and weights):
        return None
    if not network.endswith(".meta"):
        raise UsageError(
            f"-in {network} isn't a checkpoint's .meta file",
            code="mmdnn",
            hint="A frozen graph and a SavedModel hold their weights, so give only -iw.",
        )
    plain = weights
    for suffix in (".index", ".data-00000-of-00001"):
        plain = plain.removesuffix(suffix)
    same = Path(plain).absolute() == Path(network.removesuffix(".meta")).absolute()
    return {"source": network, **({} if same else {"weights": weights})}


def fetched(**nearest: str) -> dict[str, str]:
    """Models that MMdnn fetched, with where each comes from now.

    Args:
        nearest: What in ``keras.applications`` is each, or comes nearest; empty for nothing.
    """
    return {
        name: f'Keras fetches {application}: python -c "import keras; '
        f"keras.applications.{application}().save('{name}.keras')\""
        if application
        else "Nothing that is maintained fetches it."
        for name, application in nearest.items()
    }


MMDNN = Known(
    aliases=("tf",),
    shaped=True,
    example="-sf tensorflow -iw frozen.pb --inNodeName input --inputShape 224,224,3 \\\n"
    "      --dstNodeName prob -df onnx -om frozen.onnx",
    files=_files,
    written={"to": ["savedmodel"]},
    fetched=fetched(
        vgg16="VGG16",
        vgg19="VGG19",
        inception_v3="InceptionV3",
        resnet_v1_50="ResNet50",
        resnet_v1_152="ResNet152",
        resnet_v2_50="ResNet50V2",
        resnet_v2_152="ResNet152V2",
        inception_v1="",
        **{
            "mobilenet_v1_1.0": "MobileNet",
            "mobilenet_v2_1.0_224": "MobileNetV2",
            "inception_resnet_v2": "InceptionResNetV2",
            "nasnet-a_large": "NASNetLarge",
        },
    ),
)
