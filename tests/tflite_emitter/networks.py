"""Networks as people write and train them, small and with random weights: what a conversion meets
in whole ones, and in no operator by itself.

Each is (module, inputs, free axes), made by a function of :data:`NETWORKS`, whose docstring says
what it has that others haven't.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Inputs = dict[str, Tensor]
Axes = dict[str, dict[int, str]]
Network = tuple[nn.Module, Inputs, Axes]

NETWORKS: dict[str, Callable[[], Network]] = {}


def network(make: Callable[[], Network]) -> Callable[[], Network]:
    """Registers a network by its function's name."""
    NETWORKS[make.__name__] = make
    return make


class Named(nn.Module):
    """A model of transformers as one of tensors: positional inputs, outputs by name."""

    def __init__(self, model: Any, inputs: list[str], *outputs: str) -> None:
        super().__init__()
        self.model, self.inputs, self.outputs = model, inputs, outputs

    def forward(self, *tensors: Tensor) -> Any:
        """The outputs that were asked for."""
        found = self.model(**dict(zip(self.inputs, tensors, strict=True)))
        return tuple(getattr(found, name) for name in self.outputs)


SMALL = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64,
}  # fmt: skip
WORDS = {**SMALL, "vocab_size": 100, "max_position_embeddings": 64}


def _text(model: Any, *outputs: str) -> Network:
    ids = torch.randint(3, 90, (2, 14))
    mask = torch.ones_like(ids)
    mask[1, 9:] = 0
    inputs = {"input_ids": ids, "attention_mask": mask}
    axes = {name: {0: "batch", 1: "sequence"} for name in inputs}
    return Named(model, list(inputs), *outputs), inputs, axes


def _image(model: Any, *outputs: str, size: tuple[int, int] = (64, 64)) -> Network:
    inputs = {"pixel_values": torch.randn(2, 3, *size)}
    return Named(model, list(inputs), *outputs), inputs, {"pixel_values": {0: "batch"}}


@network
def t5() -> Network:
    """Distances in buckets, by logarithms: rows of places less columns of them."""
    from transformers import T5Config, T5EncoderModel

    sizes = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}
    config = T5Config(vocab_size=100, **sizes, attn_implementation="eager")
    return _text(T5EncoderModel(config), "last_hidden_state")


@network
def deberta() -> Network:
    """Signs and sizes of distances in int64, and a Tile by a computed number."""
    from transformers import DebertaV2Config, DebertaV2Model

    relative = {"position_buckets": 16, "pos_att_type": ["p2c", "c2p"], "share_att_key": True}
    config = DebertaV2Config(
        **WORDS, **relative, relative_attention=True, norm_rel_ebd="layer_norm"
    )
    return _text(DebertaV2Model(config), "last_hidden_state")


@network
def gpt2() -> Network:
    """A mask of a free length."""
    from transformers import GPT2Config, GPT2LMHeadModel

    sizes = {"n_positions": 64, "n_embd": 32, "n_layer": 2, "n_head": 4, "use_cache": False}
    return _text(GPT2LMHeadModel(GPT2Config(vocab_size=100, **sizes)), "logits")


@network
def siglip() -> Network:
    """A query for each image of a free batch."""
    from transformers import SiglipVisionConfig, SiglipVisionModel

    config = SiglipVisionConfig(**SMALL, image_size=64, patch_size=16)
    return _image(SiglipVisionModel(config), "last_hidden_state", "pooler_output")


@network
def efficientnet() -> Network:
    """A global mean as one over more than there is."""
    from transformers import EfficientNetConfig, EfficientNetForImageClassification

    sizes = {"width_coefficient": 0.25, "depth_coefficient": 0.3, "hidden_dim": 320}
    config = EfficientNetConfig(**sizes, image_size=64)
    return _image(EfficientNetForImageClassification(config), "logits")


@network
def swin() -> Network:
    """Windows that are rolled and masked."""
    from transformers import SwinConfig, SwinForImageClassification

    sizes = {"embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4}
    config = SwinConfig(**sizes, image_size=64, num_labels=10, attn_implementation="eager")
    named, inputs, _ = _image(SwinForImageClassification(config), "logits")
    return named, inputs, {}


@network
def vitpose() -> Network:
    """Tokens that become an image, and transposed convolutions."""
    from transformers import VitPoseBackboneConfig, VitPoseConfig, VitPoseForPoseEstimation

    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    backbone = VitPoseBackboneConfig(
        **sizes, image_size=[64, 48], patch_size=[16, 16], out_indices=[2]
    )
    config = VitPoseConfig(backbone_config=backbone, num_labels=17, use_simple_decoder=False)
    return _image(VitPoseForPoseEstimation(config), "heatmaps", size=(64, 48))


def _block(inputs: int, outputs: int, stride: int = 1, act: type[nn.Module] = nn.SiLU) -> nn.Module:
    conv = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs), act())


