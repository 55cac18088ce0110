"""How models on servers are asked, whatever the protocol: requests as bytes, answers as arrays."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from converter.ir.model import TensorSpec
from converter.serving.address import Address
from converter.serving.tensors import Array

Specs = tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]]


class ErrorAnswer(Exception):
    """A server's answer that is an error: its status and what it says."""

    def __init__(self, status: str, text: str) -> None:
        super().__init__(f"{status}: {' '.join(text.split())[:500]}")
        self.status = status


class Asker(Protocol):
    """One connection."""

    def ask(self, request: bytes) -> bytes:
        """Sends a request; raises ErrorAnswer, or OSError where there is no answer."""

    def close(self) -> None: ...


@dataclass(frozen=True)
class Statistics:
    """What a server has counted since it started, in nanoseconds; all versions of the model.

    Attributes:
        requests: Those that it answered well.
        runs: Of the model: fewer than requests where it batches.
        queue, compute: Time of all requests in the queue; in the model and around it.
    """

    requests: int
    runs: int
    queue: int
    compute: int

    def since(self, before: Statistics) -> Statistics:
        """What came in between."""
        return Statistics(
            self.requests - before.requests,
            self.runs - before.runs,
            self.queue - before.queue,
            self.compute - before.compute,
        )


class Wire(ABC):
    """One model on a server, in one protocol."""

    address: Address

    @abstractmethod
    def connect(self) -> Asker:
        """A connection of its own; it opens with the first request."""

    @abstractmethod
    def encode(self, feeds: Mapping[str, Array]) -> bytes:
        """A request, batch included."""

    @abstractmethod
    def decode(self, answer: bytes) -> dict[str, Array]:
        """The outputs in an answer; raises ValueError where it isn't one."""

    def specs(self) -> Specs | None:
        """The inputs and outputs that the server says; None where the protocol has no words for
        them."""
        return None

    def statistics(self) -> Statistics | None:
        """What the server counts; None where it doesn't."""
        return None


def spec(name: str, dtype: str, shape: Sequence[int]) -> TensorSpec:
    """A tensor as servers' metadata have it.

    Args:
        name: The tensor's; free dimensions are named after it.
        dtype: The name of a TensorSpec's dtype.
        shape: -1 is a free dimension, and a free first one is the batch.
    """
    free = ("batch" if not axis else f"{name}_{axis}" for axis in range(len(shape)))
    dims = tuple(own if size < 0 else size for own, size in zip(free, shape, strict=True))
    return TensorSpec(name, dtype, dims)


def sum_statistics(entries: Sequence[Mapping[str, Any]]) -> Statistics | None:
    """Those of all versions: the protocol's statistics extension, from JSON or a message."""
    if not entries:
        return None
    stats = [entry["inference_stats"] for entry in entries]

    def total(*names: str) -> int:
        return sum(int(item.get(name, {}).get("ns", 0)) for item in stats for name in names)

    answered = sum(int(item.get("success", {}).get("count", 0)) for item in stats)
    runs = sum(int(entry.get("execution_count", 0)) for entry in entries)
    compute = total("compute_input", "compute_infer", "compute_output")
    return Statistics(answered, runs, total("queue"), compute)
