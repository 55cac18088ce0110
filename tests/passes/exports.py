"""What PyTorch's exporters make of the layers that the fusing passes are for; run as a script.

python exports.py FOLDER        writes FOLDER/NAME.onnx
"""

import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn


class Rms(nn.Module):
    """RMSNorm as language models write it."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(16))

    def forward(self, x: Any) -> Any:
        """x [batch, 6, 16]."""
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


class Attention(nn.Module):
    """Two heads, with the mask and the scale where BERT has them."""

    def __init__(self, lowest: float) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(16, 16) for _ in range(3))
        self.lowest = lowest

    def forward(self, x: Any) -> Any:
        """x [batch, 6, 16]; the last two places are hidden where they sum up to less than 0."""
        q, k, v = (f(x).reshape(-1, 6, 2, 8).transpose(1, 2) for f in (self.q, self.k, self.v))
        seen = (x.sum(-1) > 0)[:, None, None, :].float()
        scores = q @ k.transpose(-1, -2) / 8**0.5 + (1.0 - seen) * self.lowest
        return (scores.softmax(-1) @ v).transpose(1, 2).reshape(-1, 6, 16)


class Unmasked(nn.Module):
    """Two heads by PyTorch's own function, with a mask of the batch's size that hides nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(16, 16) for _ in range(3))

    def forward(self, x: Any) -> Any:
        """x [batch, 6, 16]."""
        q, k, v = (f(x).view(-1, 6, 2, 8).transpose(1, 2) for f in (self.q, self.k, self.v))
        mask = torch.ones(1, 1, 6, 6, dtype=torch.bool).expand(x.shape[0], 1, 6, 6)
        made = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return made.transpose(1, 2).reshape(-1, 6, 16)


class Causal(Unmasked):
    """The same, where each place sees those before it and itself."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mask", torch.ones(6, 6, dtype=torch.bool).tril())

    def forward(self, x: Any) -> Any:
        """x [batch, 6, 16]."""
        q, k, v = (f(x).view(-1, 6, 2, 8).transpose(1, 2) for f in (self.q, self.k, self.v))
        made = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=self.mask)
        return made.transpose(1, 2).reshape(-1, 6, 16)


class Written(nn.Module):
    """Adds to some places, as MViT does to what its class token doesn't see."""

    def forward(self, x: Any) -> Any:
        """x [batch, 6, 16]."""
        x[:, 1:, 2:] += x.mean()
        return x


class ConvNorm(nn.Module):
    """A padded convolution, a batch normalization, an activation, a learned scale."""

    def __init__(self, activation: nn.Module) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.ZeroPad2d((0, 1, 0, 1)), nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), activation
        )
        self.scale = nn.Parameter(torch.rand(8, 1, 1))
        with torch.no_grad():
            norm: Any = self.layers[2]
            norm.running_mean.normal_()
            norm.running_var.uniform_(0.5, 2.0)
        self.last = nn.ConvTranspose2d(8, 4, 2, stride=2, groups=2)

    def forward(self, x: Any) -> Any:
        """x [batch, 3, 8, 8]."""
        return self.last(self.layers(x) * self.scale) * 0.5


TOKENS = {
    "layer-norm": nn.LayerNorm(16),
    "layer-norm-plain": nn.LayerNorm((6, 16), elementwise_affine=False),
    "rms-norm": Rms(),
    "gelu": nn.GELU(),
    "gelu-tanh": nn.GELU(approximate="tanh"),
    "hardswish": nn.Hardswish(),
    "hardsigmoid": nn.Hardsigmoid(),
    "mish": nn.Mish(),
    "silu": nn.SiLU(),
    "attention": Attention(torch.finfo(torch.float32).min),
    "attention-1e9": Attention(-1e9),
    "unmasked": Unmasked(),
    "causal": Causal(),
    "written": Written(),
    "encoder": nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, activation="gelu"),
}
IMAGES = {"conv": ConvNorm(nn.Hardswish()), "conv-mish": ConvNorm(nn.Mish())}


def main(folder: Path) -> None:
    """Exports each layer by TorchScript at opset 14, and some by dynamo at 18."""
    torch.manual_seed(0)
    names: dict[str, Any] = {"input_names": ["x"], "output_names": ["y"]}
    traced = {"dynamo": False, "dynamic_axes": {"x": {0: "batch"}, "y": {0: "batch"}}, **names}
    whole = {"dynamo": True, "verbose": False, **names}
    for name, layer in (TOKENS | IMAGES).items():
        layer = nn.Sequential(nn.Tanhshrink(), layer).eval()
        args = (torch.randn((2, 3, 8, 8) if name in IMAGES else (2, 6, 16)),)
        torch.onnx.export(layer, args, folder / f"{name}.onnx", opset_version=14, **traced)
        if name in ("attention", "unmasked", "causal", "written", "encoder", "conv"):
            dynamic = ({0: torch.export.Dim("batch")},)
            whole["optimize"] = name == "written"  # else its rows' bounds are computed too
            program = torch.onnx.export(
                layer, args, dynamic_shapes=dynamic, opset_version=18, **whole
            )
            assert program is not None
            program.save(folder / f"{name}-dynamo.onnx")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
