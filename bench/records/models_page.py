"""docs/records/winml.md and onnx2tf.md: others' lists of models beside ours."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from bench.measure import where
from bench.records.lists import Listed, listed
from bench.records.models import TARGETS
from bench.records.pages import PACKAGES, Found, general, table

_HOW = """\
`python -m bench.records {record}` runs the record and goes on where an earlier run ended. Each
architecture is built without files: its framework's own layers, random weights of one seed. Then
`modelyard.convert` converts the live module to ONNX and TFLite in float32, with every check, on two
random samples. *Accurate* means that every gate passed (docs/checking.md). *Gates missed* means
that `convert` ends with 4 and leaves no artifact. Random weights say nothing of accuracy on a task.
They do say whether a conversion gives what the framework gives.
"""
_HEADS = {
    "winml": """\
# winml-cli's model-task pairs

winml-cli publishes a list of 230 pairs of a model and a task, and what its own run on the CPU made
of each: 169 built ("PASS"). Here an architecture and a class of transformers is one case. It counts
for all pairs of that architecture whose task the class does. Models of transformers are made small:
two layers, 64 wide, where the configuration has such a setting. What has no setting keeps the
configuration's default. A model that generates is one step of its decoder without a cache.
""",
    "onnx2tf": """\
# onnx2tf's models

onnx2tf publishes a list of 420 ONNX files and what its own run made of each. {theirs}. The files
aren't part of the list, and a name alone doesn't say what a file holds. So this record has those
files only whose name is a published architecture that torchvision, timm or transformers builds:
{built} files, at the framework's own sizes but for transformers' models, which are small. It starts
from PyTorch, not from the file.
""",
}


def page(record: str, found: Found) -> Iterator[str]:
    """The page's lines."""
    lines = listed(record)
    theirs = Counter(item.theirs for item in lines)
    said = ", ".join(f"{n} {word}" for word, n in theirs.most_common())
    built = sum(bool(item.name) for item in lines)
    yield from _HEADS[record].format(theirs=said, built=built).splitlines()
    yield from ("", *_HOW.format(record=record).splitlines(), "")
    yield where(*PACKAGES, "transformers", "timm", "torchvision")
    yield from ("", "## In numbers", "", *_totals(lines, found))
    yield from ("", "## What isn't accurate", "", *reasons(lines, found))
    yield from ("", "## Not among the cases", "", *_left_out(lines, found))
    yield from ("", "## Each case", "", *_cases(record, lines, found))


def _states(found: Found, name: str, target: str) -> tuple[str, str]:
    item = found.get(name)
    if item is None:
        return "not run", ""
    if said := item.get("unbuilt"):
        return "not built by its framework", said
    if said := item.get("crashed"):
        return "failed", said
    state, why, *_ = item["targets"][target]
    return state, why


def _totals(lines: list[Listed], found: Found) -> Iterator[str]:
    counts = {t: Counter(_states(found, i.name, t)[0] for i in lines if i.name) for t in TARGETS}
    states = sorted({state for count in counts.values() for state in count})
    rows = [(t, sum(bool(i.name) for i in lines), *(counts[t][s] for s in states)) for t in TARGETS]
    yield from table(("target", "of the list", *states), rows)
    names = {item.name for item in lines if item.name}
    run = [name for name in names if name in found]
    yield f"\nThat is {len(names)} cases, {len(run)} of them run."


def reasons(lines: list[Listed], found: Found) -> Iterator[str]:
    """The lines on what isn't accurate."""
    groups: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    count: Counter[tuple[str, str, str]] = Counter()
    for item in lines:
        for target in TARGETS if item.name else ():
            state, why = _states(found, item.name, target)
            if state not in ("accurate", "not run"):
                key = (target, state, general(why))
                groups[key].add(item.name)
                count[key] += 1
    if not groups:
        yield "None."
        return
    rows = [
        (*key, count[key], ", ".join(sorted(names)))
        for key, names in sorted(groups.items(), key=lambda group: (-count[group[0]], group[0]))
    ]
    yield from table(("target", "state", "because", "lines of the list", "cases"), rows)


def _left_out(lines: list[Listed], found: Found) -> Iterator[str]:
    count = Counter(item.why for item in lines if not item.name)
    yield from table(("lines of the list", "because"), [(n, w) for w, n in count.most_common()])


def _cases(record: str, lines: list[Listed], found: Found) -> Iterator[str]:
    groups: dict[str, list[Listed]] = defaultdict(list)
    for item in lines:
        if item.name:
            groups[item.name].append(item)
    rows = []
    for name, items in sorted(groups.items()):
        theirs = ", ".join(
            f"{n} {word}" for word, n in Counter(item.theirs for item in items).most_common()
        )
        item = found.get(name, {})
        rows.append(
            (name, len(items), theirs, *(_told(found, name, t) for t in TARGETS),
             item.get("size", ""), f"{item.get('parameters', 0):,}", item.get("seconds", ""))
        )  # fmt: skip
    head = ("case", "lines", "theirs", *TARGETS, "size", "parameters", "s")
    yield from table(head, rows)


def _told(found: Found, name: str, target: str) -> str:
    state, _ = _states(found, name, target)
    cosine = found.get(name, {}).get("targets", {}).get(target, ["", "", None])[2:]
    return f"{state} ({cosine[0]:.7f})" if cosine and cosine[0] is not None else state
