"""TFLite files in Triton: its Python backend, with a ``model.py`` that runs them by LiteRT.

Triton has no backend of its own for them. ``model.py``
(:mod:`emitters.serving.triton.litert_model`) lies beside the file in the version's folder, is the
same for every model, and needs ``ai-edge-litert`` in the Python that the server's Python backend
runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from converter import plugins
from converter.errors import ModelyardError, Unsupported, UnsupportedError, UsageError
from converter.ir.model import TensorSpec
from converter.protocols.emitter import Artifact
from converter.runtime.session import Session
from emitters.serving.triton.request import TritonRequest
from emitters.serving.triton.scheduling import require_kinds

TARGET = "tflite"
BACKEND = "python"
MODEL_FILE = "model.tflite"
CODE = "model.py"
"""What Triton's Python backend looks for."""


def require_options(request: TritonRequest) -> None:
    """Refuses what LiteRT has no place for.

    Raises:
        UsageError: Instances on GPUs, or a level of another backend's optimization.
    """
    if request.instance_kind == "gpu":
        raise UsageError(
            "--instance-kind gpu: LiteRT runs on CPUs in a server",
            code="option-not-applicable",
            hint="Serve the ONNX file or an engine on GPUs: --to onnx, --to tensorrt.",
        )
    require_kinds(request, ("KIND_CPU", "KIND_AUTO"), "LiteRT runs on CPUs in a server")
    if request.sequence or request.states or request.sequence_batching:
        raise UsageError(
            "--sequence: Triton's runtime for TFLite files keeps no states",
            code="option-not-applicable",
            hint="Serve the ONNX file: --to onnx.",
        )
    if request.optimization:
        raise UsageError(
            f"--optimization {request.optimization}: only the onnxruntime backend has it, "
            "and LiteRT runs a TFLite file",
            code="option-not-applicable",
        )


def open_session(artifact: Artifact, request: TritonRequest) -> Session:
    """The file in LiteRT.

    Raises:
        UnsupportedError: It has strings, which ``model.py`` doesn't hand on.
        ModelError: LiteRT refuses it.
    """
    session: Session = plugins.load("emitters", TARGET).open(artifact, request)
    texts = [spec for spec in (*session.inputs, *session.outputs) if spec.dtype == "string"]
    if texts:
        session.close()
        why = "strings of TFLite files aren't served"
        raise UnsupportedError(
            "Triton can't take the model's inputs or outputs",
            [Unsupported(spec.name, "string", why, "serve the ONNX file") for spec in texts],
        )
    return session


def code() -> str:
    """The text of ``model.py``."""
    return files("emitters.serving.triton").joinpath("litert_model.py").read_text("utf-8")


def version_specs(
    folder: Path,
) -> tuple[list[str], tuple[Sequence[TensorSpec], Sequence[TensorSpec]] | None]:
    """What is wrong with a version's folder, and its file's inputs and outputs."""
    problems = [f"holds no {name}" for name in (MODEL_FILE, CODE) if not (folder / name).is_file()]
    if problems:
        return problems, None
    try:
        from emitters.tflite.session import declared

        return [], declared(folder / MODEL_FILE)
    except ModelyardError as error:
        return [error.message], None


def is_litert(config: Any) -> bool:
    """Whether a configuration serves a TFLite file of ours."""
    return bool(config.backend == BACKEND)


def version_problems(folder: Path, config: Any, compare: Any) -> Iterator[str]:
    """What is wrong with a version, a line each.

    Args:
        folder: The version's folder.
        config: The ``ModelConfig``.
        compare: Finds what is wrong between specs, the configuration's entries for them and the
            largest batch.
    """
    problems, specs = version_specs(folder)
    yield from (f"version {folder.name} {text}" for text in problems)
    if specs is not None:
        for kind, own, entries in zip(
            ("input", "output"), specs, (config.input, config.output), strict=True
        ):
            for text in compare(own, entries, config.max_batch_size):
                yield f"version {folder.name}, {kind} {text}"
