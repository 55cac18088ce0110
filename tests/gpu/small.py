"""Small graphs whose engines build in seconds, and what they are held to."""

import numpy as np

from converter.ir.model import Model
from converter.runtime.ort import OrtSession
from converter.runtime.session import Session
from tests.operators.cases import Array, numbers, parsed, with_weights


def convolution() -> Model:
    """``x`` float32 (batch, 3, 16, 16) through a convolution and Relu to ``y``."""
    model = parsed("""
        g (float[batch, 3, 16, 16] x, float[8, 3, 3, 3] w) => (float[batch, 8, 16, 16] y) {
            conv = Conv <pads = [1, 1, 1, 1]> (x, w)
            y = Relu (conv)
        }""")
    return with_weights(model, w=numbers(8, 3, 3, 3))


def nonzero() -> Model:
    """``x`` float32 (batch, 8) to ``y`` int64 (2, how many aren't zero): known after a run only."""
    return parsed("g (float[batch, 8] x) => (int64[2, count] y) { y = NonZero (x) }")


def loop() -> Model:
    """``x`` float32 (batch, 8), added to itself three times in a Loop."""
    return parsed("""
        g (float[batch, 8] x) => (float[batch, 8] y)
        <int64 trips = {3}, bool go = {1}> {
            y = Loop (trips, go, x) <body = b (int64 i, bool c, float[batch, 8] v)
                => (bool more, float[batch, 8] w) { more = Identity (c) w = Add (v, x) }>
        }""")


def pictures(batch: int) -> dict[str, Array]:
    """What :func:`convolution` takes."""
    return {"x": numbers(batch, 3, 16, 16, seed=batch)}


def check(session: Session, *batches: int, rtol: float, atol: float = 0) -> None:
    """Holds what comes of pictures to ONNX Runtime's."""
    reference = OrtSession(convolution().graph)
    for batch in batches:
        found, expected = (one.run(pictures(batch))["y"] for one in (session, reference))
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol)
