"""MobileNetV3-Large with random weights: transformers hasn't got it.

After "Searching for MobileNetV3" (Howard et al., 2019), table 1; torch only.
"""

from __future__ import annotations

import torch
from torch import nn

BLOCKS = (
    (3, 16, 16, False, False, 1), (3, 64, 24, False, False, 2), (3, 72, 24, False, False, 1),
    (5, 72, 40, True, False, 2), (5, 120, 40, True, False, 1), (5, 120, 40, True, False, 1),
    (3, 240, 80, False, True, 2), (3, 200, 80, False, True, 1), (3, 184, 80, False, True, 1),
    (3, 184, 80, False, True, 1), (3, 480, 112, True, True, 1), (3, 672, 112, True, True, 1),
    (5, 672, 160, True, True, 2), (5, 960, 160, True, True, 1), (5, 960, 160, True, True, 1),
)  # fmt: skip
"""Of each block: kernel, expanded and output channels, whether it has squeeze-and-excite and
hard-swish instead of ReLU, stride."""


class Squeeze(nn.Module):  # type: ignore[misc]
    """Squeeze-and-excite: each channel times a factor that hangs on all channels' means."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        narrow = -(-channels // 4 // 8) * 8
        self.factors = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, narrow, 1), nn.ReLU(),
            nn.Conv2d(narrow, channels, 1), nn.Hardsigmoid(),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(N, channels, H, W), and the same."""
        scaled: torch.Tensor = x * self.factors(x)
        return scaled


class Bottleneck(nn.Module):  # type: ignore[misc]
    """Inverted residual: 1x1 to more channels, depthwise, 1x1 to fewer."""

    def __init__(self, channels: int, block: tuple[int, int, int, bool, bool, int]) -> None:
        super().__init__()
        kernel, wide, out, squeeze, hard, stride = block
        activation = nn.Hardswish if hard else nn.ReLU
        self.adds = stride == 1 and channels == out
        self.layers = nn.Sequential(
            *(_convolution(channels, wide, 1), activation()) * (wide != channels),
            *(_convolution(wide, wide, kernel, stride, wide), activation()),
            Squeeze(wide) if squeeze else nn.Identity(),
            _convolution(wide, out, 1),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(N, channels, H, W) to (N, out, H / stride, W / stride)."""
        y: torch.Tensor = self.layers(x)
        return x + y if self.adds else y


def _convolution(
    channels: int, out: int, kernel: int, stride: int = 1, groups: int = 1
) -> nn.Module:
    convolution = nn.Conv2d(channels, out, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(out, eps=1e-3))


class MobileNetV3(nn.Module):  # type: ignore[misc]
    """Float32 images (N, 3, H, W) to scores (N, 1000); 5.5 million parameters."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = [_convolution(3, 16, 3, 2), nn.Hardswish()]
        channels = 16
        for block in BLOCKS:
            layers.append(Bottleneck(channels, block))
            channels = block[2]
        self.features = nn.Sequential(*layers, _convolution(channels, 960, 1), nn.Hardswish())
        self.classify = nn.Sequential(nn.Linear(960, 1280), nn.Hardswish(), nn.Linear(1280, 1000))

    def forward(self, pixel_values: torch.Tensor) -> torch.Tensor:
        """Scores of the classes."""
        scores: torch.Tensor = self.classify(self.features(pixel_values).mean((2, 3)))
        return scores
