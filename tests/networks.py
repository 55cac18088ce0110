"""Networks as people write and train them, small and with random weights: what a conversion meets
in whole ones, and in no operator by itself.

Each is (module, inputs, free axes), made by a function of :data:`NETWORKS`; docstrings and comments
say what it has that others haven't. A free axis is named, after what it is a multiple of (``4*w``).
A process of its own (``python -m tests.networks FOLDER NAME ...``) exports them as PyTorch does
now: ``NAME.onnx``, and ``NAME.0.npz`` and ``NAME.1.npz``, two feeds of different sizes.
"""

import os
import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

Inputs = dict[str, Tensor]
Axes = dict[str, dict[int, str]]
Network = tuple[nn.Module, Inputs, Axes]

NETWORKS: dict[str, Callable[[], Network]] = {}


def network_of(**inputs: str) -> Callable[[type[nn.Module]], type[nn.Module]]:
    """Registers a module by its class's name: of each input the sizes, and what free ones are."""
    told = {name: [dim.partition(":") for dim in text.split()] for name, text in inputs.items()}

    def register(kind: type[nn.Module]) -> type[nn.Module]:
        def make() -> Network:
            module = kind()
            drawn = {n: torch.randn([int(d[0]) for d in dims]) for n, dims in told.items()}
            free = {n: {a: d[2] for a, d in enumerate(dims) if d[2]} for n, dims in told.items()}
            return module, drawn, free

        NETWORKS[kind.__name__.lower()] = make
        return kind

    return register


class Named(nn.Module):
    """A model of transformers as one of tensors: positional inputs, outputs by name."""

    def __init__(self, model: Any, inputs: list[str], *outputs: str) -> None:
        super().__init__()
        self.model, self.inputs, self.outputs = model, inputs, outputs

    def forward(self, *tensors: Tensor) -> Any:
        """The outputs that were asked for."""
        found = self.model(**dict(zip(self.inputs, tensors, strict=True)))
        return tuple(getattr(found, name) for name in self.outputs)


def _text(model: Any, *outputs: str) -> Network:
    ids = torch.randint(3, 90, (2, 14))
    mask = torch.ones_like(ids)
    mask[1, 9:] = 0
    inputs = {"input_ids": ids, "attention_mask": mask}
    axes = {name: {0: "batch", 1: "sequence"} for name in inputs}
    return Named(model, list(inputs), *outputs), inputs, axes


HEADS = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
SMALL = {**HEADS, "intermediate_size": 64}
WORDS = {**SMALL, "vocab_size": 100, "max_position_embeddings": 64}
_SIDES = {"layers": 1, "attention_heads": 4, "ffn_dim": 64}

TEXTS: dict[str, tuple[str, str, dict[str, Any]]] = {
    # distances in buckets, by logarithms: rows of places less columns of them
    "t5": ("T5EncoderModel", "last_hidden_state", {
        "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "vocab_size": 100,
        "attn_implementation": "eager"}),
    # signs and sizes of distances in int64, and a Tile by a computed number
    "deberta": ("DebertaV2Model", "last_hidden_state", {
        **WORDS, "position_buckets": 16, "pos_att_type": ["p2c", "c2p"], "share_att_key": True,
        "relative_attention": True, "norm_rel_ebd": "layer_norm"}),
    # rotated places, and heads that share keys and values
    "llama": ("LlamaForCausalLM", "logits", {
        **WORDS, "num_key_value_heads": 2, "use_cache": False}),
    # a mask of a free length
    "gpt2": ("GPT2LMHeadModel", "logits", {
        "n_positions": 64, "n_embd": 32, "n_layer": 2, "n_head": 4, "use_cache": False,
        "vocab_size": 100}),
}  # fmt: skip
IMAGES: dict[str, tuple[str, str, dict[str, Any]]] = {
    # a query for each image of a free batch
    "siglip": ("SiglipVisionModel", "last_hidden_state pooler_output", {
        **SMALL, "image_size": 64, "patch_size": 16}),
    # places that are resized to an image of any size
    "dinov2": ("Dinov2Model", "last_hidden_state", {**HEADS, "image_size": 70, "patch_size": 14}),
    # queries that look at an image, and boxes
    "detr": ("DetrForObjectDetection", "logits pred_boxes", {
        **{f"{side}_{n}": size for side in ("encoder", "decoder") for n, size in _SIDES.items()},
        "backbone_config": {
            "model_type": "resnet", "embedding_size": 16, "hidden_sizes": [16, 32],
            "depths": [1, 1], "out_features": ["stage2"]},
        "use_timm_backbone": False, "use_pretrained_backbone": False, "backbone": None,
        "d_model": 32, "num_queries": 7}),
    # a global mean as one over more than there is
    "efficientnet": ("EfficientNetForImageClassification", "logits", {
        "width_coefficient": 0.25, "depth_coefficient": 0.3, "hidden_dim": 320, "image_size": 64}),
    # windows that are rolled and masked
    "swin": ("SwinForImageClassification", "logits", {
        "embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4, "image_size": 64,
        "num_labels": 10, "attn_implementation": "eager"}),
    # tokens that become an image, and transposed convolutions
    "vitpose": ("VitPoseForPoseEstimation", "heatmaps", {
        "backbone_config": {
            "model_type": "vitpose_backbone", **HEADS, "image_size": [64, 48],
            "patch_size": [16, 16], "out_indices": [2]},
        "num_labels": 17, "use_simple_decoder": False}),
}  # fmt: skip
"""Models of transformers: class, outputs and configuration."""

