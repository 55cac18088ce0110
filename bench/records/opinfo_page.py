"""docs/records/opinfo.md: PyTorch's OpInfo to each target."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from bench.measure import where
from bench.records.opinfo import COUNT, TARGETS
from bench.records.opinfo_calls import OF_LARGEST, RELATIVE, ROUNDED, names
from bench.records.pages import PACKAGES, Found, block, general, table

STATES = {
    "ok": "gives what eager gives",
    "refused": "refused, with the reason",
    "wrong": "runs, and gives something else",
    "failed": "an error that isn't a refusal",
}
_HEAD = f"""\
# PyTorch's OpInfo

PyTorch tests each of its operators on samples of its own (OpInfo, `op_db`). Here such samples go to
each target. `python -m bench.records opinfo` runs them and goes on where an earlier run ended.

- A sample becomes a module. Its tensors are the module's inputs. All else is constant.
- The module becomes an ONNX file as `convert` writes it. The file is read and simplified by
  Modelyard's own passes. None of the passes is verified, so no wrong result is taken back.
- ONNX Runtime has to run that graph, as `convert` demands. A sample that it doesn't run counts as
  refused for every target, with `source: ` before the reason.
- The target's file is written, opened from disk and run in the target's runtime. (Core ML's runs in
  Modelyard's own interpreter, because there is no Core ML on Linux.)
- The outputs are compared with eager: dtype and shape exactly, integers and booleans exactly, NaN
  and infinity at the same places. A float may be off by {RELATIVE:g} of itself, and by
  {OF_LARGEST:g} of its output's largest value. Where rounding the inputs moves eager's own output,
  {ROUNDED} times that movement is allowed as well.

Samples of an operator: at most {", ".join(f"{n} in {d}" for d, n in COUNT.items())}, which differ
in ranks, dtypes and given arguments. Samples with empty, complex, sparse or quantized tensors are
left out. So are samples on which two runs of eager differ.
"""


def page(found: Found) -> Iterator[str]:
    """The page's lines."""
    yield from _HEAD.splitlines()
    yield from ("", where(*PACKAGES, "coremltools", "openvino"), "")
    yield from _coverage(found)
    yield from ("", "## Operators by target", "")
    yield from _totals(found)
    for state, title in (("wrong", "Wrong"), ("failed", "Errors"), ("refused", "Refused")):
        yield from ("", f"## {title}", "", *_reasons(found, state))
    yield from ("", "## Each operator", "", *_operators(found))


def _coverage(found: Found) -> Iterator[str]:
    for dtype in COUNT:
        every = names((dtype,))
        run = [found[name] for name in every if name in found]
        fit = [item for item in run if "samples" in item]
        crashed = sum("crashed" in item for item in run)
        why = Counter(general(item["unfit"]).split(":")[0] for item in run if "unfit" in item)
        said = "; ".join(f"{n} {reason}" for reason, n in why.most_common(6))
        count = sum(len(item["samples"]) for item in fit)
        yield (
            f"- {dtype}: {len(run)} of {len(every)} operators were run. {len(fit)} have samples "
            f"({count}), {crashed} ended their process. Left out: {said or 'none'}."
        )


def _states(item: Mapping[str, list[Mapping[str, list[str]]]], target: str) -> Counter[str]:
    return Counter(sample[target][0] for sample in item["samples"] if target in sample)


def _totals(found: Found) -> Iterator[str]:
    yield "An operator counts as ok where all its samples are."
    for dtype in COUNT:
        run = [i for n, i in found.items() if n.endswith(f":{dtype}") and "samples" in i]
        if not run:
            continue
        rows = []
        for target in TARGETS:
            states = [states for item in run if (states := _states(item, target))]
            total = sum(states, Counter())
            whole = sum(set(s) == {"ok"} for s in states)
            some = sum("ok" in s and len(s) > 1 for s in states)
            rows.append((target, len(states), whole, some, *(total[s] for s in STATES)))
        head = ("target", "operators", "all ok", "some ok", *(f"samples {s}" for s in STATES))
        yield from ("", f"### {dtype}", "", *table(head, rows))


def _reasons(found: Found, state: str) -> Iterator[str]:
    groups: dict[tuple[str, str], set[str]] = defaultdict(set)
    for name, item in found.items():
        for sample in item.get("samples", ()):
            for target, (is_in, why) in sample.items():
                if is_in == state:
                    at = "all" if why.startswith("source:") else target
                    groups[at, general(why.removeprefix("source: "))].add(name)
    if not groups:
        yield "None."
        return
    ordered = sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))
    rows = [
        (
            target,
            len(names),
            why,
            ", ".join(sorted(names)[:4]) + (", ..." if len(names) > 4 else ""),
        )
        for (target, why), names in ordered[:150]
    ]
    yield from table(("target", "operators", "because", "such as"), rows)
    if len(ordered) > 150:
        yield f"\n{len(ordered) - 150} more reasons are in build/records/opinfo.jsonl."


def _operators(found: Found) -> Iterator[str]:
    yield "Samples that are ok, of those that were run; a dash where all are."
    rows, whole = [], []
    for name, item in sorted(found.items()):
        if "samples" not in item:
            continue
        states = {target: _states(item, target) for target in TARGETS}
        if all(set(s) <= {"ok"} for s in states.values()):
            whole.append(name)
            continue
        rows.append((name, *(_cell(states[target]) for target in TARGETS)))
    yield from ("", *table(("operator", *TARGETS), rows), "")
    yield from ("All samples of these are ok in every target:", "", *block(whole))


def _cell(states: Counter[str]) -> str:
    if set(states) <= {"ok"}:
        return "-" if states else ""
    bad = "".join(f", {n} {s}" for s, n in states.items() if s in ("wrong", "failed"))
    return f"{states['ok']}/{states.total()}{bad}"
