"""What is emitted, computed by coremltools' own numpy code instead of by way of our parser."""

import pytest

from tests.conformance.outcome import counts
from tests.conformance.selection import Filters
from tests.coreml_emitter.second_opinion import opinions

pytestmark = pytest.mark.slow

SHARE = 4
"""One conformance case in so many; ``python -m tests.coreml_emitter.second_opinion`` takes all."""

FLOOR = 270
"""Cases of that share that coremltools has to come to the right result of."""


def test_coremltools_computes_what_the_cases_say() -> None:
    found = list(opinions(Filters(share=SHARE)))
    assert not [opinion for opinion in found if opinion.state == "different"]
    assert counts(found)["same"] >= FLOOR
