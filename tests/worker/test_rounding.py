"""What rounding is in PyTorch's sums, for sources that have to prove what it decides."""

import torch

from parsers.pytorch.child.rounding import Rounding


def test_it_is_as_large_as_float32_rounds() -> None:
    """Between a quarter of a last place of the largest and sixteen; another for another seed, and
    nothing for what only moves."""
    torch.manual_seed(0)
    x, weight = torch.randn(64, 256), torch.randn(32, 256)
    with torch.no_grad():
        right = torch.nn.functional.linear(x, weight)
        with Rounding(1):
            moved, still = torch.nn.functional.linear(x, weight), torch.relu(x)
        with Rounding(2):
            other = torch.nn.functional.linear(x, weight)
    off = float((moved - right).abs().max() / right.abs().max())
    assert 2**-26 < off < 2**-20
    assert not torch.equal(moved, other) and torch.equal(still, torch.relu(x))
