"""Small models for weight-side methods, with inputs whose channels go together."""

from collections.abc import Mapping

import numpy as np

from converter.ir.model import Model
from tests.passes.models import ListedSamples, text_model


def with_weights(text: str, uneven: float = 4.0, /, **shapes: tuple[int, ...]) -> Model:
    """A model with seeded initializers of these names and shapes, with channels that differ by
    factors of 2 to the power of ``uneven``."""
    rng, arrays = np.random.default_rng(0), {}
    for name, shape in shapes.items():
        sizes = np.exp2(rng.uniform(-uneven, uneven, (shape[0], *[1] * (len(shape) - 1))))
        arrays[name] = (rng.standard_normal(shape) * sizes).astype(np.float32)
    model = text_model(text, **arrays)
    for number, node in enumerate(model.graph.graph):
        node.name = node.name or f"n{number}"
    return model


def correlated(
    shapes: Mapping[str, tuple[int, ...]], count: int = 16, seed: int = 0
) -> ListedSamples:
    """Positive inputs that are mostly mixtures of few things, channel by channel."""
    rng = np.random.default_rng(100)
    mixes = {name: rng.standard_normal((3, shape[1])) for name, shape in shapes.items()}
    rng = np.random.default_rng(seed)
    feeds = []
    for _ in range(count):
        item = {}
        for name, shape in shapes.items():
            places = rng.standard_normal((shape[0], *shape[2:], 3))
            values = places @ mixes[name] + 0.1 * rng.standard_normal(
                (*places.shape[:-1], shape[1])
            )
            item[name] = np.moveaxis(np.abs(values), -1, 1).astype(np.float32)
        feeds.append(item)
    return ListedSamples(feeds)
