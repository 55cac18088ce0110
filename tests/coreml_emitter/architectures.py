"""Whole networks with random weights, as PyTorch's exporter writes them.

A process of its own writes them (``python -m tests.coreml_emitter.architectures FOLDER``): a file
for each, its axes free where such a network's are.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import torch

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Architecture:
    """A network.

    Attributes:
        make: Gives the module, which takes tensors and gives tensors.
        inputs: Sizes of each input, free ones as they are named.
        sizes: What the names are for export, and for two runs.
        whole: Inputs that are token numbers, of which there are :data:`TOKENS`; the second is a
            mask of ones and, at the end, zeros.
    """

    make: Callable[[], torch.nn.Module]
    inputs: Mapping[str, tuple[int | str, ...]]
    sizes: Mapping[str, tuple[int, int, int]]
    whole: bool = False

    def feeds(self, run: int) -> dict[str, Array]:
        """Seeded inputs: of the export (0), or of a run (1, 2)."""
        draw = np.random.default_rng(run)
        found: dict[str, Array] = {}
        for name, dims in self.inputs.items():
            shape = [dim if isinstance(dim, int) else self.sizes[dim][run] for dim in dims]
            if not self.whole:
                found[name] = draw.standard_normal(shape).astype(np.float32)
            elif found:
                found[name] = (np.arange(shape[-1]) < shape[-1] - run).astype(np.int64)[None]
                found[name] = found[name].repeat(shape[0], axis=0)
            else:
                found[name] = draw.integers(1, TOKENS, shape)
        return found


TOKENS = 90

_SMALL = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
}
_TEXT = {"vocab_size": TOKENS, **_SMALL}
_BATCH = {"batch": (2, 1, 3)}
_TOKENS: dict[str, tuple[int | str, ...]] = {"ids": ("batch", "n"), "mask": ("batch", "n")}
_LENGTHS = {**_BATCH, "n": (9, 5, 12)}


def _taking(module: Any, run: Callable[..., Any]) -> torch.nn.Module:
    """A module that runs another in a way of its own."""
    import torch

    class Taking(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = module

        def forward(self, *inputs: torch.Tensor) -> Any:
            return run(self.inner, *inputs)

    return Taking()


def _text(module: Any, output: str) -> torch.nn.Module:
    return _taking(
        module, lambda inner, ids, mask: inner(input_ids=ids, attention_mask=mask)[output]
    )


# -- transformers ------------------------------------------------------------------------


def _dinov2() -> torch.nn.Module:
    import transformers

    small = {name: size for name, size in _SMALL.items() if name != "intermediate_size"}
    config = transformers.Dinov2Config(image_size=70, patch_size=14, **small)
    return _taking(transformers.Dinov2Model(config), lambda inner, x: inner(x).last_hidden_state)


def _detr() -> torch.nn.Module:
    import transformers

    backbone = transformers.ResNetConfig(
        embedding_size=16, hidden_sizes=[16, 32], depths=[1, 1], out_features=["stage2"]
    )
    sides = {
        f"{side}_{name}": size
        for side in ("encoder", "decoder")
        for name, size in (("layers", 1), ("attention_heads", 4), ("ffn_dim", 64))
    }
    config = transformers.DetrConfig(
        use_timm_backbone=False,
        use_pretrained_backbone=False,
        backbone=None,
        backbone_config=backbone,
        d_model=32,
        num_queries=7,
        **sides,
    )

    def run(inner: Any, x: torch.Tensor) -> Any:
        found = inner(pixel_values=x)
        return found.logits, found.pred_boxes

    return _taking(transformers.DetrForObjectDetection(config), run)


def _deberta() -> torch.nn.Module:
    import transformers

    config = transformers.DebertaV2Config(
        relative_attention=True,
        pos_att_type=["p2c", "c2p"],
        position_buckets=16,
        norm_rel_ebd="layer_norm",
        share_att_key=True,
        position_biased_input=False,
        **_TEXT,
    )
    return _text(transformers.DebertaV2Model(config), "last_hidden_state")


def _t5() -> torch.nn.Module:
    import transformers

    config = transformers.T5Config(
        vocab_size=TOKENS, d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4
    )
    return _text(transformers.T5EncoderModel(config), "last_hidden_state")


def _llama() -> torch.nn.Module:
    import transformers

    config = transformers.LlamaConfig(num_key_value_heads=2, use_cache=False, **_TEXT)
    return _text(transformers.LlamaForCausalLM(config), "logits")


# -- our own -----------------------------------------------------------------------------


def _crnn() -> torch.nn.Module:
    """A line of text: convolutions, and two layers of LSTM in both directions."""
    from torch import nn

    parts = nn.ModuleDict(
        {
            "image": nn.Sequential(
                nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
                nn.Conv2d(16, 32, 3, padding=1), nn.SiLU(), nn.MaxPool2d((8, 2)),
            ),
            "line": nn.LSTM(32, 24, 2, bidirectional=True, batch_first=True),
            "letters": nn.Linear(48, 30),
        }
    )  # fmt: skip

    def run(inner: Any, x: torch.Tensor) -> Any:
        seen = inner["image"](x).squeeze(2).transpose(1, 2)
        return inner["letters"](inner["line"](seen)[0]).log_softmax(-1)

    return _taking(parts, run)


def _pooled() -> torch.nn.Module:
    """Words, a GRU in both directions, and a softmax over them that padding has no part in."""
    from torch import nn

    parts = nn.ModuleDict(
        {
            "words": nn.Embedding(TOKENS, 24),
            "line": nn.GRU(24, 16, bidirectional=True, batch_first=True),
            "weight": nn.Linear(32, 1),
            "classes": nn.Linear(32, 5),
        }
    )

    def run(inner: Any, ids: torch.Tensor, mask: torch.Tensor) -> Any:
        found = inner["line"](inner["words"](ids))[0]
        weight = inner["weight"](found).squeeze(-1).masked_fill(mask == 0, float("-inf"))
        return inner["classes"]((weight.softmax(-1)[:, None] @ found).squeeze(1))

    return _taking(parts, run)


def _style() -> torch.nn.Module:
    from torch import nn

    return nn.Sequential(
        nn.ReflectionPad2d(4), nn.Conv2d(3, 8, 9), nn.InstanceNorm2d(8, affine=True), nn.ReLU(),
        nn.ReflectionPad2d(1), nn.Conv2d(8, 16, 3, 2), nn.InstanceNorm2d(16), nn.ReLU(),
        nn.Upsample(scale_factor=2.0, mode="nearest"), nn.ReflectionPad2d(1),
        nn.Conv2d(16, 12, 3), nn.PixelShuffle(2), nn.Tanh(),
    )  # fmt: skip


def _unet() -> torch.nn.Module:
    from torch import nn

    def block(into: int, out: int) -> nn.Module:
        return nn.Sequential(nn.Conv2d(into, out, 3, padding=1), nn.BatchNorm2d(out), nn.ReLU())

    parts = nn.ModuleDict(
        {
            "top": block(3, 8),
            "low": block(8, 16),
            "up": nn.ConvTranspose2d(16, 8, 3, 2, 1, 1),
            "out": nn.Conv2d(16, 3, 1),
        }
    )

    def run(inner: Any, x: torch.Tensor) -> Any:
        import torch
        from torch.nn.functional import interpolate, max_pool2d

        top = inner["top"](x)
        up = inner["up"](inner["low"](max_pool2d(top, 2)))
        half = inner["out"](torch.cat([up, top], 1))
        size = [x.shape[2] * 2, x.shape[3] * 2]
        return interpolate(half, size=size, mode="bilinear", align_corners=False).argmax(1)

    return _taking(parts, run)


def _boxes() -> torch.nn.Module:
    """A detector's head: a grid, boxes and classes, and the best of them."""
    from torch import nn

    backbone = nn.Sequential(
        nn.Conv2d(3, 16, 3, 2, 1), nn.SiLU(), nn.Conv2d(16, 9, 3, 2, 1)
    )  # 4 of a box, 5 classes

    def run(inner: Any, x: torch.Tensor) -> Any:
        import torch

        found = inner(x)
        rows, columns = found.shape[2:]
        places = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
        grid = torch.stack(places[::-1]).float()
        middle = (found[:, :2].sigmoid() * 2 - 0.5 + grid) * 4
        size = (found[:, 2:4].sigmoid() * 2) ** 2 * 8
        boxes = torch.cat([middle - size / 2, middle + size / 2], 1).flatten(2).transpose(1, 2)
        best, kind = found[:, 4:].flatten(2).sigmoid().max(1)
        score, place = best.topk(10, 1)
        return boxes.gather(1, place[..., None].expand(-1, -1, 4)), score, kind.gather(1, place)

    return _taking(backbone, run)


