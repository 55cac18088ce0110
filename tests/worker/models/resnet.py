"""A 50-layer residual classifier, written from the published architecture for tests."""

from __future__ import annotations

import torch
from torch import nn


class Bottleneck(nn.Module):
    """Narrow 1x1, 3x3, wide 1x1 convolutions beside a shortcut."""

    def __init__(self, wide_in: int, narrow: int, stride: int) -> None:
        super().__init__()
        wide = narrow * 4
        self.body = nn.Sequential(
            nn.Conv2d(wide_in, narrow, 1, bias=False), nn.BatchNorm2d(narrow), nn.ReLU(),
            nn.Conv2d(narrow, narrow, 3, stride, 1, bias=False), nn.BatchNorm2d(narrow), nn.ReLU(),
            nn.Conv2d(narrow, wide, 1, bias=False), nn.BatchNorm2d(wide),
        )  # fmt: skip
        self.shortcut = nn.Sequential()
        if stride != 1 or wide_in != wide:
            self.shortcut = nn.Sequential(
                nn.Conv2d(wide_in, wide, 1, stride, bias=False), nn.BatchNorm2d(wide)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.body(x) + self.shortcut(x))


class ResNet50(nn.Module):
    """Float32 images (N, 3, H, W) to logits (N, classes)."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(),
            nn.MaxPool2d(3, 2, 1),
        )  # fmt: skip
        layers: list[nn.Module] = []
        wide = 64
        for stage, count in enumerate((3, 4, 6, 3)):
            for index in range(count):
                stride = 2 if stage > 0 and index == 0 else 1
                layers.append(Bottleneck(wide, 64 << stage, stride))
                wide = 256 << stage
        self.layers = nn.Sequential(*layers)
        self.head = nn.Linear(wide, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.layers(self.stem(x))
        return self.head(x.mean((2, 3)))
