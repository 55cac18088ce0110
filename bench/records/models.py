"""A model to ONNX and TFLite in float32, as ``modelyard convert`` does it, with its checks."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from bench.records.small import Made
from converter.errors import GateError, ModelyardError
from converter.report.model import ArtifactReport, Report

TARGETS = ("onnx", "tflite")


def prepare() -> None:
    """What all forks have in common."""
    import torch.onnx
    import transformers  # noqa: F401

    import modelyard  # noqa: F401

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)


def attempt(make: Callable[[], Made]) -> dict[str, Any]:
    """What becomes of a model: ``targets`` has a state, its reason and the worst cosine for each;
    ``unbuilt`` is why the framework doesn't make it here."""
    import modelyard

    try:
        made = make()
        with torch.no_grad():
            made.module(**{n: torch.from_numpy(a[:1].copy()) for n, a in made.samples.items()})
    except Exception as error:
        return {"unbuilt": " ".join(f"{type(error).__name__}: {error}".split())[:300]}
    told: dict[str, Any] = {"size": made.size, "parameters": _parameters(made.module)}
    with tempfile.TemporaryDirectory(prefix="modelyard-records-") as folder:
        try:
            report = modelyard.convert(
                made.module, samples=made.samples, to=[*TARGETS], bench=False, keep_going=True,
                cache=False, threads=1, progress=False, out=Path(folder) / "out",
            ).report  # fmt: skip
            assert report is not None
        except GateError:
            (told_in,) = Path(folder).glob("out*/report.json")  # out, where one target passed
            report = Report.model_validate_json(told_in.read_text())
        except ModelyardError as error:
            state = "refused" if error.exit_code in (2, 3) else "failed"
            return {**told, "targets": {name: [state, _words(error)] for name in TARGETS}}
    return {**told, "targets": dict(_targets(report))}


def _targets(report: Report) -> Iterator[tuple[str, list[Any]]]:
    made = {artifact.target: artifact for artifact in report.artifacts}
    for target in TARGETS:
        if target in made:
            yield target, _judged(made[target])
        else:
            said = [alert.text for alert in report.alerts if target in alert.text]
            yield target, ["refused", " ".join(said)[:600]]


def _judged(artifact: ArtifactReport) -> list[Any]:
    missed = [f"{gate.name}: {gate.why}" for gate in artifact.gates if gate.status == "failed"]
    floats = artifact.accuracy.floats if artifact.accuracy else ()
    cosine = min((o.cosine for o in floats if o.cosine is not None), default=None)
    if artifact.verdict == "passed":
        return ["accurate", "", cosine]
    state = "gates missed" if artifact.verdict == "failed" else artifact.verdict
    return [state, "; ".join(missed)[:600], cosine]


def _parameters(module: torch.nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def _words(error: ModelyardError) -> str:
    return " ".join("; ".join([str(error.message), *map(str, error.details)]).split())[:600]
