"""Elements moved between channels, space and the batch: values by numpy and PyTorch's formulas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.coreml.running import agrees, compute

RNG = np.random.default_rng(7)
DEEP = RNG.uniform(-3, 3, (2, 12, 3, 2)).astype(np.float32)
WIDE = RNG.uniform(-3, 3, (2, 3, 6, 4)).astype(np.float32)
FREE: list[Any] = [None, {"x": [0, 2, 3]}]


@pytest.mark.parametrize("free", FREE)
def test_depth_to_space_takes_the_place_in_the_block_first(free: Any) -> None:
    (y,) = compute(lambda mb, x: mb.depth_to_space(x=x, block_size=2), {"x": DEEP}, free=free)
    apart = DEEP.reshape(2, 2, 2, 3, 3, 2)
    agrees(y, apart.transpose(0, 3, 4, 1, 5, 2).reshape(2, 3, 6, 4))


@pytest.mark.parametrize("free", FREE)
def test_pixel_shuffle_takes_the_channel_first(free: Any) -> None:
    (y,) = compute(lambda mb, x: mb.pixel_shuffle(x=x, upscale_factor=2), {"x": DEEP}, free=free)
    apart = DEEP.reshape(2, 3, 2, 2, 3, 2)
    agrees(y, apart.transpose(0, 1, 4, 2, 5, 3).reshape(2, 3, 6, 4))


@pytest.mark.parametrize("free", FREE)
def test_the_way_back(free: Any) -> None:
    def body(mb: Any, x: Any) -> Any:
        deep = mb.space_to_depth(x=x, block_size=2)
        unshuffled = mb.pixel_unshuffle(x=x, downscale_factor=np.uint32(2))
        return deep, unshuffled

    y, z = compute(body, {"x": WIDE}, free=free)
    apart = WIDE.reshape(2, 3, 3, 2, 2, 2)
    agrees(y, apart.transpose(0, 3, 5, 1, 2, 4).reshape(2, 12, 3, 2))
    agrees(z, apart.transpose(0, 1, 3, 5, 2, 4).reshape(2, 12, 3, 2))


def test_space_to_batch_as_coremltools_own_example() -> None:
    x = np.arange(1, 17, dtype=np.float32).reshape(2, 1, 2, 4)
    expected = [[0, 1, 3], [0, 9, 11], [0, 2, 4], [0, 10, 12]]
    expected += [[0, 5, 7], [0, 13, 15], [0, 6, 8], [0, 14, 16]]
    blocks = {"block_shape": [2, 2]}
    (y,) = compute(
        lambda mb, x: mb.space_to_batch(x=x, **blocks, paddings=[[0, 0], [2, 0]]), {"x": x}
    )
    agrees(y, np.array(expected, np.float32).reshape(8, 1, 1, 3))
    (z,) = compute(lambda mb, x: mb.batch_to_space(x=x, **blocks, crops=[[0, 0], [2, 0]]), {"x": y})
    agrees(z, x)


@pytest.mark.parametrize("free", FREE)
def test_space_to_batch_and_back(free: Any) -> None:
    blocks = {"block_shape": [2, 3]}

    def body(mb: Any, x: Any) -> Any:
        y = mb.space_to_batch(x=x, **blocks, paddings=[[1, 1], [2, 0]])
        return y, mb.batch_to_space(x=y, **blocks, crops=[[1, 1], [2, 0]])

    y, z = compute(body, {"x": WIDE}, free=None if free is None else {"x": [0]})
    padded = np.pad(WIDE, ((0, 0), (0, 0), (1, 1), (2, 0)))
    apart = padded.reshape(2, 3, 4, 2, 2, 3).transpose(3, 5, 0, 1, 2, 4)
    agrees(y, apart.reshape(12, 3, 4, 2))
    agrees(z, WIDE)
