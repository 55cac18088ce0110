"""istft: the inverse of each frame, overlapped and added, as one transposed convolution.

    y(n) = sum over t of w(n - t hop) x_t(n - t hop)  /  sum over t of w(n - t hop)^2

x_t is the inverse Fourier transform of frame t, a product with cosines and sines.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from .definition import Definition


def _istft(
    spectrum: Any,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Any = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Any:
    if return_complex or (onesided is None and spectrum.shape[-2] == n_fft) or onesided is False:
        return NotImplemented
    hop = hop_length or n_fft // 4
    shaped = _window(window, win_length or n_fft, n_fft)
    pairs = torch.view_as_real(spectrum if spectrum.dim() == 3 else spectrum.unsqueeze(0))
    stacked = torch.cat([pairs.select(-1, 0), pairs.select(-1, 1)], 1)  # [batch, 2 bins, frames]
    weight = _inverse(n_fft, normalized, stacked.dtype) * shaped
    added = torch.nn.functional.conv_transpose1d(stacked, weight.unsqueeze(1), stride=hop)
    ones = torch.ones_like(stacked[:1, :1])
    squares = (shaped * shaped).reshape(1, 1, n_fft)
    envelope = torch.nn.functional.conv_transpose1d(ones, squares, stride=hop)
    given = _cut(added, envelope, n_fft // 2 if center else 0, length)
    return given if spectrum.dim() == 3 else given.squeeze(0)


def _cut(added: Any, envelope: Any, start: int, length: int | None) -> Any:
    """The part that was asked for, divided by the windows' sum; 0 behind the end."""
    expected = added.shape[-1]
    count = length if length is not None else expected - 2 * start
    taken = min(count, expected - start) if length is not None else count
    given = (added.narrow(-1, start, taken) / envelope.narrow(-1, start, taken)).squeeze(1)
    missing = count - taken if length is not None else 0
    return torch.nn.functional.pad(given, [0, missing]) if missing else given


def _window(window: Any, length: int, n_fft: int) -> Any:
    shaped = torch.ones(length) if window is None else window
    before = (n_fft - length) // 2
    return torch.nn.functional.pad(shaped, [before, n_fft - length - before])


def _inverse(n_fft: int, normalized: bool, dtype: Any) -> Any:
    """Real parts' cosines, then imaginary parts' sines: [2 bins, n_fft]."""
    bins = n_fft // 2 + 1
    places = torch.arange(bins).unsqueeze(1) * torch.arange(n_fft).unsqueeze(0) % n_fft
    angles = places.to(dtype) * (2 * math.pi / n_fft)
    scale = 1 / math.sqrt(n_fft) if normalized else 1 / n_fft
    alone = (torch.arange(bins) * 2 % n_fft == 0).to(dtype)  # no other bin mirrors these
    weight = ((2 - alone) * scale).unsqueeze(1)
    return torch.cat([angles.cos() * weight, -angles.sin() * weight], 0)


TABLE = {torch.ops.aten.istft.default: Definition(_istft)}
