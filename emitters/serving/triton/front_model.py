"""Takes users' files in Triton: prepares each, asks the model beside this one, answers in JSON.

``file`` holds a file's bytes, ``answer`` what the model says of it. Several requests are worked on
at once, so that the model's dynamic batching joins them. What is done with a file stands in
stages.json beside this; what that needs has to be in the Python that Triton's Python backend runs,
with numpy. It wants Triton 24.07 or newer. Written by Modelyard.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils  # type: ignore[import-not-found]
from stages import Item, StageError, Stages

THREADS = "threads"
"""The parameter in config.pbtxt that says how many requests one instance works on at once."""

Arrays = dict[str, Any]


class TritonPythonModel:
    """One instance: a process of its own, with threads."""

    def initialize(self, args: Mapping[str, str]) -> None:
        """Reads what is done with a file, and imports what that needs."""
        parameters = json.loads(args["model_config"]).get("parameters", {})
        threads = parameters.get(THREADS, {}).get("string_value")
        self._folder = Path(args["model_repository"], args["model_version"])
        self._stages = Stages.load(self._folder)
        self._pool = ThreadPoolExecutor(int(threads) if threads else 2 * (os.cpu_count() or 1))

    def execute(self, requests: Sequence[Any]) -> list[None]:
        """Has threads answer each request; the server waits for none of them here."""
        for request in requests:
            body = pb_utils.get_input_tensor_by_name(request, "file").as_numpy().item()
            self._pool.submit(self._send, body, request.get_response_sender())
        return [None] * len(requests)

    def finalize(self) -> None:
        """Ends when all is answered."""
        self._pool.shutdown()

    def _send(self, body: bytes, sender: Any) -> None:
        try:
            response = self._answer(body)
        except StageError as error:
            response = _refused(str(error), pb_utils.TritonError.INVALID_ARG)
        except Failed as error:
            response = pb_utils.InferenceResponse(error=error.args[0])
        except Exception as error:  # the caller would wait for ever
            text = f"{type(error).__name__}: {error}"
            pb_utils.Logger.log_error(text)
            response = _refused(text, pb_utils.TritonError.INTERNAL)
        sender.send(response, flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    def _answer(self, body: bytes) -> Any:
        (item,) = self._stages.items(body)
        text = json.dumps(self._told(item), ensure_ascii=False)
        # On a line of its own: what comes before it over plain HTTP is easily cut off.
        answer = np.array([f"\n{text}\n".encode()], object)
        return pb_utils.InferenceResponse([pb_utils.Tensor("answer", answer)])

    def _told(self, item: Item) -> dict[str, Any]:
        """The answer to a file."""
        feeds, seen = self._stages.prepare(item)
        outputs = self._stages.run(partial(run, self._stages.declared["model"]), feeds)
        told: dict[str, Any] = self._stages.answer(outputs, seen)
        return told


class Failed(Exception):
    """The model that was asked gave an error, Triton's own."""


def run(model: Mapping[str, Any], feeds: Mapping[str, Any]) -> Arrays:
    """Outputs of all rows, in as few runs as a model allows.

    Args:
        model: What ``stages.json`` says of it: its name, rows, inputs and outputs.
        feeds: Arrays by the names of its inputs.

    Raises:
        Failed: It gives an error.
    """
    known, count = model["inputs"], len(next(iter(feeds.values())))
    alone = any(array.ndim > known[name]["rank"] for name, array in feeds.items())
    most = 1 if alone else model["rows"] or count
    found: list[Arrays] = []
    for start in range(0, count, most):
        part = {
            name: array[start : start + most] if array.shape[:1] == (count,) else array
            for name, array in feeds.items()
        }
        done = pb_utils.InferenceRequest(
            model_name=model["name"],
            requested_output_names=[item["name"] for item in model["outputs"].values()],
            inputs=[_tensor(known[name], array) for name, array in part.items()],
        ).exec()
        if done.has_error():
            raise Failed(done.error())
        found.append(_outputs(model, done))
    if len(found) == 1:
        return found[0]
    return {name: np.concatenate([item[name] for item in found]) for name in found[0]}


def _tensor(known: Mapping[str, Any], array: Any) -> Any:
    """An input as the server has it: without a batch where the model has none, and with an axis
    where it would have none."""
    array = array[0] if array.ndim > known["rank"] else array
    array = array[..., np.newaxis] if known["scalar"] else array
    return pb_utils.Tensor(known["name"], np.ascontiguousarray(array))


def _outputs(model: Mapping[str, Any], response: Any) -> Arrays:
    arrays = {tensor.name(): tensor.as_numpy() for tensor in response.output_tensors()}
    found = {}
    for name, known in model["outputs"].items():
        array = arrays[known["name"]]
        array = array[..., 0] if known["scalar"] else array
        found[name] = _texts(array) if array.dtype == object else array
    return found


def _texts(array: Any) -> Any:
    return np.array([text.decode() for text in array.ravel()], object).reshape(array.shape)


def _refused(text: str, code: Any) -> Any:
    return pb_utils.InferenceResponse(error=pb_utils.TritonError(text, code))
