"""Runs calls of ATen's operators eager, and as the ONNX file that ``convert`` would write."""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnxruntime
import torch
from torch.utils._pytree import tree_flatten

from bench import arguments_calls
from bench.arguments_calls import Call
from parsers.pytorch.child import export, signature, tensors
from parsers.pytorch.child.examples import Examples
from parsers.pytorch.child.flatten import Flat
from parsers.worker.errors import WorkerError

LIMIT = 1e-4
"""Of the largest value; what differs by more is no rounding."""

USED = {"batch_norm": 1, "native_layer_norm": 1, "native_group_norm": 1, "nll_loss": 1, "unique": 1}
"""How many outputs are held against eager: others are for gradients, or not asked for."""

FAILURES = 2
"""Calls of an operator that TorchScript's exporter tries after the first failed alike."""

OPSET = 20
PROVIDERS = ["CPUExecutionProvider"]
QUIET = onnxruntime.SessionOptions()
QUIET.log_severity_level = 3
QUIET.intra_op_num_threads = 1


class Calls(torch.nn.Module):  # type: ignore[misc]  # torch is not type-checked
    """Calls, each on tensors of its own."""

    def __init__(self, calls: Sequence[Call]) -> None:
        super().__init__()
        self.calls = calls

    def forward(self, *given: torch.Tensor) -> tuple[torch.Tensor, ...]:
        rest = iter(given)
        return tuple(t for call in self.calls for t in outputs(call, call.on(rest)))


def outputs(call: Call, result: Any) -> list[torch.Tensor]:
    """What a model makes use of."""
    leaves = tree_flatten(result)[0]
    used = next((n for name, n in USED.items() if name in call.target.name()), None)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)][:used]


def check(calls: Sequence[Call]) -> Iterator[dict[str, Any]]:
    """What became of calls of one operator: together if that works, else in halves; of whole
    numbers and scalars, which ONNX often doesn't take, the first alone then."""
    yield from _halved(calls, Counter())


def _halved(calls: Sequence[Call], failed: Counter[str]) -> Iterator[dict[str, Any]]:
    found = _together(calls) if len(calls) > 1 else None
    if found is not None:
        yield from found
    elif len(calls) == 1:
        result = _alone(calls[0], failed)
        failed[result.get("why", "")[:40]] += 1
        yield result
    elif kind(calls[0]) != PLAIN:
        result = _alone(calls[0], failed)
        if result["result"] == "same":
            result = {"result": "fails", "why": "some of these calls fail"}
        yield from (result for _ in calls)
    else:
        half = (len(calls) + 1) // 2
        yield from _halved(calls[:half], failed)
        yield from _halved(calls[half:], failed)


PLAIN = (True, True)


def kind(call: Call) -> tuple[bool, bool]:
    """Whether it is about floats, and about tensors that have axes."""
    first = call.tensors()[:1]
    return all(t.is_floating_point() for t in first), all(t.dim() for t in first)


def _together(calls: Sequence[Call]) -> list[dict[str, Any]] | None:
    expected = [outputs(call, call.run()) for call in calls]
    try:
        got, path = _exported(calls, whole=False)
    except Exception:  # each alone says what it is
        return None
    rest = iter(got)
    return [_compared(outputs, [next(rest) for _ in outputs], path) for outputs in expected]


def _alone(call: Call, failed: Mapping[str, int]) -> dict[str, Any]:
    expected = outputs(call, call.run())
    try:
        got, path = _exported([call], whole=False)
    except Untranslated as error:
        why = f"{type(error.__cause__).__name__}: {error.__cause__}"[:300]
        if failed.get(why[:40], 0) >= FAILURES:
            return {"result": "fails", "why": why}
        return _by_torchscript(call, expected)
    except Exception as error:
        return {"result": "fails", "why": f"{type(error).__name__}: {error}"[:300]}
    return _compared(expected, got, path)


