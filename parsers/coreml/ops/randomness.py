"""Random numbers, which have no place in a model that is compared with another."""

from __future__ import annotations

from parsers.coreml.operation import Operation
from parsers.coreml.reader import Reader
from parsers.coreml.refusal import Refusal
from parsers.coreml.registry import reads

_RANDOM = ("random_bernoulli", "random_categorical", "random_normal", "random_uniform")


@reads(*_RANDOM)
def random(reader: Reader, op: Operation) -> None:
    """None: a model that is to be compared has to give the same for the same inputs."""
    raise Refusal(
        f"{op.type} gives other numbers in each run, so nothing can be compared",
        "Draw the numbers outside of the model, and make them an input.",
    )
