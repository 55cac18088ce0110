"""``python -m bench.arguments``: whether each argument of PyTorch's operators reaches the graph.

For each operator that has a translation (torch's, or one in parsers/pytorch/child), calls in which
an argument counts (:mod:`bench.arguments_calls`) run eager, and as the ONNX file that ``convert``
would write, in ONNX Runtime. With --theirs, what torch's translations alone give, for operators
that are translated here. Writes docs/arguments.md. PyTorch's samples need the package expecttest.
"""

from __future__ import annotations

import json
import math
import pickle
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import onnxruntime
import torch
import torch.ao.quantization.fx._decomposed  # brings in its operators
from torch.utils._pytree import tree_flatten

from bench import arguments_calls, arguments_page
from bench.arguments_calls import Call
from parsers.pytorch.child import export, signature, tensors, translations
from parsers.pytorch.child.examples import Examples
from parsers.pytorch.child.flatten import Flat
from parsers.worker.errors import WorkerError

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build" / "arguments"
LIMIT = 1e-4
"""Of the largest value; what differs by more is no rounding."""

USED = {"batch_norm": 1, "native_layer_norm": 1, "native_group_norm": 1, "nll_loss": 1, "unique": 1}
"""How many outputs are held against eager: others are for gradients, or not asked for."""

UNSET = ("empty",)
"""Operators whose values are anything."""

FAILURES = 2
"""Calls of an operator that TorchScript's exporter tries after the first failed alike."""

OPSET = 20
TOGETHER = 20
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
        return tuple(t for call in self.calls for t in _tensors(call, call.on(rest)))


def _tensors(call: Call, result: Any) -> list[torch.Tensor]:
    """What a model makes use of."""
    leaves = tree_flatten(result)[0]
    used = next((n for name, n in USED.items() if name in call.target.name()), None)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)][:used]


def operators() -> dict[str, Any]:
    """Every operator that has a translation, by its name."""
    from torch.onnx._internal.exporter._registration import ONNXRegistry

    found = {
        name: metas[0].fx_target
        for name, metas in ONNXRegistry.from_torchlib(OPSET).functions.items()
        if isinstance(metas[0].fx_target, torch._ops.OpOverload)
    }
    found.update({target.name(): target for target in translations.table()})
    return {name: t for name, t in found.items() if not t._schema.is_mutable}


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
    elif _kind(calls[0]) != _PLAIN:
        result = _alone(calls[0], failed)
        if result["result"] == "same":
            result = {"result": "fails", "why": "some of these calls"}
        yield from (result for _ in calls)
    else:
        half = (len(calls) + 1) // 2
        yield from _halved(calls[:half], failed)
        yield from _halved(calls[half:], failed)


_PLAIN = (True, True)


def _kind(call: Call) -> tuple[bool, bool]:
    """Whether it is about floats, and about tensors that have axes."""
    first = call.tensors()[:1]
    return all(t.is_floating_point() for t in first), all(t.dim() for t in first)


def _together(calls: Sequence[Call]) -> list[dict[str, Any]] | None:
    expected = [_tensors(call, call.run()) for call in calls]
    try:
        got, path = _exported(calls, whole=False)
    except Exception:  # each alone says what it is
        return None
    rest = iter(got)
    return [_compared(outputs, [next(rest) for _ in outputs], path) for outputs in expected]


def _alone(call: Call, failed: Mapping[str, int]) -> dict[str, Any]:
    expected = _tensors(call, call.run())
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


def _read_once() -> None:
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


