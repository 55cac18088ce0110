"""Small networks: what coremltools' front end makes of idioms and modules of PyTorch."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass(frozen=True)
class Network:
    """A network, and how it is converted.

    Attributes:
        make: Gives it.
        inputs: Shapes of inputs, or arrays where the values matter.
        target: iOS 15 to 18.
        half: Whether in float16, which is coremltools' default.
        free: Axes of the first input that are free.
        compress: How the package's weights are compressed, by a name of ``torch_packages``.
        scripted: Whether it is scripted, with its loops and conditions, and not traced.
        states: Buffers that are states.
        layers: Whether it is written as a neural network too, whose layers are all read.
    """

    make: Callable[[], nn.Module]
    inputs: Sequence[Any]
    target: int = 17
    half: bool = False
    free: Sequence[int] = ()
    compress: str = ""
    scripted: bool = False
    states: dict[str, tuple[int, ...]] = field(default_factory=dict)
    layers: bool = False


class Of(nn.Module):  # type: ignore[misc]
    """A function, and the modules that it uses."""

    def __init__(self, function: Callable[..., Any], **modules: nn.Module) -> None:
        super().__init__()
        self.function = function
        for name, module in modules.items():
            self.add_module(name, module)

    def forward(self, *inputs: Tensor) -> Any:
        return self.function(self, *inputs)


def of(function: Callable[..., Any], **modules: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
    """Makes a network of a function of itself and its inputs."""
    return lambda: Of(function, **{name: make() for name, make in modules.items()})


IMAGE, LINES, ROWS = (1, 3, 12, 10), (2, 6, 8), (4, 6)
PLACES = np.array([[0, 2, 1], [3, 1, 0]], np.int32)


class Counting(nn.Module):  # type: ignore[misc]
    """A loop whose rounds the input decides."""

    def forward(self, x: Tensor, n: Tensor) -> Tensor:
        i = 0
        while i < int(n):
            x = x * 0.5 + 1
            i += 1
        return x


class Choosing(nn.Module):  # type: ignore[misc]
    """A condition that the input decides."""

    def forward(self, x: Tensor) -> Tensor:
        y = x * 2
        return y + x if bool(x.sum() > 0) else y - 1


class Remembering(nn.Module):  # type: ignore[misc]
    """A sum that stays between calls."""

    total: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(2, 3))

    def forward(self, x: Tensor) -> Tensor:
        self.total.add_(x)
        return self.total * 2


class Attention(nn.Module):  # type: ignore[misc]
    """Multi-head attention with a residual, and what follows it in a transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)
        self.norm = nn.LayerNorm(8)
        self.mlp = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))

    def forward(self, x: Tensor) -> Tensor:
        batch, steps, width = x.shape
        q, k, v = self.qkv(self.norm(x)).view(batch, steps, 3, 2, width // 2).unbind(2)
        q, k, v = (part.transpose(1, 2) for part in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v)
        x = x + self.out(y.transpose(1, 2).reshape(batch, steps, width))
        mixed: Tensor = x + self.mlp(x)
        return mixed


def representable(steps: Sequence[float], sparse: bool = False) -> Callable[[], nn.Module]:
    """A network whose weights are among a few numbers, so that compressing loses nothing."""

    def make() -> nn.Module:
        net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 1), nn.Flatten(2))
        net.append(nn.Linear(80, 4))
        draw = torch.Generator().manual_seed(0)
        for parameter in net.parameters():
            if parameter.ndim > 1:
                chosen = torch.randint(len(steps), parameter.shape, generator=draw)
                values = torch.tensor(steps)[chosen]
                values.view(-1)[: len(steps)] = torch.tensor(steps)
                values[..., 0] = steps[0]
                if sparse:
                    values = values * (torch.rand(values.shape, generator=draw) > 0.6)
                parameter.data = values
        return net

    return make


