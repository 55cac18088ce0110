"""``python -m bench.arguments``: whether each argument of PyTorch's operators reaches the graph.

For each operator that has a translation (torch's, or one in parsers/pytorch/child), calls in which
an argument counts (:mod:`bench.arguments_calls`) run eager, and as the ONNX file that ``convert``
would write, in ONNX Runtime. With --theirs, what torch's translations alone give, for operators
that are translated here. Writes docs/arguments.md. PyTorch's samples need the package expecttest.
"""

from __future__ import annotations

import json
import pickle
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import torch
import torch.ao.quantization.fx._decomposed  # brings in its operators

from bench import arguments_calls, arguments_page
from bench.arguments_calls import Call
from bench.arguments_run import OPSET, check, kind, outputs, read_once
from bench.arguments_written import written
from parsers.pytorch.child import translations

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build" / "arguments"
UNSET = ("empty",)
"""Operators whose values are anything."""

TOGETHER = 20
"""Calls in one model."""


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
    for call in reversed([*written()]):
        calls[call.target.name()].insert(0, call)
    return calls


def one(name: str, target: Any, calls: list[Call]) -> dict[str, Any]:
    """One operator's calls, and what each gave.

    Args:
        name: The operator's.
        target: The operator.
        calls: Out of PyTorch's samples; more are made.
    """
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
        kinds.setdefault(kind(call), []).append(call)
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
        return bool(outputs(call, call.run()))
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
    read_once()
    path = _kept("theirs" if theirs else "found")
    known = operators()
    every = _by_torch_alone() if theirs else [*known]
    wanted = names or every
    wanted = [name for name in wanted if name in known and (names or name not in _read(path))]
    with path.open("a") as file:
        for found in () if page_alone else audit({name: known[name] for name in wanted}, known):
            file.write(json.dumps(found) + "\n")
            file.flush()
    text = arguments_page.page(*(_read(_kept(name)) for name in ("found", "theirs")))
    (ROOT / "docs" / "arguments.md").write_text(text)


if __name__ == "__main__":
    run()
