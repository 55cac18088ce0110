"""Well-known architectures with seeded random weights: for speed, never for accuracy.

Runs in the framework's own process, as ``FILE.py:FACTORY``: torch and transformers only.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

_SEED = 0


class Bottleneck(nn.Module):  # type: ignore[misc]
    """1x1, 3x3 and 1x1 convolutions around a shortcut; the stride is in the 3x3.

    From "Deep Residual Learning for Image Recognition" (He et al., 2015), with the stride where
    the widely used variant (v1.5) has it.

    Args:
        channels: Of the input.
        width: Channels of the 3x3; the output has four times as many.
        stride: The step of the 3x3.
    """

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        out = width * 4
        self.narrow = _convolution(channels, width, 1)
        self.middle = _convolution(width, width, 3, stride)
        self.widen = _convolution(width, out, 1)
        plain = stride == 1 and channels == out
        self.shortcut = nn.Identity() if plain else _convolution(channels, out, 1, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(N, channels, H, W) to (N, 4 * width, H / stride, W / stride)."""
        inner = self.middle(self.narrow(x).relu()).relu()
        return (self.widen(inner) + self.shortcut(x)).relu()


class ResNet50(nn.Module):  # type: ignore[misc]
    """Float32 images (N, 3, H, W) to scores (N, 1000); 25.6 million parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(_convolution(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        blocks: list[nn.Module] = []
        channels = 64
        for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
            for index in range(count):
                blocks.append(Bottleneck(channels, width, stride if index == 0 else 1))
                channels = width * 4
        self.blocks = nn.Sequential(*blocks)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classify = nn.Linear(channels, 1000)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Scores of the classes."""
        scores: torch.Tensor = self.classify(self.pool(self.blocks(self.stem(image))).flatten(1))
        return scores


def _convolution(channels: int, out: int, size: int, stride: int = 1) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(channels, out, size, stride, size // 2, bias=False), nn.BatchNorm2d(out)
    )


def resnet50() -> nn.Module:
    """ResNet-50 with random weights, the same each time."""
    torch.manual_seed(_SEED)
    return ResNet50().eval()


def bert_base() -> Any:
    """BERT-base as transformers has it (110 million parameters), the same weights each time.

    Takes ``input_ids``, ``attention_mask`` and ``token_type_ids``, int64 (N, tokens); gives
    ``last_hidden_state`` (N, tokens, 768) and ``pooler_output`` (N, 768).
    """
    from transformers import BertConfig, BertModel

    torch.manual_seed(_SEED)
    return BertModel(BertConfig()).eval()