def _convolutions() -> dict[str, Network]:
    def images(net: Any, x: Tensor) -> Any:
        y = F.max_pool2d(net.norm(net.first(x)).relu(), 3, 2, 1)
        y = net.depth(y) + net.dilated(y)
        pooled = F.avg_pool2d(y, 2, ceil_mode=True, count_include_pad=False)
        return net.last(F.adaptive_avg_pool2d(y, 1).flatten(1)), pooled

    def others(net: Any, x: Tensor) -> Any:
        y = net.line(x.flatten(2))
        wide = net.up(x)
        solid = net.solid(x.unsqueeze(2).repeat(1, 1, 3, 1, 1))
        return F.max_pool1d(y, 2), wide, F.adaptive_max_pool2d(wide, 1), solid

    modules = {
        "first": lambda: nn.Conv2d(3, 8, 3, padding="same"),
        "norm": lambda: nn.BatchNorm2d(8),
        "depth": lambda: nn.Conv2d(8, 8, 3, padding=1, groups=8),
        "dilated": lambda: nn.Conv2d(8, 8, 3, padding=2, dilation=2),
        "last": lambda: nn.Linear(8, 5),
    }
    rest: dict[str, Callable[[], nn.Module]] = {
        "line": lambda: nn.Conv1d(3, 4, 5, stride=2),
        "up": lambda: nn.ConvTranspose2d(3, 4, 3, stride=2, padding=1, output_padding=1),
        "solid": lambda: nn.Conv3d(3, 4, (2, 3, 3)),
    }
    make = of(images, **modules)
    solid = Network(of(others, **rest), [IMAGE], layers=True)
    plain = Network(make, [IMAGE], layers=True)
    return {
        "images": plain,
        "images in float16": replace(plain, half=True, layers=False),
        "images for iOS15": replace(plain, target=15, layers=False),
        "images of any size": replace(plain, free=(0, 2, 3), layers=False),
        "other convolutions": solid,
        "other convolutions for iOS18": replace(solid, target=18, half=True, layers=False),
    }


def _functions() -> dict[str, Network]:
    def activations(net: Any, x: Tensor) -> Any:
        found = [F.relu6(x), F.leaky_relu(x, 0.2), F.elu(x), F.gelu(x)]
        found += [F.gelu(x, approximate="tanh")]
        found += [F.softplus(x), F.softsign(x), F.silu(x), F.hardsigmoid(x), F.hardswish(x)]
        found += [net.slope(x), F.mish(x), F.threshold(x, 0.1, 0.1), x.sigmoid(), x.tanh()]
        return torch.stack(found), F.softmax(x, -1), F.log_softmax(x, 1), F.hardtanh(x, -0.5, 2.0)

    def norms(net: Any, x: Tensor) -> Any:
        y = net.batch(net.instance(x)) + net.group(x)
        return F.local_response_norm(y, 3), net.layer(y.permute(0, 2, 3, 1)), F.normalize(y, dim=1)

    def resizing(net: Any, x: Tensor) -> Any:
        plain = F.interpolate(x, scale_factor=2, mode="nearest")
        smooth = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
        corners = F.interpolate(x, scale_factor=3, mode="bilinear", align_corners=True)
        sized = F.interpolate(x, size=(7, 15), mode="bilinear", align_corners=False)
        return plain, smooth, corners, sized

    modules: dict[str, Callable[[], nn.Module]] = {
        "batch": lambda: nn.BatchNorm2d(4),
        "instance": lambda: nn.InstanceNorm2d(4, affine=True),
        "group": lambda: nn.GroupNorm(2, 4),
        "layer": lambda: nn.LayerNorm(4),
    }
    spread = np.random.default_rng(3).uniform(-3, 3, (2, 8, 4)).astype(np.float32)
    active = Network(of(activations, slope=lambda: nn.PReLU(8)), [spread], layers=True)
    normal = Network(of(norms, **modules), [(2, 4, 5, 6)])
    return {
        "activations": active,
        "activations in float16": replace(active, half=True, layers=False),
        "norms": normal,
        "norms in float16": replace(normal, half=True, target=16),
        "resizing": Network(of(resizing), [IMAGE], layers=True),
        "resizing for iOS15": Network(of(resizing), [IMAGE], target=15, half=True),
    }


