"""Runs the original as it is, under the interface that the user asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from converter.ir.model import TensorSpec
from converter.runtime.session import Session, Timing
from parsers.onnx.interface import Interface

Array = np.ndarray[Any, Any]


class Reference:
    """The original in its own runtime, its inputs and outputs called what the model's are.

    Where the batch of a file was fixed, and freed or changed in the model, batches of any size
    are run through the original in pieces of its own size, the last one filled up by
    repetition.

    Args:
        session: The original; it is closed by whoever opened it.
        interface: What was changed.
        arithmetic: ``int8`` where the original rounds to integers as it runs; see
            :meth:`converter.check.gates.Limits.of`.
    """

    def __init__(self, session: Session, interface: Interface, arithmetic: str = "") -> None:
        self._session = session
        self._said = {"arithmetic": arithmetic} if arithmetic else {}
        self._inputs = interface.input_names
        self._outputs = interface.output_names
        self._batch = interface.file_batch
        self._batched = interface.batched
        self.inputs: tuple[TensorSpec, ...] = interface.inputs
        self.outputs: tuple[TensorSpec, ...] = interface.outputs

    @property
    def runtime(self) -> dict[str, Any]:
        return {**self._session.runtime, **self._said}

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Outputs by name, in order.

        Raises:
            ModelError: The runtime failed on these inputs.
        """
        pieces = [self._session.run(piece) for piece in self._pieces(feeds)]
        joined = pieces[0]
        if self._batch is not None and self._size(feeds) != self._batch:
            joined = {name: self._join([p[name] for p in pieces], feeds) for name in pieces[0]}
        return {self._outputs[name]: value for name, value in joined.items()}

    def time(self, feeds: Mapping[str, Array], runs: int, concurrency: int = 1) -> Timing:
        """Wall time of each of ``runs`` runs in each of ``concurrency`` callers.

        A batch that is run in pieces takes as long as its pieces one after the other.
        """
        pieces = self._pieces(feeds)
        count = len(pieces)
        timing = self._session.time(pieces[0], runs * count, concurrency)
        sums = [sum(timing.ns[at : at + count]) for at in range(0, len(timing.ns), count)]
        return Timing(tuple(sums), timing.total_ns)

    def close(self) -> None:
        """Nothing: the source closes the session."""

    def _pieces(self, feeds: Mapping[str, Array]) -> list[dict[str, Array]]:
        named = {self._inputs[name]: array for name, array in feeds.items()}
        size = self._size(feeds)
        if self._batch is None or size == self._batch:
            return [named]
        batched = {self._inputs[name]: axis for name, axis in self._batched.items()}
        return [
            {
                name: _piece(array, batched[name], start, self._batch) if name in batched else array
                for name, array in named.items()
            }
            for start in range(0, size, self._batch)
        ]

    def _size(self, feeds: Mapping[str, Array]) -> int:
        sizes = (feeds[name].shape[axis] for name, axis in self._batched.items() if name in feeds)
        return max(sizes, default=0)

    def _join(self, pieces: list[Array], feeds: Mapping[str, Array]) -> Array:
        """Pieces one after the other along the first dimension that is of the file's batch; an
        output without one is the same in all."""
        axis = next((i for i, size in enumerate(pieces[0].shape) if size == self._batch), None)
        if axis is None:
            return pieces[0]
        return np.take(np.concatenate(pieces, axis), range(self._size(feeds)), axis)


def _piece(array: Array, axis: int, start: int, size: int) -> Array:
    """``size`` samples from ``start`` on; past the end they begin anew."""
    return np.take(array, range(start, start + size), axis, mode="wrap")
