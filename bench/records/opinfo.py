"""PyTorch's OpInfo to each target.

Each sample becomes a module whose inputs are the sample's tensors, and an ONNX file as ``convert``
writes it. That is read, simplified by our own passes (none of them verified, so that nothing is
taken back), emitted for each target, opened from disk in the target's runtime, run, and compared
with eager.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import onnx
import torch

from bench.arguments_calls import SEED
from bench.arguments_run import OPSET, read_once
from bench.records.opinfo_calls import Array, Sample, Unfit, difference, outputs, samples
from bench.records.scoreboard.backend import READ, read, written
from converter import plugins
from converter.errors import DependencyError, ModelyardError
from converter.ir.exported import exporters_mistake
from converter.ir.model import Model
from converter.runtime.ort import OrtSession, RefusedModel
from parsers.pytorch.child import export, signature, tensors
from parsers.pytorch.child.examples import Examples
from parsers.pytorch.child.flatten import Flat
from parsers.worker.errors import WorkerError

TARGETS = ("onnx", "tflite", "coreml", "openvino", "pytorch", "keras")
COUNT = {"float32": 1, "int64": 1, "bool": 1}
"""Samples of an operator, by dtype."""

PASSES = (
    *(*READ, "cleanup", "transposes", "fuse-shapes", "fuse-attention"),
    *("fuse-padding", "fuse-activation", "fuse-normalization", "fuse-convolution"),
)
_REFUSALS = (2, 3)
"""Exit codes of errors that say that this model can't be taken."""


class Called(torch.nn.Module):  # type: ignore[misc]  # torch is not type-checked
    """A sample as a module: its tensors in, the tensors that the operator gives out."""

    def __init__(self, sample: Sample) -> None:
        super().__init__()
        self._call = sample.call

    def forward(self, *given: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(outputs(self._call.on(iter(given))))


def prepare() -> None:
    """What all forks have in common."""
    warnings.simplefilter("ignore")
    torch.set_grad_enabled(False)
    torch.set_num_threads(1)
    read_once()
    for name in PASSES:
        plugins.load("passes", name)


def attempt(name: str, targets: Sequence[str] = TARGETS) -> dict[str, Any]:
    """What becomes of ``OPERATOR:DTYPE``: ``samples`` is a list of what each sample did, by target;
    ``unfit`` is why there is none."""
    try:
        chosen = samples(name, COUNT[name.rsplit(":", 1)[1]])
    except Unfit as error:
        return {"unfit": str(error)}
    except Exception as error:  # a package that samples need isn't here
        return {"unfit": f"{type(error).__name__}: {error}"[:200]}
    return {"samples": [_one(sample, targets) for sample in chosen]}


def _one(sample: Sample, targets: Sequence[str]) -> dict[str, list[str]]:
    with tempfile.TemporaryDirectory(prefix="modelyard-records-") as folder:
        path = f"{folder}/model.onnx"
        try:
            feeds = _write(sample, path)
            model = read(onnx.load(path), PASSES)
            model.source["exporter"] = "torch.onnx"
            _require_runs(model, feeds)
        except (WorkerError, ModelyardError) as error:
            state = "failed" if getattr(error, "kind", "") == "internal" else "refused"
            return {name: [state, f"source: {_words(error)}"] for name in targets}
        except Exception as error:  # whatever isn't ours is the finding
            return {name: ["failed", f"source: {_raised(error)}"] for name in targets}
        return {
            name: [*_through(name, model.copy(), sample, feeds, Path(folder) / name)]
            for name in targets
        }


def _require_runs(model: Model, feeds: dict[str, Array]) -> None:
    """Refuses what ONNX Runtime doesn't run, as ``convert`` does."""
    try:
        session = OrtSession(model.graph, plain=True)
    except RefusedModel as error:
        raise exporters_mistake(model, error) from error
    try:
        session.run({spec.name: feeds[spec.name] for spec in session.inputs})
    finally:
        session.close()


def _write(sample: Sample, path: str) -> dict[str, Array]:
    """Writes the ONNX file, and gives what to feed it."""
    given = [tensor.clone() for tensor in sample.call.tensors()]
    names = [f"x{index}" for index in range(len(given))]
    specs = [
        tensors.Spec(name, tensors.dtype_name(t.dtype), tuple(t.shape))
        for name, t in zip(names, given, strict=True)
    ]
    module = Called(sample)
    request = export.Request(
        flat=Flat(module, signature.plan_inputs(module.forward, names, {})), specs=specs, sizes={},
        opset=OPSET, out=path, outputs=None,
        examples=Examples(specs, dict(zip(names, given, strict=True))), external_from=None,
        optimize=True, progress=lambda _: None,
    )  # fmt: skip
    torch.manual_seed(SEED)
    export.export(request)
    return {n: tensors.to_numpy(t) for n, t in zip(names, given, strict=True)}


def _through(
    target: str, model: Model, sample: Sample, feeds: dict[str, Array], folder: Path
) -> Iterator[str]:
    """A state, and why: ok; refused; wrong; failed, an error that isn't a refusal."""
    state = "refused"
    try:
        opening = written(model, target, folder)
        state = "failed"
        session = opening()
        try:
            wanted = {spec.name for spec in session.inputs}
            found = session.run({n: a for n, a in feeds.items() if n in wanted})
        finally:
            session.close()
    except DependencyError:
        raise
    except ModelyardError as error:
        yield state if error.exit_code in _REFUSALS else "failed"
        yield _words(error)
    except Exception as error:  # whatever isn't ours is the finding
        yield "failed"
        yield _raised(error)
    else:
        wrong = difference(sample, [*found.values()])
        yield from ("wrong", wrong) if wrong else ("ok", "")


def _words(error: Exception) -> str:
    details = [str(item) for item in getattr(error, "details", None) or ()]
    return " ".join((str(error.args[0] if error.args else error) + "; " + "; ".join(details)
                     if details else str(error)).split())[:600]  # fmt: skip


def _raised(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:600]
