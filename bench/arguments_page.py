"""docs/arguments.md, out of what :mod:`bench.arguments` found."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from bench.measure import where
from parsers.pytorch.child.translations import unread

Found = Mapping[str, Mapping[str, Any]]
ROUNDING = 1e-5
PACKAGES = ("torch", "onnxscript", "onnx", "onnxruntime-gpu")


def page(ours: Found, theirs: Found) -> str:
    """The page's text.

    Args:
        ours: By operator, what became of its calls as ``convert`` translates them.
        theirs: The same by torch's translations alone, of operators that are translated here.
    """
    calls = sum(len(item["calls"]) for item in ours.values())
    judged = {(name, a) for name, item in ours.items() for a in _counting(item)}
    lines = [
        "# Arguments of PyTorch's operators",
        "",
        "`python -m bench.arguments` makes this page. It calls each operator that torch or "
        "Modelyard translates to ONNX, as PyTorch's own samples (OpInfo) call it. Where the "
        "samples leave an argument at its default, another call has another value. Each call runs "
        "eager, and in ONNX Runtime as the ONNX that `convert` writes. An argument counts in a "
        "call if its default changes the eager result. A difference is the largest one over the "
        "largest value.",
        "",
        f"There are {len(ours)} operators, {calls} calls, and {len(judged)} arguments that count "
        "in a call.",
    ]
    for head, text, rows in (
        ("Translated by Modelyard", _OURS, _translated(ours, theirs)),
        ("Another result than eager's", _OTHER, _others(ours)),
        ("No file, and a reason", _REFUSED, _refused(ours)),
        ("Arguments that no translation reads, and that don't matter", _DULL, _dull()),
        ("Arguments that no call shows", _UNSEEN, _unseen(ours)),
        ("Not held against eager", _SKIPPED, _skipped(ours)),
        ("As eager", _SAME, _same(ours)),
    ):
        listed = [*rows]
        lines += ["", f"## {head}", "", text, "", *(listed or ["None."])]
    return "\n".join([*lines, "", where(*PACKAGES), ""])


_OURS = "torch's own translation of these operators loses an argument, or gives another result."
_OTHER = "For these calls, the file of `convert` gives another result than eager. The check of "\
    "`convert` sees it where the samples show it."  # fmt: skip
_REFUSED = "The exporter or ONNX Runtime refuses these calls. `convert` then ends with that error."
_DULL = "If a model gives any other argument that no translation reads, Modelyard refuses the "\
    "model and names the argument (`parsers/pytorch/child/translations/unread.py`)."  # fmt: skip
_UNSEEN = "No value that was tried changes the eager result."
_SKIPPED = "These operators give random numbers, which Modelyard refuses in outputs, or no call "\
    "was found for them."  # fmt: skip
_SAME = "Each call gives eager's result within rounding. The brackets name the arguments that "\
    "count in a call."  # fmt: skip


def _counting(item: Mapping[str, Any]) -> list[str]:
    return sorted({name for call in item["calls"] for name in call["counts"]})


def _rest(ours: Found, kind: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, item in sorted(ours.items()):
        for call in item["calls"]:
            if call["result"] == kind:
                yield name, call


def _shown(call: Mapping[str, Any]) -> str:
    return ", ".join(call["call"]).replace("|", "\\|")[:120]


def _worst(item: Mapping[str, Any] | None, argument: str) -> str:
    """The largest difference in calls in which an argument counts."""
    calls = [c for c in (item or {}).get("calls", ()) if not argument or argument in c["counts"]]
    kinds = {c["result"] for c in calls}
    if not calls:
        return "-"
    told = [text for kind, text in _TOLD.items() if kind in kinds]
    apart = max((c["apart"] for c in calls if "apart" in c), default=None)
    return ", ".join(([] if apart is None else [f"{apart:.2g}"]) + told)


_TOLD = {"form": "another shape or type", "fails": "no file", "refused": "refused"}


def _translated(ours: Found, theirs: Found) -> Iterator[str]:
    yield "| operator | argument | torch's translation | here |"
    yield "|---|---|---|---|"
    alike = []
    for name in sorted(theirs):
        pairs = {
            argument: [_worst(found[name], argument) for found in (theirs, ours)]
            for argument in [*_counting(ours[name]), ""]
        }
        changed = {argument: pair for argument, pair in pairs.items() if _differ(*pair)}
        if len(changed) > 1:
            changed.pop("", None)
        for argument, (before, after) in changed.items():
            yield f"| {name} | {argument or 'any'} | {before} | {after} |"
        alike += [] if changed else [name]
    yield ""
    yield f"Modelyard also translates these, though no call shows a difference: {', '.join(alike)}."


def _differ(before: str, after: str) -> bool:
    """Whether rounding isn't all that differs."""

    def known(text: str) -> list[str]:
        return [t for t in text.split(", ") if not (t[:1].isdigit() and float(t) < ROUNDING)]

    return known(before) != known(after)


