"""What is run in an engine's place where no GPU is: the typed graph that it was built from.

Its outputs tell what precision does to the model, not what the engine gives: whoever shows them
has to say so (``runtime["stands_for"]``, ``runtime["not_run"]``).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from converter.errors import DependencyError
from converter.ir.model import Model, TensorSpec
from converter.precision.fp16.strict import HALVES, strict
from converter.runtime.ort import OrtSession
from converter.runtime.session import Timing

_LARGE = 600_000_000
"""Bytes of weights from which a graph isn't rewritten: in float32 it might not fit a protobuf."""


class StandIn:
    """A typed graph in ONNX Runtime, on the CPU.

    float16 and bfloat16, which that provider mostly computes in float32 or not at all, are
    computed in float32 with every tensor rounded: no less than what hardware does.

    Args:
        graph: The ONNX file.
        stands_for: The name of the file that isn't run.
        why: Why it isn't.
        threads: Threads inside one run.
    """

    def __init__(self, graph: Path, stands_for: str, why: str, threads: int | None) -> None:
        model = Model.load(graph)
        self._inputs, self._outputs = model.inputs, model.outputs
        self._rounded = _can_be_rounded(model)
        what = strict(model).graph if self._rounded else graph
        self._session = OrtSession(what, providers=["cpu"], threads=threads)
        self._stands_for = stands_for
        self._why = why

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        return self._inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        return self._outputs

    @property
    def runtime(self) -> dict[str, Any]:
        """ONNX Runtime's, with ``stands_for`` and ``not_run``: what wasn't run, and why."""
        return {
            **self._session.runtime,
            "runs": "the typed graph"
            + (", in float32 with every 16-bit tensor rounded" if self._rounded else ""),
            "stands_for": self._stands_for,
            "not_run": self._why,
        }

    def run(self, feeds: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, np.ndarray[Any, Any]]:
        return self._session.run(feeds)

    def time(
        self, feeds: Mapping[str, np.ndarray[Any, Any]], runs: int, concurrency: int = 1
    ) -> Timing:
        """Refused: another runtime's latency isn't the engine's.

        Raises:
            DependencyError: Always.
        """
        raise DependencyError(
            f"{self._stands_for} can't be measured here: {self._why}",
            code="device-missing",
            hint="Measure it on the machine that it is for, with modelyard bench.",
        )

    def close(self) -> None:
        """Gives the graph's memory back."""
        self._session.close()


def _can_be_rounded(model: Model) -> bool:
    """Whether it has 16-bit tensors, all of them inside, and is of a size to be rewritten."""
    border = (*model.graph.graph.inputs, *model.graph.graph.outputs)
    if any(value.dtype in HALVES for value in border) or model.weight_bytes() > _LARGE:
        return False
    return any(value.dtype in HALVES for node in model.nodes() for value in node.outputs)