ARCHITECTURES = {
    "dinov2": Architecture(
        _dinov2,
        {"x": ("batch", 3, "14*h", "14*w")},
        {**_BATCH, "14*h": (98, 70, 56), "14*w": (84, 70, 112)},
    ),
    "detr": Architecture(_detr, {"x": ("batch", 3, 64, 64)}, _BATCH),
    "deberta": Architecture(_deberta, _TOKENS, _LENGTHS, whole=True),
    "t5": Architecture(_t5, _TOKENS, _LENGTHS, whole=True),
    "llama": Architecture(_llama, _TOKENS, _LENGTHS, whole=True),
    "crnn": Architecture(
        _crnn, {"x": ("batch", 1, 16, "4*w")}, {**_BATCH, "4*w": (40, 20, 64)}
    ),
    "pooled": Architecture(_pooled, _TOKENS, _LENGTHS, whole=True),
    "style": Architecture(
        _style,
        {"x": ("batch", 3, "2*h", "2*w")},
        {**_BATCH, "2*h": (32, 18, 24), "2*w": (40, 24, 16)},
    ),
    "unet": Architecture(
        _unet,
        {"x": ("batch", 3, "2*h", "2*w")},
        {**_BATCH, "2*h": (16, 18, 32), "2*w": (24, 20, 12)},
    ),
    "boxes": Architecture(
        _boxes,
        {"x": ("batch", 3, "4*h", "4*w")},
        {**_BATCH, "4*h": (32, 24, 40), "4*w": (48, 32, 20)},
    ),
}  # fmt: skip