def _places() -> dict[str, Network]:
    def moving(net: Any, x: Tensor) -> Any:
        parts = torch.cat([*x.chunk(2, 1)[::-1], x[:, ::2]], 1)
        split = torch.stack(x.split([2, 4], 1)[1].unbind(1), -1)
        turned = x.flip(1).roll(1, 2) + x.transpose(1, 2).reshape(2, 6, 8)
        shaped = parts.unsqueeze(0).expand(3, -1, -1, -1).squeeze(1)
        return turned, shaped, split, x[:, -1], x[..., 1:-2], x.tile(1, 2, 1), torch.tril(x)

    def indexing(net: Any, x: Tensor, i: Tensor) -> Any:
        wide = i.long()
        found = net.table(wide), x[:2].gather(1, wide), x[wide[0]], x.index_select(1, wide[1])
        hot = F.one_hot(wide, 4)
        written = torch.zeros(2, 4).scatter(1, wide, 2.0), x[:2].scatter_add(1, wide, x[:2, :3])
        return *found, hot, *written, x.triu(1)

    table = {"table": lambda: nn.Embedding(5, 3)}
    return {
        "moving": Network(of(moving), [LINES], layers=True),
        "moving for iOS15": Network(of(moving), [LINES], target=15),
        "indexing": Network(of(indexing, **table), [ROWS, PLACES]),
        "indexing for iOS16": Network(of(indexing, **table), [ROWS, PLACES], target=16, half=True),
    }


def _sequences() -> dict[str, Network]:
    def lstm() -> nn.Module:
        return nn.LSTM(8, 5, num_layers=2, bidirectional=True, batch_first=True)

    def first(net: Any, x: Tensor) -> Any:
        y, (h, c) = net.inner(x)
        return y, h, c

    masked = np.random.default_rng(6).uniform(-1, 1, (6, 6)) > -0.5
    masked[:, 0] = True

    def attention(net: Any, x: Tensor) -> Any:
        return F.scaled_dot_product_attention(x, x * 2, x + 1, attn_mask=torch.from_numpy(masked))

    return {
        "LSTM": Network(of(first, inner=lstm), [LINES]),
        "LSTM of any length": Network(of(first, inner=lstm), [LINES], free=(1,)),
        "LSTM in float16": Network(
            of(first, inner=lambda: nn.LSTM(8, 5, batch_first=True)), [LINES], half=True
        ),
        "transformer": Network(Attention, [LINES], half=True),
        "transformer for iOS15": Network(Attention, [LINES], target=15),
        "transformer of any length": Network(Attention, [LINES], free=(0, 1)),
        "transformer for iOS18": Network(Attention, [LINES], target=18, half=True),
        "masked attention": Network(of(attention), [LINES], target=18, layers=True),
        "loop": Network(Counting, [ROWS, np.array([3], np.int32)], scripted=True),
        "condition": Network(Choosing, [ROWS], scripted=True),
        "state": Network(Remembering, [(2, 3)], target=18, half=True, states={"total": (2, 3)}),
    }


def _compressed() -> dict[str, Network]:
    whole = representable([step / 64 for step in (-127, -5, 0, 3, 70, 127)])
    few = representable([step / 8 for step in range(-8, 8)])
    gaps = representable([step / 64 for step in (-127, 5, 70, 127)], sparse=True)
    narrow = representable([step / 8 for step in (-7, -2, 0, 1, 3, 7)])
    return {
        "int8 weights": Network(whole, [IMAGE], compress="int8"),
        "int8 weights for iOS18": Network(whole, [IMAGE], target=18, compress="int8"),
        "int4 weights": Network(narrow, [IMAGE], target=18, compress="int4"),
        "palettes": Network(few, [IMAGE], compress="palettes"),
        "palettes for iOS18": Network(few, [IMAGE], target=18, half=True, compress="palettes"),
        "sparse weights": Network(gaps, [IMAGE], target=16, compress="sparse"),
        "sparse int8 weights": Network(gaps, [IMAGE], target=18, compress="sparse int8"),
        "sparse palettes": Network(gaps, [IMAGE], target=18, compress="sparse palettes"),
    }


def networks() -> dict[str, Network]:
    """All of them, by name."""
    kinds = (_convolutions, _functions, _places, _sequences, _compressed)
    return {name: network for kind in kinds for name, network in kind().items()}
