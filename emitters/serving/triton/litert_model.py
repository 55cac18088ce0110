"""Runs ``model.tflite`` beside this file by LiteRT, in Triton's Python backend.

It needs ai-edge-litert and numpy in the Python that the backend runs. Requests of one shape that
Triton hands over together run as one batch. Written by Modelyard.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils  # type: ignore[import-not-found]
from ai_edge_litert.interpreter import Interpreter

THREADS = "intra_op_thread_count"
"""The parameter in config.pbtxt that says how many threads one run has."""


class TritonPythonModel:
    """One instance: an interpreter of its own, in a process of its own."""

    def initialize(self, args: Mapping[str, str]) -> None:
        """Loads the version's file."""
        config = json.loads(args["model_config"])
        path = Path(args["model_repository"], args["model_version"], "model.tflite")
        threads = config.get("parameters", {}).get(THREADS, {}).get("string_value")
        self._interpreter = Interpreter(str(path), num_threads=int(threads) if threads else None)
        self._run = self._interpreter.get_signature_runner()
        details = self._run.get_input_details()
        self._scalars = {name for name, item in details.items() if not len(item["shape"])}
        self._inputs = [item["name"] for item in config["input"]]
        self._outputs = [item["name"] for item in config["output"]]
        self._batched = int(config.get("max_batch_size", 0)) > 0

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        """An answer, or an error, for each request."""
        answers: list[Any] = [None] * len(requests)
        for numbers, feeds in self._groups(requests):
            try:
                outputs = self._run(**self._joined(feeds))
            except (RuntimeError, ValueError) as error:
                said = pb_utils.TritonError(f"LiteRT: {error}")
                for number in numbers:
                    answers[number] = pb_utils.InferenceResponse(error=said)
                continue
            end = 0
            for number, feed in zip(numbers, feeds, strict=True):
                start, end = end, end + self._rows(feed)
                part = {n: a[start:end] for n, a in outputs.items()} if len(feeds) > 1 else outputs
                answers[number] = self._answer(part)
        return answers

    def _groups(self, requests: Sequence[Any]) -> list[tuple[list[int], list[dict[str, Any]]]]:
        """The requests that run together: those of one shape, where there are batches."""
        groups: dict[Any, tuple[list[int], list[dict[str, Any]]]] = {}
        for number, request in enumerate(requests):
            feed = {
                name: pb_utils.get_input_tensor_by_name(request, name).as_numpy()
                for name in self._inputs
            }
            shapes = tuple(array.shape[1:] for array in feed.values()) if self._batched else number
            numbers, feeds = groups.setdefault(shapes, ([], []))
            numbers.append(number)
            feeds.append(feed)
        return list(groups.values())

    def _rows(self, feed: Mapping[str, Any]) -> int:
        return len(next(iter(feed.values()))) if feed else 1

    def _joined(self, feeds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        if len(feeds) > 1:
            return {name: np.concatenate([feed[name] for feed in feeds]) for name in self._inputs}
        return {
            name: array.reshape(()) if name in self._scalars else array
            for name, array in feeds[0].items()
        }

    def _answer(self, outputs: Mapping[str, Any]) -> Any:
        """Triton has no scalars: they have one axis."""
        tensors = [
            pb_utils.Tensor(name, np.ascontiguousarray(np.atleast_1d(outputs[name])))
            for name in self._outputs
        ]
        return pb_utils.InferenceResponse(output_tensors=tensors)
