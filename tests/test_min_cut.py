"""The smallest cut, against trying everything."""

import numpy as np
import pytest

from converter.ir.min_cut import MinCut


@pytest.mark.parametrize("seed", range(20))
def test_the_cut_is_the_cheapest_choice(seed: int) -> None:
    rng, count = np.random.default_rng(seed), 7
    cut = MinCut()
    names = [cut.variable() for _ in range(count)]
    ones, zeros = rng.integers(0, 9, count).tolist(), rng.integers(0, 9, count).tolist()
    pairs = [(int(a), int(b), int(c)) for a, b, c in rng.integers(0, count, (12, 3)) if a != b]
    for i, name in enumerate(names):
        cut.one(name, ones[i])
        cut.zero(name, zeros[i])
    for zero, one, cost in pairs:
        cut.pair(names[zero], names[one], cost)

    def price(bits: list[int]) -> int:
        single = sum(ones[i] if bit else zeros[i] for i, bit in enumerate(bits))
        return single + sum(c for a, b, c in pairs if not bits[a] and bits[b])

    chosen = cut.solve()
    every = [[number >> i & 1 for i in range(count)] for number in range(1 << count)]
    assert price([int(name in chosen) for name in names]) == min(map(price, every))
