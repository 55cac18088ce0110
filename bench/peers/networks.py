"""Networks that are converted by us and by peers, and what an engineer would write by hand with a
peer: build the network, load its weights, convert, save.

networks.py PEER NETWORK WEIGHTS OUT; PEER ``weights`` only writes the weights. It runs in the
peer's own environment: torch and transformers, and what the peer needs. No other module of ours is
in its folder, which is first on Python's path: transformers looks for packages by short names.
"""

import sys
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Network:
    """What is converted.

    Attributes:
        factory: A function here; sizes are those of transformers' configurations, weights random.
        declared: Its input as ``--input`` takes it.
        shape: The shape of a peer's example.
        convolutional: Whether it is a convolutional network.
    """

    factory: str
    declared: str
    shape: tuple[int, ...]
    convolutional: bool = False


_IMAGE = ("pixel_values:batchx3x224x224", (1, 3, 224, 224))
_TEXT = ("input_ids:int64:batchx128", (1, 128))

NETWORKS = {
    "resnet50": Network("resnet50", *_IMAGE, convolutional=True),
    "mobilenet-v3": Network("mobilenet_v3", *_IMAGE, convolutional=True),
    "vit-b16": Network("vit_b16", *_IMAGE),
    "swin-t": Network("swin_t", *_IMAGE),
    "bert-base": Network("bert_base", *_TEXT),
    "mobilenet-v2": Network("mobilenet_v2", *_IMAGE, convolutional=True),
    "efficientnet-b0": Network("efficientnet_b0", *_IMAGE, convolutional=True),
    "convnext-t": Network("convnext_t", *_IMAGE, convolutional=True),
    "segformer-b0": Network("segformer_b0", *_IMAGE),
    "distilbert": Network("distilbert", *_TEXT),
}
"""By the names of ``--networks``."""


def resnet50() -> Any:
    """ResNet-50."""
    from transformers import ResNetConfig, ResNetForImageClassification

    return ResNetForImageClassification(ResNetConfig(num_labels=1000))


def mobilenet_v3() -> Any:
    """MobileNetV3-Large."""
    from mobilenet_v3 import MobileNetV3  # type: ignore[import-not-found]

    return MobileNetV3()


def vit_b16() -> Any:
    """ViT-B/16."""
    from transformers import ViTConfig, ViTForImageClassification

    return ViTForImageClassification(ViTConfig(num_labels=1000))


def swin_t() -> Any:
    """Swin-T."""
    from transformers import SwinConfig, SwinForImageClassification

    return SwinForImageClassification(SwinConfig(num_labels=1000))


def bert_base() -> Any:
    """BERT-base."""
    from transformers import BertConfig, BertModel

    return BertModel(BertConfig())


def mobilenet_v2() -> Any:
    """MobileNetV2."""
    from transformers import MobileNetV2Config, MobileNetV2ForImageClassification

    return MobileNetV2ForImageClassification(MobileNetV2Config(num_labels=1000))


def efficientnet_b0() -> Any:
    """EfficientNet-B0; the configuration's defaults are B7's."""
    from transformers import EfficientNetConfig, EfficientNetForImageClassification

    b0 = EfficientNetConfig(
        width_coefficient=1.0, depth_coefficient=1.0, image_size=224, hidden_dim=1280,
        num_labels=1000,
    )  # fmt: skip
    return EfficientNetForImageClassification(b0)


def convnext_t() -> Any:
    """ConvNeXt-T."""
    from transformers import ConvNextConfig, ConvNextForImageClassification

    return ConvNextForImageClassification(ConvNextConfig(num_labels=1000))


def segformer_b0() -> Any:
    """SegFormer-B0 for semantic segmentation of 150 classes."""
    from transformers import SegformerConfig, SegformerForSemanticSegmentation

    return SegformerForSemanticSegmentation(SegformerConfig(num_labels=150))


def distilbert() -> Any:
    """DistilBERT."""
    from transformers import DistilBertConfig, DistilBertModel

    return DistilBertModel(DistilBertConfig())


def main(peer: str, name: str, weights: str, out: str = "") -> None:
    """Converts one network with a peer.

    Args:
        peer: ``torch``, ``coremltools`` or ``litert-torch``; ``weights`` only writes the weights.
        name: The network's.
        weights: The file of its weights.
        out: What is written, without its suffix.
    """
    import torch

    chosen = NETWORKS[name]
    torch.manual_seed(0)
    model = globals()[chosen.factory]().eval()
    if peer == "weights":
        torch.save(model.state_dict(), weights)
        return
    model.load_state_dict(torch.load(weights, weights_only=True))
    of_words = len(chosen.shape) == 2
    example = torch.zeros(chosen.shape, dtype=torch.int64 if of_words else torch.float32)
    given = (with_tuple(model), (example,))
    if peer == "torch":
        program = torch.onnx.export(
            *given, dynamo=True, dynamic_shapes=({0: torch.export.Dim("batch")},), verbose=False
        )
        program.save(f"{out}.onnx")
    elif peer == "coremltools":
        import coremltools

        exported = torch.export.export(*given).run_decompositions({})
        made = coremltools.convert(
            exported, compute_precision=coremltools.precision.FLOAT32, skip_model_load=True
        )
        made.save(f"{out}.mlpackage")
    else:
        import litert_torch  # type: ignore[import-not-found]

        litert_torch.convert(*given).export(f"{out}.tflite")


def with_tuple(model: Any) -> Any:
    """The model with a tuple of tensors for its outputs, which every peer takes."""
    import torch

    class Outputs(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, x: Any) -> Any:
            made = self.model(x)
            return (made,) if isinstance(made, torch.Tensor) else made.to_tuple()

    return Outputs()


if __name__ == "__main__":
    main(*sys.argv[1:])
