"""Writes docs/conformance.md: a section a target, each from a run with its versions."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from converter.machine import describe_machine
from tests.conformance.cases import Store, versions
from tests.conformance.outcome import STATES, counts
from tests.conformance.selection import SELECTIONS, selection_of
from tests.conformance.tables import (
    OWED,
    Run,
    by_operator,
    by_reason,
    owed,
    states_of,
    with_constants,
)

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "conformance.md"

_PACKAGES = {"tflite": "ai-edge-litert", "coreml": "coremltools", "savedmodel": "tensorflow"}
"""The others' are called as the target is."""
_COMMON = ("modelyard", "onnx", "onnxruntime", "onnxruntime-gpu", "numpy")
_SECTION = re.compile(r"^## (\S+)\n.*?(?=^## |\Z)", re.M | re.S)

_HEAD = """\
# Conformance

The official ONNX node tests (`onnx.backend.test.case.node`) run through Modelyard's targets:

1. Modelyard reads a case as the pipeline reads a model: it completes names, converts to the
   pipeline's opset and repairs shapes. No simplifying pass runs.
2. The target writes its artifact. The target's own runtime opens that from disk and runs it.
3. The outputs are compared with the case's, at onnx's own tolerances: relative 1e-3, absolute 1e-7.
   Integers, booleans, strings, dtypes and shapes must be equal.

`python -m tests.conformance --target TARGET --write` makes a section anew.

A case has one of these states:

{states}

The official cases pass every tensor as an input at run time. Networks hold many of these tensors as
constants. If a target refuses a case, the case is tried again with such inputs as initializers:
first shapes, axes, pads, counts and limits, and then weights too. `tests/conformance/parameters.py`
has the rule, by the names of the operators' schemas. *constant* counts the cases that a target
takes only in this form.

An operator's row holds its own cases, and the cases called `..._expanded`, in which ONNX writes the
operator with other operators. The machine is shared, so times are orders of magnitude.
"""

_SHOWN_REASONS = 60


def write(store: Store, runs: list[Run]) -> None:
    """Writes the sections of these runs; the page keeps those of other targets."""
    old = PAGE.read_text() if PAGE.exists() else ""
    sections = {match[1]: match[0].strip() for match in _SECTION.finditer(old)}
    for run in runs:
        sections[run.target] = "\n".join(_section(store, run)).strip()
    states = "\n".join(f"- **{name}**: {meaning};" for name, meaning in STATES.items())
    head = _HEAD.format(states=states[:-1] + ".")
    page = [head.strip(), *(sections[name] for name in sorted(sections))]
    PAGE.write_text("\n\n".join(page) + "\n")


def _section(store: Store, run: Run) -> Iterator[str]:
    machine = describe_machine()
    made_by = versions(*_COMMON, _PACKAGES.get(run.target, run.target))
    said = ", ".join(f"{name} {number}" for name, number in made_by.items())
    selection = SELECTIONS[selection_of(run.target)]
    yield from (f"## {run.target}", "")
    yield f"`python -m tests.conformance --target {run.target} --write`; {said}."
    yield f"{len(run.outcomes):,} of {len(store.cases):,} cases: {selection}."
    if len(run.cases) < len(store.cases):
        yield _left_out(store, run)
    yield f"{run.seconds:.0f} s on {machine.cpu}, {machine.usable:g} CPUs."
    for table in (_totals(run), _operators(run), _reasons(run)):
        yield from ("", *table)
    yield ""


def _left_out(store: Store, run: Run) -> str:
    """Why cases aren't among those that this target is held to."""
    taken = {case.name for case in run.cases}
    special = Counter(c.special for c in store.cases.values() if c.special and c.name not in taken)
    others = len(store.cases) - len(taken) - special.total()
    parts = [f"{count} {reason}" for reason, count in special.most_common()]
    parts += [f"{others} that ONNX Runtime itself refuses or gets wrong"] * bool(others)
    return f"Left out: {'; '.join(parts)}."


def _totals(run: Run) -> Iterator[str]:
    found = counts(run.outcomes)
    yield from ("| state | cases |", "|---|---|")
    for state in states_of(run):
        yield f"| {state} | {found[state]:,} |"
        if state == "refused" and run.target in OWED:
            yield f"| *of these, what {OWED[run.target][0]} itself lacks* | {len(owed(run)):,} |"
    if taken := with_constants(run.outcomes):
        yield f"| *constant* | {len(taken):,} |"


def _operators(run: Run) -> Iterator[str]:
    states, constant = states_of(run), bool(with_constants(run.outcomes))
    head = ["operator", *states, *(["*constant*"] * constant)]
    yield from (f"| {' | '.join(head)} |", f"|{'---|' * len(head)}")
    for op, found, needed in by_operator(run.outcomes):
        cells = [*(str(found[state] or "") for state in states), *([str(needed or "")] * constant)]
        yield f"| {' | '.join([op, *cells])} |"


def _reasons(run: Run) -> Iterator[str]:
    reasons = by_reason(run.outcomes)
    if reasons:
        yield from ("| cases | refused or unreadable because |", "|---|---|")
    for reason, group in reasons[:_SHOWN_REASONS]:
        text = " ".join(reason.split()).replace("|", "\\|").replace("<", "&lt;")
        yield f"| {len(group)} | {text if len(text) <= 300 else text[:297] + '...'} |"
    if rest := sum(len(group) for _, group in reasons[_SHOWN_REASONS:]):
        yield f"| {rest} | others; `--list-refused` shows all |"
