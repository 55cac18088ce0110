"""EmbeddingBag: sums, means and largest values of rows of a table.

Bags of one length (an input of two axes) are a Gather and a reduction: ``traced``. Where offsets
say which rows are a bag's, a table of bags and rows says which belong together.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from .definition import Definition

_SUM, _MEAN, _MAX = 0, 1, 2
_MODES = {"sum": _SUM, "mean": _MEAN, "max": _MAX}


@contextmanager
def traced() -> Iterator[None]:
    """Has a trace keep that bags have one length, which torch's offsets don't say."""
    functional = torch.nn.functional
    original = functional.embedding_bag

    def embedding_bag(
        input: Any,
        weight: Any,
        offsets: Any = None,
        max_norm: float | None = None,
        norm_type: float = 2,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        per_sample_weights: Any = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> Any:
        if input.dim() != 2 or offsets is not None or max_norm is not None:
            return original(
                input, weight, offsets, max_norm, norm_type, scale_grad_by_freq, mode, sparse,
                per_sample_weights, include_last_offset, padding_idx,
            )  # fmt: skip
        rows = functional.embedding(input, weight)
        counts = None
        if padding_idx is not None:
            counts = input != padding_idx % weight.shape[0]
        if per_sample_weights is not None:
            rows = rows * per_sample_weights.unsqueeze(-1)
        return _reduced(rows, counts, _MODES[mode])

    functional.embedding_bag = embedding_bag
    try:
        yield
    finally:
        functional.embedding_bag = original


def _reduced(rows: Any, counts: Any, mode: int) -> Any:
    """Along the axis before the last, of those rows that count; 0 where none does."""
    if mode == _MAX:
        if counts is None:
            return rows.amax(-2)
        found = torch.where(counts.unsqueeze(-1), rows, float("-inf")).amax(-2)
        return torch.where(counts.any(-1, keepdim=True), found, 0.0)
    if counts is None:
        return rows.sum(-2) if mode == _SUM else rows.mean(-2)
    total = torch.where(counts.unsqueeze(-1), rows, 0.0).sum(-2)
    return total if mode == _SUM else total / _number_of(counts, rows)


def _number_of(counts: Any, rows: Any) -> Any:
    return counts.to(rows.dtype).sum(-1, keepdim=True).clamp(min=1)


def _embedding_bag(
    weight: Any,
    indices: Any,
    offsets: Any,
    scale_grad_by_freq: bool = False,
    mode: int = _SUM,
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Any:
    """By offsets; of torch's four results, the first alone, see :func:`_only_result`."""
    starts = offsets[:-1] if include_last_offset else offsets
    end = torch.full([1], 0, dtype=offsets.dtype) + indices.shape[0]
    sizes = torch.cat([starts[1:], end]) - starts
    places = torch.arange(indices.shape[0]).to(starts.dtype)
    bags = (starts.unsqueeze(1) <= places).to(starts.dtype).sum(0) - 1
    within = bags == torch.arange(starts.shape[0]).unsqueeze(1)
    counts = within
    if padding_idx is not None and padding_idx >= 0:
        counts = within & (indices != padding_idx)
        sizes = sizes - (within & (indices == padding_idx)).to(sizes.dtype).sum(1)
    padded = padding_idx is not None and padding_idx >= 0
    if include_last_offset and mode != _MAX and not padded:
        # torch's fast kernel leaves rows behind the last offset out of sums, and counts them
        counts = counts & (places < offsets[-1])
    rows = torch.nn.functional.embedding(indices, weight)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(-1)
    if mode == _MAX:
        found = _reduced(rows.unsqueeze(0), counts, mode)
    else:
        found = counts.to(rows.dtype) @ rows
        divisor = sizes.clamp(min=1).to(rows.dtype).unsqueeze(1)
        found = found / divisor if mode == _MEAN else found
    unused = torch.zeros_like(offsets)
    return found, unused, unused, unused


def _only_result(node: Any) -> bool:
    """Whether the first result alone is used: what nn.EmbeddingBag gives."""
    return all(user.args[1] == 0 or not user.users for user in node.users)


_ATEN = torch.ops.aten
TABLE = {
    target: Definition(_embedding_bag, _only_result)
    for target in (
        _ATEN.embedding_bag.default,
        _ATEN.embedding_bag.padding_idx,
        _ATEN._embedding_bag.default,
        _ATEN._embedding_bag_forward_only.default,
    )
}
