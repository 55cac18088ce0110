"""nn.TransformerEncoder with a padding mask, as it runs outside of a trace.

In eval mode torch drops padding before the first layer and puts zeros in its place after the last
one, before the final norm. It does so where all padding is at the ends of the rows, which hangs on
the mask's values, and never while it is traced. A trace gets both:

    Where(padding & all padding is at the ends, 0, layers(x))
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn


@contextmanager
def traced() -> Iterator[None]:
    """Has encoders give in a trace what they give outside of it."""
    forward = nn.TransformerEncoder.forward

    def forward_padded(
        self: Any,
        src: Any,
        mask: Any = None,
        src_key_padding_mask: Any = None,
        is_causal: bool | None = None,
    ) -> Any:
        if src_key_padding_mask is None or not _drops_padding(self, src, mask):
            return forward(self, src, mask, src_key_padding_mask, is_causal)
        norm, nested = self.norm, self.use_nested_tensor
        self.norm, self.use_nested_tensor = None, False
        try:
            given = forward(self, src, mask, src_key_padding_mask, is_causal)
        finally:
            self.norm, self.use_nested_tensor = norm, nested
        hidden = (_padding(src_key_padding_mask, self.mask_check)).unsqueeze(-1)
        given = given.masked_fill(hidden, 0.0)
        return given if norm is None else norm(given)

    nn.TransformerEncoder.forward = forward_padded
    try:
        yield
    finally:
        nn.TransformerEncoder.forward = forward


def _drops_padding(encoder: Any, src: Any, mask: Any) -> bool:
    """Whether torch would, for a mask with padding at the ends: forward's own conditions."""
    return (
        torch.backends.mha.get_fastpath_enabled()
        and getattr(encoder, "use_nested_tensor", False)
        and not encoder.layers[0].training
        and src.dim() == 3
        and mask is None
        and not torch.is_autocast_enabled()
    )


def _padding(mask: Any, checked: bool) -> Any:
    """Which places torch fills with 0: all padding, or none where some of it isn't at an end."""
    padding = mask != 0  # booleans, or numbers that are added, of which 0 hides nothing
    if not checked:
        return padding
    gaps = padding[:, :-1] & ~padding[:, 1:]
    return padding & ~gaps.any()
