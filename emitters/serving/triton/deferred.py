"""What lies in a version's folder whose engine is still to be built.

Beside ``model.onnx``: ``build_engine.py``, ``engine.lock.json`` with the samples and what the
script has to know of the folder, ``samples/``, and ``config.engine.pbtxt``, the configuration that
the script puts in the place of ``config.pbtxt`` once the engine was built and compared.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from converter.check.reference import ReferenceOutputs
from converter.ir.model import TensorSpec
from converter.protocols.emitter import Later
from converter.samples import Samples
from emitters.serving.triton.releases import MATRIX, table
from emitters.serving.triton.request import TritonRequest
from emitters.serving.triton.samples import write_samples
from emitters.tensorrt.deferred import gates_of, write_lock, written_by_script
from emitters.tensorrt.engine_script.lock import LOCK_NAME, ONNX_FOLDER
from emitters.tensorrt.engine_script.switching import CONFIG, ENGINE_CONFIG, ONNX_CONFIG
from emitters.tensorrt.script import SCRIPT_NAME, script_text


@dataclass(frozen=True)
class Deferral:
    """What is written.

    Attributes:
        lock: The artifact's lock.
        request: Its gates and its version policy.
        config_text: The configuration that serves the ONNX file.
        engine_config: The one that will serve the engine.
        samples: What the engine is compared on.
        reference: The source's outputs on them; None where the check was left out.
        inputs, outputs: As they are served.
    """

    lock: Path
    request: TritonRequest
    config_text: str
    engine_config: str
    samples: Samples
    reference: ReferenceOutputs | None
    inputs: Sequence[TensorSpec]
    outputs: Sequence[TensorSpec]


def write_deferral(version: Path, made: Deferral) -> None:
    """Writes it all into the version's folder."""
    lock: dict[str, Any] = json.loads(made.lock.read_text(encoding="utf-8"))
    (version / ENGINE_CONFIG).write_text(made.engine_config, encoding="utf-8")
    (version / SCRIPT_NAME).write_text(script_text(), encoding="utf-8")
    lock["triton"] = {
        "config_sha256": hashlib.sha256(made.config_text.encode()).hexdigest(),
        "version_policy": _policy(made.request.version_policy),
        "releases": table(),
        "matrix": MATRIX,
    }
    if made.reference is not None:
        arithmetic = str(made.reference.runtime.get("arithmetic", ""))
        lock["gates"] = gates_of(made.request, lock["precision"], arithmetic)
        lock["samples"] = write_samples(
            version, made.samples, made.reference, made.inputs, made.outputs, made.request.warmup
        )
    write_lock(version / LOCK_NAME, lock)


def later_of(version: Path, files: Sequence[Path]) -> Later:
    """What ``build_engine.py`` does to the model's folder
    (:mod:`emitters.tensorrt.engine_script.switching`).

    Args:
        version: The version's folder.
        files: The ONNX file and its weights.
    """
    model = version.parent
    later = written_by_script(version)
    later.move += [model / CONFIG, model / ONNX_CONFIG]
    later.move += [path.with_name(f".{path.name}.new") for path in later.move]
    later.move += [model / ONNX_FOLDER / version.name / file.name for file in files]
    return later


def _policy(text: str) -> dict[str, Any]:
    """``latest:2`` as ``{"latest": 2}``; it was read before, where the configuration was made."""
    kind, _, rest = text.partition(":")
    if kind == "latest":
        return {"latest": int(rest)}
    if kind == "specific":
        return {"specific": sorted(int(item) for item in rest.split(","))}
    return {"all": True}
