"""Calls that no sample of PyTorch comes to: numbers that tell, parts of decomposed programs."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from bench.arguments_calls import SEED, Call, made


def written() -> Iterator[Call]:
    """Calls of operators that no sample comes to."""
    aten, narrow = torch.ops.aten, torch.ops.quantized_decomposed
    torch.manual_seed(SEED)
    image, cube, line = torch.randn(1, 2, 7, 9), torch.randn(1, 2, 4, 5, 6), torch.randn(1, 2, 26)
    for low, high, dtype in _RANGES:
        yield made(narrow.quantize_per_tensor.default, (image, 0.1, 3, low, high, dtype), {})
        scale, zero = torch.tensor(0.1), torch.tensor(3)
        yield made(narrow.quantize_per_tensor.tensor, (image, scale, zero, low, high, dtype), {})
        scales, zeros = torch.rand(2) + 0.1, torch.tensor([1, 2])
        rest = (scales, zeros, 1, low, high, dtype)
        yield made(narrow.quantize_per_channel.default, (image, *rest), {})
        whole = torch.randint(low, high, (1, 2, 3, 3)).to(dtype)
        yield made(narrow.dequantize_per_channel.default, (whole, *rest), {})
        yield made(narrow.dequantize_per_tensor.default, (whole, 0.1, 3, low, high, dtype), {})
    for align in (False, True):
        for name in ("bilinear2d", "bicubic2d"):
            for overload in (getattr(aten, f"{kind}_{name}{end}").default for kind, end in _KINDS):
                yield made(overload, (image, [11, 15], align, 1.7, 1.7), {})
                yield made(overload, (image, [11, 15], align), {})
        yield made(aten.upsample_linear1d.default, (line, [44], align, 1.7), {})
        yield made(aten.upsample_trilinear3d.default, (cube, [6, 8, 10], align, 1.7, 1.7, 1.7), {})
    yield made(aten.upsample_nearest1d.default, (line, [44], 1.7), {})
    yield made(aten.upsample_nearest1d.default, (line, [64]), {})
    yield made(aten.upsample_nearest2d.default, (image, [11, 18], 1.7, 2.0), {})
    yield made(aten.upsample_nearest2d.default, (image, [11, 18]), {})
    yield made(aten.upsample_nearest3d.default, (cube, [6, 8, 10], 1.7, 1.7, 1.7), {})
    index = torch.tensor([[0, 1, 1, 2], [0, 2, 1, 2], [0, 1, 1, 0]])  # which repeats
    for reduce in ("mean", "sum", "prod", "amax", "amin"):
        for numbers in (torch.randn(3, 4), torch.randint(-9, 9, (3, 4))):
            put = (0, index, numbers.flip(0) * 3, reduce)
            yield made(aten.scatter_reduce.two, (numbers, *put), {"include_self": False})
            yield made(aten.scatter_reduce.two, (numbers, *put), {})
    for rounding in ("floor", "trunc"):
        how = {"rounding_mode": rounding}
        yield made(aten.div.Tensor_mode, (torch.tensor([20000001, -7]), torch.tensor([2, 2])), how)
        yield made(aten.div.Tensor_mode, (torch.tensor([1.0, -3.0]), torch.tensor([0.1, 0.1])), how)
    statistics = (torch.rand(2), torch.rand(2), torch.zeros(2), torch.ones(2))
    for training in (True, False):
        call = (image, *statistics, training, 0.1, 1e-5)
        yield made(aten._native_batch_norm_legit_functional.default, call, {})
    for ends in ([-9, 3], [2, 7]):
        numbers = torch.randint(*ends, (4, 5))
        yield made(aten.atan2.default, (numbers, numbers.flip(0)), {})
        yield made(aten.atan2.default, (numbers.float(), numbers.float().flip(0)), {})
        yield made(aten.rsub.Scalar, (numbers, 0.5), {})
        yield made(aten.rsub.Scalar, (numbers.float(), 2, 3), {})


_RANGES = ((-128, 127, torch.int8), (-8, 7, torch.int8), (0, 255, torch.uint8), (2, 9, torch.uint8))
_KINDS = (("upsample", ""), ("_upsample", "_aa"))
