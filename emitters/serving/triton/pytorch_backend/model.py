"""TorchScript files in Triton, as a backend written in Python: PyTorch on the CPU.

It takes the place of Triton's compiled `pytorch` backend where that isn't there: a model folder
meant for that one loads and serves unmodified. Names go by the compiled backend's rules: inputs are
called like forward's arguments, or else, as outputs always, NAME__INDEX; where that one would fall
back to the order of the configuration, this one refuses. Outputs are held to the configuration's
types as they come.

It runs on the CPU only, copies every tensor through shared memory, and completes no configuration
by itself. GPU instances are refused; of dictionaries, strings, ragged batches and sequence batching
it knows nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import triton_python_backend_utils as pb_utils  # type: ignore[import-not-found]

_INDEXED = re.compile(r".+__(\d+)")
_TYPES = {
    torch.bool: "TYPE_BOOL",
    torch.uint8: "TYPE_UINT8",
    torch.int8: "TYPE_INT8",
    torch.int16: "TYPE_INT16",
    torch.int32: "TYPE_INT32",
    torch.int64: "TYPE_INT64",
    torch.float16: "TYPE_FP16",
    torch.float32: "TYPE_FP32",
    torch.float64: "TYPE_FP64",
}
_PLATFORM = "pytorch_libtorch"
_THREADS = "INTRA_OP_THREAD_COUNT"


class ConfigError(ValueError):
    """The configuration does not fit the file, or asks for what this backend lacks."""


class TritonPythonModel:
    """One model instance: a copy of the file's module in a process of its own."""

    def initialize(self, args: Mapping[str, str]) -> None:
        """Load the version's file and refuse a configuration that does not fit it."""
        config = json.loads(args["model_config"])
        self._name = config["name"]
        self._batched = int(config.get("max_batch_size", 0)) > 0
        try:
            _refuse_unsupported(config, args["model_instance_kind"])
            folder = Path(args["model_repository"]) / args["model_version"]
            path = folder / (config.get("default_model_filename") or "model.pt")
            threads = config.get("parameters", {}).get(_THREADS, {}).get("string_value")
            if threads:
                torch.set_num_threads(int(threads))
            self._module = torch.jit.load(str(path), map_location="cpu").eval()
            self._inputs = _input_order(config, self._module)
            self._outputs = _output_places(config)
        except (RuntimeError, ValueError) as error:
            raise pb_utils.TritonModelException(
                f"unable to load model '{self._name}': {error}"
            ) from error
        self._scalars = {item["name"] for item in config["input"] if _is_scalar(item)}
        pb_utils.Logger.log_info(
            f"pytorch backend in Python: '{self._name}' version {args['model_version']}"
            f" runs {path.name} on PyTorch {torch.__version__}"
        )

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        """Answer requests, in one run of the model where it takes batches."""
        if self._batched:
            return self._answer(requests)
        return [self._answer([request])[0] for request in requests]

    def _answer(self, requests: Sequence[Any]) -> list[Any]:
        """Run the model once; what it refuses is refused to every request of the batch."""
        try:
            feeds = [self._read(request) for request in requests]
            sizes = [len(feed[0]) if self._batched else 1 for feed in feeds]
            parts = self._run(feeds, sizes)
        except (RuntimeError, ValueError) as error:
            # Each response needs an error of its own: sharing one crashes the server.
            refusal = f"model '{self._name}': {error}"
            return [
                pb_utils.InferenceResponse(error=pb_utils.TritonError(refusal)) for _ in requests
            ]
        return [_respond(request, part) for request, part in zip(requests, parts, strict=True)]

    def _read(self, request: Any) -> list[Any]:
        """Tensors in the order of forward's arguments."""
        by_name = {tensor.name(): tensor.as_numpy() for tensor in request.inputs()}
        # A copy: the request's memory is read-only, and forward may write to its inputs.
        tensors = [torch.from_numpy(np.array(by_name[name])) for name in self._inputs]
        return [
            tensor.reshape(tensor.shape[:1] if self._batched else ())
            if name in self._scalars
            else tensor
            for name, tensor in zip(self._inputs, tensors, strict=True)
        ]

    def _run(self, feeds: Sequence[Sequence[Any]], sizes: Sequence[int]) -> list[dict[str, Any]]:
        """The outputs of each request, by name."""
        joined = [torch.cat(list(items)) if len(items) > 1 else items[0] for items in zip(*feeds)]  # noqa: B905
        with torch.inference_mode():
            result = self._module(*joined)
        outputs = [result] if isinstance(result, torch.Tensor) else result
        if not isinstance(outputs, (list, tuple)) or isinstance(result, list):
            raise ConfigError("output must be a tensor or a tuple of tensors")
        parts: list[dict[str, Any]] = [{} for _ in sizes]
        for name, (place, wanted) in self._outputs.items():
            if place >= len(outputs):
                raise ConfigError(
                    f"the output {name} refers to an output index which doesn't exist:"
                    f" this model has {len(outputs)} outputs"
                )
            tensor = outputs[place]
            if _TYPES.get(tensor.dtype) != wanted:
                raise ConfigError(
                    f"configuration expects datatype {wanted} for output '{name}',"
                    f" model provides {tensor.dtype}"
                )
            for part, piece in zip(parts, self._split(name, tensor, sizes), strict=True):
                part[name] = piece
        return parts

    def _split(self, name: str, tensor: Any, sizes: Sequence[int]) -> Sequence[Any]:
        if not self._batched:
            return [tensor if tensor.ndim else tensor.reshape(1)]
        if len(tensor) != sum(sizes):
            raise ConfigError(
                f"output '{name}' has shape {list(tensor.shape)} for a batch of {sum(sizes)}"
            )
        return list(tensor.split(list(sizes)))


