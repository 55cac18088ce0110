"""Paddings of convolutions, plain and transposed, as ONNX has them in numbers; and pooling, window
by window in numpy."""

from itertools import product
from typing import Any

import numpy as np
import pytest

from converter.runtime.ort import OrtSession
from tests.coreml.running import Array, Case, check, drawing, op
from tests.operators.cases import parsed


def by_numbers(node: str, **given: Array) -> Array:
    """What ONNX's operator gives, whose paddings are all said in numbers."""
    inputs = ", ".join(f"float[{','.join(map(str, a.shape))}] {n}" for n, a in given.items())
    model = parsed(f"g ({inputs}) => (y) {{ y = {node} ({', '.join(given)}) }}")
    return OrtSession(model.graph).run(given)["y"]


def pooled(x: Array, how: str, kernel: int, stride: int, pads: tuple[int, int],
           ceil: bool) -> Array:  # fmt: skip
    """Window by window: the part that it sees, and how long it is with padding."""
    over, rows = tuple(range(2, x.ndim)), []
    for size in x.shape[2:]:
        room = size + sum(pads) - kernel
        count = (-(-room // stride) if ceil else room // stride) + 1
        if ceil and (count - 1) * stride >= size + pads[0]:
            count -= 1
        starts = [place * stride - pads[0] for place in range(count)]
        rows.append([(start, min(start + kernel, size + pads[1])) for start in starts])
    out = np.zeros((*x.shape[:2], *(len(row) for row in rows)))
    for place in product(*(range(len(row)) for row in rows)):
        ends = [row[at] for row, at in zip(rows, place, strict=True)]
        spans = [slice(max(0, begin), end) for begin, end in ends]
        part = x.astype(np.float64)[:, :, *spans]
        if how == "max":
            out[:, :, *place] = part.max(axis=over)
        elif how == "l2":
            out[:, :, *place] = np.sqrt(np.square(part).sum(axis=over))
        else:
            count = int(np.prod([end - begin for begin, end in ends]))
            mean = part.sum(axis=over) / count if how == "counted" else part.mean(axis=over)
            out[:, :, *place] = mean
    return out.astype(x.dtype)


def _how(kind: str, axes: int, pad: int, **more: Any) -> dict[str, Any]:
    how = {"strides": [2] * axes, "pad_type": kind} | more
    return how | ({"pad": [pad, pad] * axes} if kind == "custom" else {})


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_paddings_of_their_own(axes: int) -> None:
    real = drawing(6, -2, 2)
    x, w, b = real(2, 4, *[9] * axes), real(6, 2, *[3] * axes), real(6)
    turned, two = real(4, 3, *[3] * axes), [2] * axes
    pads, cuts = [(1, 2), (0, 1), (2, 0)][:axes], [(1, 0), (0, 1), (1, 1)][:axes]
    how: dict[str, Any] = {"strides": two, "bias": b, "groups": 2}
    own = {"pad_type": "custom", "pad": [size for pair in pads for size in pair]}
    cut = {"pad_type": "custom", "pad": [size for pair in cuts for size in pair]}
    apart, less = ([*(a for a, _ in pairs), *(z for _, z in pairs)] for pairs in (pads, cuts))
    steps = f"strides = {two}, group = 2"
    wide = f"Conv<{steps}, dilations = {two}, pads = {apart}>"
    cases = [
        (op.conv(weight=w, dilations=two, **own, **how), by_numbers(wide, x=x, w=w, b=b)),
        (op.conv_transpose(weight=turned, **how),
         by_numbers(f"ConvTranspose<{steps}>", x=x, w=turned, b=b)),
        (op.conv_transpose(weight=turned, **cut, **how),
         by_numbers(f"ConvTranspose<{steps}, pads = {less}>", x=x, w=turned, b=b)),
    ]  # fmt: skip
    check(cases, {"x": x})


@pytest.mark.parametrize(("size", "kernel"), [(8, 3), (7, 3), (8, 4), (9, 2)])
def test_conv_of_the_same_size(size: int, kernel: int) -> None:
    """ceil(size / stride) long; an odd padding is longer after, or before."""
    real = drawing(7, -2, 2)
    x, w = real(1, 2, size, size), real(3, 2, kernel, kernel)
    total = max(0, 2 * (-(-size // 2) - 1) + kernel - size)
    less, more = [total // 2] * 2, [total - total // 2] * 2
    cases = [
        (op.conv(weight=w, pad_type=kind, strides=[2, 2]),
         by_numbers(f"Conv<strides = [2, 2], pads = {pads}>", x=x, w=w))
        for kind, pads in (("same", less + more), ("same_lower", more + less))
    ]  # fmt: skip
    check(cases, {"x": x})


@pytest.mark.parametrize(("kernel", "stride"), [(3, 2), (4, 2), (2, 2), (2, 3), (5, 1)])
def test_conv_transpose_of_the_same_size(kernel: int, stride: int) -> None:
    """stride * size long; what is too long is cut, the odd one after."""
    real = drawing(9, -2, 2)
    x, w = real(1, 2, 4), real(2, 3, kernel)
    wanted = np.zeros((1, 3, 4 * stride), np.float32)
    before = max(0, kernel - stride) // 2
    whole = by_numbers(f"ConvTranspose<strides = [{stride}]>", x=x, w=w)
    part = whole[:, :, before : before + 4 * stride]
    wanted[:, :, : part.shape[2]] = part
    how = {"pad_type": "same", "strides": [stride]}
    check([(op.conv_transpose(weight=w, **how), wanted)], {"x": x})


def test_conv_transpose_to_a_size() -> None:
    """stride 2 makes 7 and 8 of 4 under the same paddings."""
    real = drawing(10, -2, 2)
    x, w = real(1, 2, 4), real(2, 3, 3)
    how: dict[str, Any] = {"weight": w, **_how("custom", 1, 1)}
    whole = by_numbers("ConvTranspose<strides = [2]>", x=x, w=w)
    cases = [
        (op.conv_transpose(**how, output_shape=[1, 3, size]), whole[:, :, 1 : size + 1])
        for size in (7, 8)
    ]
    check(cases, {"x": x})


# -- pooling -----------------------------------------------------------------------------


def _pools(x: Array, window: tuple[Any, ...], how: dict[str, Any], l2: bool = True) -> list[Case]:
    """Every kind of pooling."""
    exclude = {"exclude_padding_from_average": True}
    return [
        (op.max_pool(**how), pooled(x, "max", *window)),
        (op.avg_pool(**how), pooled(x, "counted", *window)),
        (op.avg_pool(**how, **exclude), pooled(x, "excluded", *window)),
        *([(op.l2_pool(**how), pooled(x, "l2", *window))] if l2 else []),
    ]


KINDS = {"valid": (0, 0), "custom": (1, 1), "same": (0, 1)}


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_pools(axes: int, kind: str) -> None:
    x = drawing(7, -2, 2)(2, 3, *[6] * axes)
    how = _how(kind, axes, 1, kernel_sizes=[3] * axes)
    check(_pools(x, (3, 2, KINDS[kind], False), how, axes < 3), {"x": x})


@pytest.mark.parametrize("axes", [1, 2])
@pytest.mark.parametrize("pad", [0, 1])
def test_sizes_rounded_up(axes: int, pad: int) -> None:
    x = drawing(7, -2, 2)(1, 2, *[8] * axes)
    how = _how("custom", axes, pad, kernel_sizes=[3] * axes, ceil_mode=True)
    check(_pools(x, (3, 2, (pad, pad), True), how, False), {"x": x})