SIZES = {"dinov2": (112, 84), "vitpose": (64, 48)}
FREE = {"dinov2": {0: "batch", 2: "14*h", 3: "14*w"}, "swin": {}}


def transformer(name: str) -> Network:
    """A network of :data:`TEXTS` or :data:`IMAGES`."""
    import transformers

    kind, outputs, config = (TEXTS | IMAGES)[name]
    model = getattr(transformers, kind)
    model = model(model.config_class(**config))
    if name in TEXTS:
        return _text(model, *outputs.split())
    inputs = {"pixel_values": torch.randn(2, 3, *SIZES.get(name, (64, 64)))}
    axes = {"pixel_values": FREE.get(name, {0: "batch"})}
    return Named(model, list(inputs), *outputs.split()), inputs, axes


NETWORKS |= {name: partial(transformer, name) for name in (*TEXTS, *IMAGES)}


def _block(inputs: int, outputs: int, stride: int = 1, act: type[nn.Module] = nn.SiLU) -> nn.Module:
    conv = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs), act())


@network_of(image="2:batch 3 32:height 48:width")
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


@network_of(image="2:batch 3 24:2*h 32:2*w")
class Stylizer(nn.Module):
    """Reflected borders and norms of each instance; pixels repeated, and made of channels."""

    def __init__(self) -> None:
        super().__init__()

        def layer(inputs: int, outputs: int, size: int, stride: int = 1) -> nn.Module:
            conv = nn.Conv2d(inputs, outputs, size, stride)
            norm = nn.InstanceNorm2d(outputs, affine=stride == 1)
            return nn.Sequential(nn.ReflectionPad2d(size // 2), conv, norm)

        self.down = nn.Sequential(layer(3, 8, 9), nn.ReLU(), layer(8, 16, 3, 2), nn.ReLU())
        larger = nn.Upsample(scale_factor=2.0, mode="nearest")
        self.rest = nn.Sequential(layer(16, 16, 3), nn.ReLU(), larger, layer(16, 16, 3, 2))
        self.up = nn.ConvTranspose2d(16, 8, 3, 2, 1, output_padding=1)
        self.out = nn.Sequential(layer(8, 12, 9, 2), nn.PixelShuffle(2))

    def forward(self, image: Tensor) -> Tensor:
        """[N, 3, H, W] to as much, H and W even."""
        y = self.down(image)
        return torch.tanh(self.out(F.relu(self.up(y + self.rest(y)))))


@network_of(mel="2:batch 10 12:frames")
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


@network_of(image="2:batch 3 32 32")
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


@network_of(image="2:batch 1 16 32:4*w")
class Recognizer(nn.Module):
    """Columns of an image as steps of an LSTM both ways."""

    def __init__(self) -> None:
        super().__init__()
        pool = nn.MaxPool2d(2)
        self.body = nn.Sequential(
            _block(1, 8), pool, _block(8, 16), pool, nn.Conv2d(16, 24, (4, 1))
        )
        # batch first: otherwise PyTorch's exporter writes the length down
        self.steps = nn.LSTM(24, 16, 2, bidirectional=True, batch_first=True)
        self.out = nn.Linear(32, 12)

    def forward(self, image: Tensor) -> Tensor:
        """[N, 1, 16, W] to [N, W / 4, 12]."""
        y, _ = self.steps(self.body(image).squeeze(2).transpose(1, 2))
        return self.out(y).log_softmax(2)


class Pooled(nn.Module):
    """Words, a GRU of a free length both ways, and a softmax that padding has no part in."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(90, 24)
        self.line = nn.GRU(24, 16, bidirectional=True, batch_first=True)
        self.weight, self.classes = nn.Linear(32, 1), nn.Linear(32, 5)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """[N, L] twice to [N, 5]."""
        found = self.line(self.words(ids))[0]
        weight = self.weight(found).squeeze(-1).masked_fill(mask == 0, float("-inf"))
        return self.classes((weight.softmax(-1)[:, None] @ found).squeeze(1))


def _pooled() -> Network:
    _, inputs, axes = _text(None)
    return Pooled(), inputs, axes


NETWORKS["pooled"] = _pooled


@network_of(image="2:batch 3 32:4*h 48:4*w")
class Boxes(nn.Module):
    """A detector's head: a grid, boxes and classes, and the best of them."""

    def __init__(self) -> None:
        super().__init__()
        last = nn.Conv2d(16, 9, 3, 2, 1)  # 4 of a box, 5 classes
        self.body = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.SiLU(), last)

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """[N, 3, H, W] to [N, 10, 4], [N, 10] and [N, 10]."""
        found = self.body(image)
        places = torch.meshgrid(*(torch.arange(n) for n in found.shape[2:]), indexing="ij")
        middle = (found[:, :2].sigmoid() * 2 - 0.5 + torch.stack(places[::-1]).float()) * 4
        size = (found[:, 2:4].sigmoid() * 2) ** 2 * 8
        boxes = torch.cat([middle - size / 2, middle + size / 2], 1).flatten(2).transpose(1, 2)
        best, kind = found[:, 4:].flatten(2).sigmoid().max(1)
        score, place = best.topk(10, 1)
        return boxes.gather(1, place[..., None].expand(-1, -1, 4)), score, kind.gather(1, place)


def _settle(module: nn.Module) -> None:
    """Batch norms as if they had been trained."""
    for layer in module.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.running_mean.uniform_(-0.2, 0.2)
            layer.running_var.uniform_(0.6, 1.4)


def _smaller(x: Tensor, free: dict[int, str]) -> Tensor:
    """One sample, half as long along other free axes."""
    for axis, name in free.items():
        factor = int(name.partition("*")[0]) if "*" in name else 1
        x = x.narrow(axis, 0, max(factor, x.shape[axis] // 2 // factor * factor))
    return x.contiguous()


def _dim(name: str) -> Any:
    """A free size: any, or a multiple."""
    factor, _, own = name.rpartition("*")
    dims = torch.export.Dim
    return int(factor) * dims(own, min=2, max=200) if factor else dims.DYNAMIC


def _export(folder: Path, name: str) -> None:
    torch.manual_seed(0)
    module, inputs, axes = NETWORKS[name]()
    _settle(module.eval())
    free = tuple({axis: _dim(n) for axis, n in axes.get(key, {}).items()} for key in inputs)
    shapes = ((free,) if isinstance(module, Named) else free) if axes else None
    how: dict[str, Any] = {"input_names": list(inputs), "dynamic_shapes": shapes}
    how |= {"dynamo": True, "opset_version": 20, "external_data": False, "verbose": False}
    torch.onnx.export(module, tuple(inputs.values()), folder / f"{name}.onnx", **how)
    small = {key: _smaller(x, axes.get(key, {})) for key, x in inputs.items()}
    for number, feeds in enumerate((inputs, small)):
        np.savez(folder / f"{name}.{number}.npz", **{key: x.numpy() for key, x in feeds.items()})


def main(folder: Path, names: list[str]) -> None:
    """Writes those that are named, or all."""
    os.environ.update(HF_HUB_OFFLINE="1", CUDA_VISIBLE_DEVICES="-1")
    warnings.filterwarnings("ignore")
    for name in names or NETWORKS:
        _export(folder, name)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