def _refuse_unsupported(config: Mapping[str, Any], instance_kind: str) -> None:
    """Refuse loudly what would otherwise seem to have been tested."""
    if instance_kind == "GPU":
        raise ConfigError("this backend has no GPU instances")
    if config.get("platform") not in ("", _PLATFORM):
        raise ConfigError(f"the platform {config['platform']!r} is not {_PLATFORM}")
    if "sequence_batching" in config or config.get("batch_input") or config.get("batch_output"):
        raise ConfigError("this backend has no sequence batching, batch inputs or batch outputs")


def _is_scalar(item: Mapping[str, Any]) -> bool:
    return "reshape" in item and not item["reshape"].get("shape")


def _input_order(config: Mapping[str, Any], module: Any) -> list[str]:
    """The configured inputs in the order of forward's arguments."""
    arguments = [argument.name for argument in module.forward.schema.arguments[1:]]
    names = [item["name"] for item in config["input"]]
    if set(names) <= set(arguments):
        places = {name: arguments.index(name) for name in names}
    else:
        places = _places(names, "input")
    if sorted(places.values()) != list(range(len(names))):
        raise ConfigError(f"inputs {names} are not the first arguments of forward{arguments}")
    return sorted(names, key=places.__getitem__)


def _output_places(config: Mapping[str, Any]) -> dict[str, tuple[int, str]]:
    """Place and type of each configured output, by name."""
    places = _places([item["name"] for item in config["output"]], "output")
    return {item["name"]: (places[item["name"]], item["data_type"]) for item in config["output"]}


def _places(names: Sequence[str], kind: str) -> dict[str, int]:
    found = {name: _INDEXED.fullmatch(name) for name in names}
    if other := [name for name, match in found.items() if match is None]:
        raise ConfigError(f"{kind}s {other} do not follow the <name>__<index> naming convention")
    return {name: int(match[1]) for name, match in found.items() if match}


def _respond(request: Any, outputs: Mapping[str, Any]) -> Any:
    wanted = request.requested_output_names()
    return pb_utils.InferenceResponse(
        output_tensors=[
            pb_utils.Tensor(name, np.ascontiguousarray(tensor.numpy()))
            for name, tensor in outputs.items()
            if name in wanted
        ]
    )