def _by_torchscript(call: Call, expected: Sequence[torch.Tensor]) -> dict[str, Any]:
    try:
        got, path = _exported([call], whole=True)
    except WorkerError as error:
        return {"result": "refused", "why": str(error)[:300]}
    except Exception as error:
        return {"result": "fails", "why": f"{type(error).__name__}: {error}"[:300]}
    return _compared(expected, got, path)


def read_once() -> None:
    """Has torch read its library of translations once, and not for each model."""
    from torch.onnx._internal.exporter._registration import ONNXRegistry

    functions = ONNXRegistry.from_torchlib(OPSET).functions

    def copied(opset_version: int) -> ONNXRegistry:
        assert opset_version == OPSET
        registry = ONNXRegistry()
        registry._opset_version = opset_version
        registry.functions = {name: [*metas] for name, metas in functions.items()}
        return registry

    ONNXRegistry.from_torchlib = staticmethod(copied)


class Untranslated(Exception):
    """The first exporter can't."""


def _exported(calls: Sequence[Call], whole: bool) -> tuple[list[np.ndarray], str]:
    """What ONNX Runtime gives, and which exporter wrote the file."""
    given = [tensor.clone() for call in calls for tensor in call.tensors()]
    names = [f"x{n}" for n in range(len(given))]
    specs = [
        tensors.Spec(name, tensors.dtype_name(t.dtype), tuple(t.shape))
        for name, t in zip(names, given, strict=True)
    ]
    flat = Flat(Calls(calls), signature.plan_inputs(Calls(calls).forward, names, {}))
    with tempfile.TemporaryDirectory() as folder:
        request = export.Request(
            flat=flat, specs=specs, sizes={}, opset=OPSET, out=f"{folder}/model.onnx", outputs=None,
            examples=Examples(specs, dict(zip(names, given, strict=True))),
            external_from=None, optimize=True, progress=lambda _: None,
        )  # fmt: skip
        torch.manual_seed(arguments_calls.SEED)
        path = export.export(request)["exporter"] if whole else _translated(request)
        session = onnxruntime.InferenceSession(request.out, QUIET, providers=PROVIDERS)
        wanted = {spec.name for spec in session.get_inputs()}
        feeds = {n: tensors.to_numpy(t) for n, t in zip(names, given, strict=True) if n in wanted}
        return session.run(None, feeds), path


def _translated(request: export.Request) -> str:
    try:
        program, reasons = export.trace(request)
        if program is None:
            raise ValueError(reasons)
        options = {"opset_version": request.opset, "optimize": True}
        model = export.translate(program, request.specs, request.names(), False, **options)
    except Exception as error:
        raise Untranslated from error
    export.write(model, request.specs, "model.", request.out, request)
    return "dynamo"


def _compared(
    expected: Sequence[torch.Tensor], got: Sequence[np.ndarray], path: str
) -> dict[str, Any]:
    worst = 0.0
    for tensor, array in zip(expected, got, strict=True):
        want = tensors.to_numpy(tensor)
        if want.shape != array.shape or want.dtype != array.dtype:
            why = f"{want.dtype}{list(want.shape)} became {array.dtype}{list(array.shape)}"
            return {"result": "form", "why": why, "path": path}
        worst = max(worst, _apart(want, array))
    return {"result": "same" if worst <= LIMIT else "other", "apart": worst, "path": path}


def _apart(want: np.ndarray, got: np.ndarray) -> float:
    """The largest difference over the largest finite value; infinite where NaN or infinity are
    elsewhere."""
    if not want.size:
        return 0.0
    one, other = want.astype(np.float64), got.astype(np.float64)
    finite = np.isfinite(one)
    if not np.array_equal(one[~finite], other[~finite], equal_nan=True):
        return math.inf
    if not np.isfinite(other[finite]).all():
        return math.inf
    if not finite.any():
        return 0.0
    scale = max(float(np.abs(one[finite]).max()), 1e-30)
    return float(np.abs(one[finite] - other[finite]).max()) / scale