class Segmenter(nn.Module):
    """Dilated branches, a global mean laid out again, and what comes out as large as what goes in;
    or, with ``transposed``, up by learned steps."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = _block(3, 8, 2), _block(8, 16, 2, nn.LeakyReLU)
        self.branches = nn.ModuleList([nn.Conv2d(16, 8, 3, 1, d, d) for d in (1, 2, 4)])
        self.up, self.out = nn.ConvTranspose2d(24, 8, 2, 2), nn.Conv2d(16, 4, 3, 1, 1)

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        """[N, 3, H, W], H and W multiples of 4, to scores and classes."""
        high = self.first(image)
        low = self.second(high)
        y = torch.cat([branch(low) for branch in self.branches], 1)
        mean = F.adaptive_avg_pool2d(y, 1)
        y = y + F.interpolate(mean, size=y.shape[2:], mode="bilinear", align_corners=False)
        y = self.out(torch.cat([F.relu(self.up(y)), high], 1))
        y = F.interpolate(y, size=image.shape[2:], mode="bilinear", align_corners=False)
        return y, y.argmax(1)


@network
def segmenter() -> Network:
    """Sizes computed from free ones, and halved."""
    return (
        Segmenter(),
        {"image": torch.randn(2, 3, 32, 48)},
        {"image": {0: "batch", 2: "height", 3: "width"}},
    )


class Stylizer(nn.Module):
    """Reflected borders and norms of each instance."""

    def __init__(self) -> None:
        super().__init__()

        def layer(inputs: int, outputs: int, size: int, stride: int = 1) -> nn.Module:
            conv = nn.Conv2d(inputs, outputs, size, stride)
            norm = nn.InstanceNorm2d(outputs, affine=True)
            return nn.Sequential(nn.ReflectionPad2d(size // 2), conv, norm)

        self.down = nn.Sequential(layer(3, 8, 9), nn.ReLU(), layer(8, 16, 3, 2), nn.ReLU())
        self.rest = nn.Sequential(layer(16, 16, 3), nn.ReLU(), layer(16, 16, 3))
        self.up = nn.ConvTranspose2d(16, 8, 3, 2, 1, output_padding=1)
        self.out = layer(8, 3, 9)

    def forward(self, image: Tensor) -> Tensor:
        """[N, 3, H, W] to as much."""
        y = self.down(image)
        return torch.tanh(self.out(F.relu(self.up(y + self.rest(y)))))


@network
def stylizer() -> Network:
    """Of a fixed size."""
    return Stylizer(), {"image": torch.randn(2, 3, 24, 24)}, {"image": {0: "batch"}}


class Vocoder(nn.Module):
    """Samples from frames: transposed convolutions of one axis, dilated residual ones."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.utils.parametrizations.weight_norm(nn.Conv1d(10, 32, 7, padding=3))
        self.ups = nn.ModuleList(
            [nn.ConvTranspose1d(32, 16, 16, 8, 4), nn.ConvTranspose1d(16, 8, 4, 2, 1)]
        )
        self.rest = nn.ModuleList(
            [nn.Conv1d(c, c, 3, padding=d, dilation=d) for c, d in ((16, 3), (8, 5))]
        )
        self.last = nn.Conv1d(8, 1, 7, padding=3)

    def forward(self, mel: Tensor) -> Tensor:
        """[N, 10, T] to [N, 16 T]."""
        y = self.first(mel)
        for up, rest in zip(self.ups, self.rest, strict=True):
            y = up(F.leaky_relu(y, 0.1))
            y = y + rest(F.leaky_relu(y, 0.1))
        return torch.tanh(self.last(F.leaky_relu(y))).squeeze(1)


@network
def vocoder() -> Network:
    """Of a free number of frames."""
    return Vocoder(), {"mel": torch.randn(2, 10, 12)}, {"mel": {0: "batch", 2: "frames"}}


class Keypoints(nn.Module):
    """Where the peaks of heat maps are: by indices, divided, and by expectation."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(_block(3, 16, 2), _block(16, 16, 2))
        self.up, self.out = nn.ConvTranspose2d(16, 16, 4, 2, 1), nn.Conv2d(16, 5, 1)

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """[N, 3, H, W] to places, scores, and pixels."""
        heat = self.out(F.relu(self.up(self.body(image))))
        n, count, high, wide = heat.shape
        flat = heat.flatten(2)
        best = flat.max(-1)
        share = (flat * 10).softmax(-1).view(n, count, high, wide)
        rows, columns = torch.arange(high) + 0.5, torch.arange(wide) + 0.5
        x, y = (share.sum(2) * columns).sum(-1), (share.sum(3) * rows).sum(-1)
        pixels = torch.stack([best.indices % wide, best.indices // wide], -1)
        return torch.stack([x, y], -1), best.values, pixels


@network
def keypoints() -> Network:
    """Indices of int64, divided."""
    return Keypoints(), {"image": torch.randn(2, 3, 32, 32)}, {"image": {0: "batch"}}


class Recognizer(nn.Module):
    """Columns of an image as steps of an LSTM both ways."""

    def __init__(self) -> None:
        super().__init__()
        pool = nn.MaxPool2d(2)
        self.body = nn.Sequential(
            _block(1, 8), pool, _block(8, 16), pool, nn.Conv2d(16, 24, (4, 1))
        )
        self.steps, self.out = nn.LSTM(24, 16, 2, bidirectional=True), nn.Linear(32, 12)

    def forward(self, image: Tensor) -> Tensor:
        """[N, 1, 16, W] to [W / 4, N, 12]."""
        y, _ = self.steps(self.body(image).squeeze(2).permute(2, 0, 1))
        return self.out(y).log_softmax(2)


@network
def recognizer() -> Network:
    """Of a fixed width."""
    return Recognizer(), {"image": torch.randn(2, 1, 16, 32)}, {"image": {0: "batch"}}