def _free(dims: tuple[int | str, ...]) -> dict[int, Any]:
    """The free axes, as torch.export has them: ``14*h`` is a multiple of 14."""
    from torch.export import Dim

    made: dict[int, Any] = {}
    for axis, dim in enumerate(dims):
        if isinstance(dim, str):
            factor, _, name = dim.rpartition("*")
            made[axis] = int(factor) * Dim(name, min=2, max=200) if factor else Dim(name)
    return made


def main(folder: Path) -> None:
    """Writes ``NAME.onnx`` for each."""
    import torch

    warnings.filterwarnings("ignore")
    torch.set_num_threads(2)
    for name, network in ARCHITECTURES.items():
        torch.manual_seed(0)
        module = network.make().eval()
        for parameter in module.parameters():
            if parameter.dim() > 1:
                torch.nn.init.normal_(parameter, 0, 0.7 / parameter[0].numel() ** 0.5)
        inputs = tuple(torch.from_numpy(array) for array in network.feeds(0).values())
        free = tuple(_free(dims) for dims in network.inputs.values())
        variadic = any(kind.kind == kind.VAR_POSITIONAL for kind in _parameters(module))
        with torch.no_grad():
            torch.onnx.export(
                module,
                inputs,
                folder / f"{name}.onnx",
                input_names=list(network.inputs),
                dynamo=True,
                opset_version=20,
                dynamic_shapes=(free,) if variadic else free,
                external_data=False,
                verbose=False,
            )


def _parameters(module: torch.nn.Module) -> Any:
    import inspect

    return inspect.signature(module.forward).parameters.values()


if __name__ == "__main__":
    os.environ.update(HF_HUB_OFFLINE="1", CUDA_VISIBLE_DEVICES="-1")
    main(Path(sys.argv[1]))