def audit(wanted: dict[str, Any], known: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What became of each operator's calls."""
    calls = _collected(known)
    for name, target in wanted.items():
        if torch.Tag.nondeterministic_seeded in target.tags or any(n in name for n in UNSET):
            yield {"name": name, "random": True, "calls": []}
            continue
        yield one(name, target, calls[name])


def _collected(wanted: dict[str, Any]) -> dict[str, list[Call]]:
    """Calls of all operators; kept in build/arguments/calls.pickle."""
    path = FOLDER / "calls.pickle"
    if not path.exists():
        found = arguments_calls.collect(wanted)
        kept = {name: [(c.args, c.kwargs) for c in calls] for name, calls in found.items()}
        path.write_bytes(pickle.dumps(kept))
    loaded = pickle.loads(path.read_bytes())
    calls = {
        name: [arguments_calls.made(target, *each) for each in loaded.get(name, ())]
        for name, target in wanted.items()
    }
    for call in arguments_calls.written():
        calls[call.target.name()].append(call)
    return calls


def one(name: str, target: Any, calls: list[Call]) -> dict[str, Any]:
    """One operator's calls, and what each gave."""
    added, left = arguments_calls.complete(target, calls)
    told = []
    for part in _parts([call for call in [*calls, *added] if _runs(call)]):
        for call, result in zip(part, check(part), strict=True):
            given = {n: _told(v) for n, v in call.given.items()}
            effect = [n for n in call.given if _counts(call, n)]
            shown = [_told(a) for a in (*call.args, *call.kwargs.items())]
            told.append({"given": given, "counts": effect, "call": shown, **result})
    return {"name": name, "calls": told, "left": left, "made": [*_names(added)]}


def _parts(calls: Sequence[Call]) -> Iterator[list[Call]]:
    """Calls that go into one model: of one kind of numbers, for ONNX Runtime lacks many whole."""
    kinds: dict[Any, list[Call]] = {}
    for call in calls:
        kinds.setdefault(_kind(call), []).append(call)
    for alike in kinds.values():
        yield _chosen(alike)


def _chosen(calls: list[Call]) -> list[Call]:
    """Not more than go into one model, each value of an argument in one, as far as may be."""
    seen: set[Any] = set()
    first = []
    for call in calls:
        kinds = {*arguments_calls.kinds(call)[1:]}
        if not kinds <= seen:
            first.append(call)
            seen |= kinds
    rest = [call for call in calls if not any(call is other for other in first)]
    return [*first, *rest][:TOGETHER]


def _names(calls: Sequence[Call]) -> Iterator[str]:
    for call in calls:
        yield from call.given


def _runs(call: Call) -> bool:
    try:
        return bool(_tensors(call, call.run()))
    except Exception:  # a sample of what is refused
        return False


def _counts(call: Call, name: str) -> bool:
    try:
        return arguments_calls.counts(call, name)
    except Exception:  # the default doesn't fit the rest
        return True


def _told(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype)[6:]}{list(value.shape)}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_told, value))}]"
    return str(value)


def _kept(name: str = "found") -> Path:
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"{name}.jsonl"
    path.touch()
    return path


def _read(path: Path) -> dict[str, Any]:
    """What was found last of each operator."""
    return {item["name"]: item for item in map(json.loads, path.read_text().splitlines())}


def _by_torch_alone() -> list[str]:
    """Takes our translations away; gives the names of their operators."""
    names = [*(target.name() for target in translations.table()), *translations.DECOMPOSED]
    translations.table, translations.DECOMPOSED = dict, ()
    translations.require_read = lambda *_: None
    return names


@click.command()
@click.argument("names", nargs=-1)
@click.option("--theirs", is_flag=True, help="By torch's translations alone.")
@click.option("--page", "page_alone", is_flag=True, help="Only writes the page.")
def run(names: tuple[str, ...], theirs: bool, page_alone: bool) -> None:
    """Audits the operators NAMES (aten::avg_pool2d), or all; build/arguments/found.jsonl has those
    that aren't run again. Writes docs/arguments.md."""
    warnings.simplefilter("ignore")
    torch.set_grad_enabled(False)
    torch.set_num_threads(1)
    _read_once()
    path = _kept("theirs" if theirs else "found")
    known = operators()
    wanted = names or (_by_torch_alone() if theirs else [*known])
    wanted = [name for name in wanted if name in known and (names or name not in _read(path))]
    with path.open("a") as file:
        for found in () if page_alone else audit({name: known[name] for name in wanted}, known):
            file.write(json.dumps(found) + "\n")
            file.flush()
    text = arguments_page.page(*(_read(_kept(name)) for name in ("found", "theirs")))
    (ROOT / "docs" / "arguments.md").write_text(text)


if __name__ == "__main__":
    run()
