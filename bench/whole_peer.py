"""What an engineer would write by hand with a peer: build the model, load its weights, convert.

whole_peer.py PEER MODEL WEIGHTS OUT; PEER ``weights`` only writes the weights. It runs in the
peer's own environment: torch and transformers, and what the peer needs.
"""

import sys
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Built:
    """A model that is converted: the factory here, its input for ``--input``, what a peer is
    given, and whether it is a convolutional network."""

    factory: str
    declared: str
    shape: tuple[int, ...]
    convolutional: bool = False


_IMAGE = ("pixel_values:batchx3x224x224", (1, 3, 224, 224))

MODELS = {
    "resnet50": Built("resnet50", *_IMAGE, convolutional=True),
    "mobilenet-v2": Built("mobilenet_v2", *_IMAGE, convolutional=True),
    "vit-b16": Built("vit_b16", *_IMAGE),
    "swin-t": Built("swin_t", *_IMAGE),
    "bert-base": Built("bert_base", "input_ids:int64:batchx128", (1, 128)),
}
"""By the names of ``--models``; sizes are those of transformers' configurations."""


def resnet50() -> Any:
    """ResNet-50."""
    from transformers import ResNetConfig, ResNetForImageClassification

    return ResNetForImageClassification(ResNetConfig(num_labels=1000))


def mobilenet_v2() -> Any:
    """MobileNetV2."""
    from transformers import MobileNetV2Config, MobileNetV2ForImageClassification

    return MobileNetV2ForImageClassification(MobileNetV2Config(num_labels=1000))


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


def main(peer: str, name: str, weights: str, out: str = "") -> None:
    """Converts one model with a peer."""
    import torch

    chosen = MODELS[name]
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
        coremltools.convert(exported, skip_model_load=True).save(f"{out}.mlpackage")
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
            return tuple(self.model(x, return_dict=False))

    return Outputs()


if __name__ == "__main__":
    main(*sys.argv[1:])