_BAGS = "all four results; the first alone, which is what torch.nn gives, is eager's"

NOTES = {
    "aten::topk": "equal numbers, or an order that wasn't asked for",
    "aten::_embedding_bag_forward_only": _BAGS,
    "aten::embedding_bag.padding_idx": _BAGS,
    "aten::sigmoid": "ONNX Runtime's own rounding, 5e-8 of 1",
    "aten::silu": "ONNX Runtime's own rounding, 5e-8 of 1",
    "aten::nonzero": "of a scalar",
}
"""Why results differ, where that is known."""


def _others(ours: Found) -> Iterator[str]:
    rows = [*_rest(ours, "other"), *_rest(ours, "form")]
    if rows:
        yield "| operator | call | difference | why |"
        yield "|---|---|---|---|"
    for name, call in rows:
        what = call.get("why") or f"{call['apart']:.2g}"
        yield f"| {name} | {_shown(call)} | {what} | {NOTES.get(name, '')} |"


def _refused(ours: Found) -> Iterator[str]:
    yield from _by_operator([*_rest(ours, "refused"), *_rest(ours, "fails")])


def _by_operator(rows: Sequence[tuple[str, Mapping[str, Any]]]) -> Iterator[str]:
    seen: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for name, call in rows:
        words = re.sub(r"Load model from \S+ failed:", "", " ".join(call["why"].split()))
        why = words[:160].replace("|", "\\|")
        seen.setdefault((name, why[:60]), []).append({**call, "why": why})
    for (name, _), calls in sorted(seen.items()):
        yield f"- {name}, {len(calls)} calls such as ({_shown(calls[0])}): {calls[0]['why']}"


def _dull() -> Iterator[str]:
    yield "| operator | argument | why |"
    yield "|---|---|---|"
    for name, why in unread.NO_MATTER.items():
        yield f"| any | {name} | {why} |"
    for (operator, name), why in sorted(unread.NO_MATTER_HERE.items()):
        yield f"| {operator} | {name} | {why} |"


def _unseen(ours: Found) -> Iterator[str]:
    for name, item in sorted(ours.items()):
        seen = _counting(item)
        left = [
            argument
            for argument in {*item.get("left", ()), *_given(item)}
            if argument not in seen and argument not in unread.NO_MATTER
        ]
        if item["calls"] and left:
            yield f"- {name}: {', '.join(sorted(left))}"


def _given(item: Mapping[str, Any]) -> set[str]:
    return {name for call in item["calls"] for name in call["given"]}


def _skipped(ours: Found) -> Iterator[str]:
    def of(test: Callable[[Mapping[str, Any]], Any]) -> str:
        return ", ".join(name for name, item in sorted(ours.items()) if test(item))

    yield f"Random: {of(lambda item: item.get('random'))}."
    yield ""
    yield f"No call: {of(lambda item: not item['calls'] and not item.get('random'))}."


def _same(ours: Found) -> Iterator[str]:
    texts = []
    for name, item in sorted(ours.items()):
        if item["calls"] and {call["result"] for call in item["calls"]} == {"same"}:
            counted = _counting(item)
            texts.append(f"{name} ({', '.join(counted)})" if counted else name)
    yield "; ".join(texts) + "."
