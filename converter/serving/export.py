"""The same load for others' tools: perf_analyzer's command line and input data, Model Analyzer's
configuration.

perf_analyzer reads input data as JSON (``--input-data``): for each request the flat values of each
input with their shape, without the batch where the model takes batches. Its reader wants numbers
that have a point for floats; types that JSON lacks (FP16, BF16) go as base64 of their bytes.
"""

from __future__ import annotations

import base64
import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from converter.errors import UsageError
from converter.ir.model import TensorSpec
from converter.serving.address import Address
from converter.serving.tensors import Array, name_of, to_bytes, to_lists

TOOLS = ("perf-analyzer", "model-analyzer")
DATA = "input_data.json"


def export(
    tool: str,
    folder: Path,
    address: Address,
    inputs: Sequence[TensorSpec],
    samples: Sequence[Mapping[str, Array]],
    loads: Mapping[str, Any],
) -> list[Path]:
    """Writes what ``tool`` needs into ``folder``; gives the files.

    Args:
        tool: Of :data:`TOOLS`.
        folder: Made where it isn't there.
        address: Where the model is; the protocol has to be V2.
        inputs: The model's.
        samples: Requests of one sample each, the batch included.
        loads: ``batches``, ``concurrency``, ``rates``, ``seconds``, ``p95``; and for Model Analyzer
            ``repository``, the folder of the model's.

    Raises:
        UsageError: The tool has no such protocol.
    """
    if address.protocol == "json":
        raise UsageError(
            f"--export {tool}: this tool only speaks the V2 protocol",
            code="option-not-applicable",
            hint="Use a server's address for V2 over HTTP or gRPC.",
        )
    folder.mkdir(parents=True, exist_ok=True)
    data = {"data": [_entry(inputs, feeds) for feeds in samples]}
    (folder / DATA).write_text(json.dumps(data))
    name, text = "perf_analyzer.sh", _script(address, inputs, samples[0], loads)
    if tool == "model-analyzer":
        name, text = "model_analyzer.yaml", _configuration(address, loads)
    (folder / name).write_text(text)
    return [folder / name, folder / DATA]


def _entry(inputs: Sequence[TensorSpec], feeds: Mapping[str, Array]) -> dict[str, Any]:
    batched = {spec.name for spec in inputs if spec.has_batch}
    return {name: _tensor(array[0] if name in batched else array) for name, array in feeds.items()}


def _tensor(array: Array) -> dict[str, Any]:
    kind = name_of(array)
    if kind in ("float16", "bfloat16"):
        return {"content": {"b64": base64.b64encode(to_bytes(array)).decode()},
                "shape": list(array.shape)}  # fmt: skip
    values = to_lists(array.reshape(-1))
    return {"content": values, "shape": list(array.shape)}


def _script(
    address: Address,
    inputs: Sequence[TensorSpec],
    feeds: Mapping[str, Array],
    loads: Mapping[str, Any],
) -> str:
    protocol = "grpc" if address.protocol == "grpc" else "http"
    line = ["perf_analyzer", "-m", address.model, "-u", address.place, "-i", protocol]
    line += ["--input-data", DATA, "--percentile", "95"]
    line += ["--measurement-interval", str(round(loads["seconds"] * 1000))]
    for spec in inputs:
        free = any(isinstance(dim, str) for dim in (spec.shape or ())[int(spec.has_batch) :])
        if free:
            dims = feeds[spec.name].shape[int(spec.has_batch) :]
            line += ["--shape", f"{spec.name}:{','.join(map(str, dims))}"]
    if loads["p95"] is not None:
        line += ["--latency-threshold", str(round(loads["p95"]))]
    batched = any(spec.has_batch for spec in inputs)
    lines = ["#!/bin/sh", "# The load that modelyard bench --server makes.", 'cd "$(dirname "$0")"']
    for batch in loads["batches"] if batched else [None]:
        for load in _loads(loads):
            lines.append(shlex.join([*line, *(["-b", str(batch)] if batch else []), *load]))
    return "\n".join(lines) + "\n"


def _loads(loads: Mapping[str, Any]) -> list[list[str]]:
    if loads["rates"]:
        poisson = ["--request-distribution", "poisson", "--request-rate-range"]
        return [[*poisson, f"{rate:g}"] for rate in loads["rates"]]
    return [["--concurrency-range", str(count)] for count in loads["concurrency"]]


def _configuration(address: Address, loads: Mapping[str, Any]) -> str:
    """Model Analyzer's ``profile`` against a server that runs."""
    http = address.protocol != "grpc"
    metrics = address.port + (2 if http else 1)
    model: dict[str, Any] = {
        "parameters": {"concurrency": list(loads["concurrency"]), "batch_sizes": loads["batches"]},
        "perf_analyzer_flags": {"input-data": DATA, "percentile": 95},
    }
    if loads["p95"] is not None:
        model["perf_analyzer_flags"]["latency-threshold"] = round(loads["p95"])
    said = {
        "model_repository": loads["repository"],
        "triton_launch_mode": "remote",
        f"triton_{'http' if http else 'grpc'}_endpoint": address.place,
        "client_protocol": "http" if http else "grpc",
        # Where Triton has it by default: HTTP, gRPC, metrics, each a port further.
        "triton_metrics_url": f"http://{replace(address, port=metrics).place}/metrics",
        "reload_model_disable": True,  # it is served already
        "run_config_search_disable": True,
        "profile_models": {address.model: model},
    }
    return yaml.safe_dump(said, sort_keys=False)
