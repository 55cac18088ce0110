"""An engine that is built where it runs: the typed ONNX file, a lock, and a script that builds it.

``engine.lock.json`` says all that makes the engine: the ONNX file by its sha256, the builder's
options and profiles, the inputs and outputs that it has to have, how close it has to be to the
source framework. No paths and no times are in it. A server's folder adds samples to it
(:mod:`emitters.serving.triton.engine`), on which ``build_engine.py`` compares the engine that it
built. Until that ran there is no engine, and nothing says that there is one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from converter.check.gates import Limits
from converter.errors import from_os_error
from converter.files.digest import file_digest
from converter.ir.model import Model, TensorSpec
from converter.options.request import Request
from converter.protocols.emitter import Artifact, Later
from converter.runtime.session import Session
from emitters.tensorrt.engine_script.lock import LOCK_FORMAT, LOCK_NAME
from emitters.tensorrt.options import EngineOptions
from emitters.tensorrt.script import SCRIPT_NAME, script_text
from emitters.tensorrt.stand_in import StandIn

MODEL_NAME = "model.onnx"
PLAN_NAME = "model.plan"
DEFERRED = "deferred"
"""What an artifact's details call its engine."""

_TOOLS = ("modelyard", "onnx", "onnx-ir", "numpy")


def write(
    model: Model, folder: Path, precision: str, request: Request, options: EngineOptions
) -> Artifact:
    """Writes ``model.onnx``, ``engine.lock.json`` and ``build_engine.py`` into ``folder``.

    Args:
        model: The typed graph that the engine is built from.
        folder: Where the files go; made where it isn't there.
        precision: The engine's, by name.
        request: What was asked for.
        options: The build's.

    Returns:
        An artifact of the target ``tensorrt`` whose ``path`` is the ONNX file, whose ``files``
        are all of them, the ONNX file's weights behind it where they lie in a file of their own,
        and whose details hold ``engine`` (``deferred``), ``opset``, ``options``, ``profiles`` and
        ``note``.

    Raises:
        UsageError: The folder can't be written.
        MachineError: The disk is full.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        files = model.save(folder / MODEL_NAME, external=request.external_data or None)
        lock = make_lock(model, files, precision, request, options)
        write_lock(folder / LOCK_NAME, lock)
        (folder / SCRIPT_NAME).write_text(script_text(), encoding="utf-8")
    except OSError as error:
        raise from_os_error(error, "writing what an engine is built from") from error
    details = {
        "engine": DEFERRED,
        "note": f"no engine was built here; {SCRIPT_NAME} builds it where the GPU is",
        "opset": model.opset,
        "options": options.said(),
        "profiles": [dict(profile) for profile in options.profiles],
    }
    everything = [*files, folder / LOCK_NAME, folder / SCRIPT_NAME]
    return Artifact("tensorrt", precision, files[0], everything, details, written_by_script(folder))


def written_by_script(folder: Path) -> Later:
    """What ``build_engine.py`` writes beside itself, under the names that its options are usually
    given: the engine, and the builder's timings."""
    return Later([folder / pattern for pattern in ("*.plan", "*.timing", f".{PLAN_NAME}.new")])


def model_files(artifact: Artifact) -> list[Path]:
    """The ONNX file of a deferred artifact, and its weights' file where it has one."""
    return [file for file in artifact.files if file.name not in (LOCK_NAME, SCRIPT_NAME)]


def open_artifact(artifact: Artifact, request: Request) -> Session:
    """The typed ONNX file in ONNX Runtime: what is served until the engine is built.

    Raises:
        ModelError: ONNX Runtime refuses the file.
    """
    why = f"it isn't built yet: {SCRIPT_NAME} builds it where the GPU is"
    return StandIn(artifact.path, PLAN_NAME, why, request.threads)


def make_lock(
    model: Model,
    files: list[Path],
    precision: str,
    request: Request,
    options: EngineOptions,
) -> dict[str, Any]:
    """The lock's contents: JSON values, none of which depends on the machine or the time.

    Args:
        model: The typed graph.
        files: The ONNX file and, where there is one, its weights' file.
        precision: What the graph is typed in.
        request: Its gates are the engine's.
        options: How the engine is to be built.
    """
    stored = options.as_dict()
    plugins = [Path(path) for path in stored.pop("plugins")]
    stored.pop("compute_capabilities")
    return {
        "format": LOCK_FORMAT,
        "precision": precision,
        "model": {
            "file": files[0].name,
            "sha256": file_digest(files[0]),
            "opset": model.opset,
            "weights": [{"file": file.name, "sha256": file_digest(file)} for file in files[1:]],
        },
        "options": stored,
        "plugins": [{"name": path.name, "sha256": file_digest(path)} for path in plugins],
        "interface": {
            "batched": model.has_batch,
            "inputs": [_tensor(spec) for spec in model.inputs],
            "outputs": [_tensor(spec) for spec in model.outputs],
        },
        "gates": gates_of(request, precision),
        "samples": None,
        "triton": None,
        "tools": {name: version(name) for name in _TOOLS},
    }


def gates_of(request: Request, precision: str, arithmetic: str = "") -> dict[str, float | None]:
    """How close the engine has to be: the limits of modelyard's own check, see ``gates.py``.

    Args:
        request: Its limits.
        precision: The engine's, by name.
        arithmetic: What the source computes in; see :meth:`converter.check.gates.Limits.of`.
    """
    limits = Limits.of(request, precision, arithmetic)
    return {"cosine": limits.cosine, "scale": limits.scale, "max_abs": limits.max_abs}


def _tensor(spec: TensorSpec) -> dict[str, Any]:
    known = {"value_range": list(spec.value_range)} if spec.value_range is not None else {}
    return {"name": spec.name, "dtype": spec.dtype, "shape": list(spec.shape or ()), **known}


def write_lock(path: Path, lock: Mapping[str, Any]) -> None:
    """Writes the lock: the same bytes for the same contents."""
    text = json.dumps(lock, indent=1, sort_keys=True, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")
