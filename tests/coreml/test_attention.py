"""scaled_dot_product_attention: by its formula in numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.coreml.running import Array, agrees, compute

RNG = np.random.default_rng(9)


def attention(q: Any, k: Any, v: Any, mask: Array | None) -> Array:
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    if mask is not None:
        scores = scores + mask
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    y: Array = weights / weights.sum(-1, keepdims=True) @ v
    return y


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("masked", [None, "bool", "float"])
@pytest.mark.parametrize("shape", [(2, 4, 8), (2, 3, 4, 8)])
def test_attention(shape: tuple[int, ...], masked: str | None, dtype: Any) -> None:
    q = RNG.uniform(-1, 1, shape).astype(dtype)
    k, v = (RNG.uniform(-1, 1, (*shape[:-2], 5, shape[-1])).astype(dtype) for _ in range(2))
    mask = RNG.uniform(-1, 1, (4, 5)).astype(dtype)
    mask[:, 0] = 1

    def body(mb: Any, q: Any, k: Any, v: Any, m: Any) -> Any:
        if masked is None:
            return mb.scaled_dot_product_attention(query=q, key=k, value=v), mb.relu(x=m)
        chosen = mb.greater(x=m, y=dtype(0)) if masked == "bool" else m
        y = mb.scaled_dot_product_attention(query=q, key=k, value=v, attn_mask=chosen)
        return y, mb.relu(x=m)

    y, _ = compute(
        body, {"q": q, "k": k, "v": v, "m": mask}, target=18, free={"q": [0], "k": [0], "v": [0]}
    )
    added = {"bool": np.where(mask > 0, 0, -np.inf), "float": mask}.get(masked or "")
    agrees(y, attention(np.float64(q), np.float64(k), np.float64(v), added).astype(dtype))
