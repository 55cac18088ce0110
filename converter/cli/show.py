"""What commands print: progress on stderr while they work, the result on stdout at the end."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from converter.cli.errors import debugging, say
from converter.cli.printing import echo, echo_json
from converter.commands.progress import Progress
from converter.errors import PartlyError
from converter.files import output_guard
from converter.text import words
from converter.text.screen import Console, Text

if TYPE_CHECKING:
    from converter.api import Benchmark, Checked, Converted
    from converter.check.latency import LatencyResult
    from converter.commands.inspect import Inspection
    from converter.commands.load import ServerBenchmark
    from converter.commands.sweep import Swept
    from converter.report.compared import Compared
    from converter.report.model import Report
    from converter.report.overview import Entry

    Inspected = Inspection | Mapping[str, Any]


def show_conversion(convert: Callable[[Progress], Converted], as_json: bool) -> None:
    """Converts, and shows what came of it: where some of it missed a gate, before the error."""
    try:
        with Progress() as progress:
            result = convert(progress)
    except PartlyError as error:
        if not as_json:
            show_result(error.converted, as_json)
        raise
    show_result(result, as_json)


def show_result(result: Converted, as_json: bool) -> None:
    """The short table of a conversion, or its report as JSON; for a dry run its plan."""
    if as_json:
        echo_json(result.as_dict())
    elif result.report is None:
        _show_plan(result)
    else:
        from converter.report.terminal import print_report

        print_report(result.report, _console())
        if debugging():
            _show_misses(result.report)
        echo(f"report: {result.out / 'report.html'}")


def show_overview(entries: Sequence[Entry]) -> None:
    """What came of several recipes, a line each."""
    from converter.report.overview import as_table

    _console().print(as_table(entries))


def show_compared(compared: Compared, page: Path, as_json: bool) -> None:
    """Prints a row for each artifact, what to ship and what changed.

    Args:
        compared: The artifacts of all runs.
        page: Where the page was written, which the last line names.
        as_json: Whether all of it is printed as JSON instead.
    """
    from converter.report.compared_text import as_terminal

    if as_json:
        echo_json({**compared.model_dump(mode="json"), "page": str(page)})
        return
    _console().print(as_terminal(compared))
    echo(f"report: {page}")
    if (logged := compared.logged) is not None:
        echo(f"MLflow: {len(logged.runs)} runs in {logged.where}")
        if logged.model:
            echo(f"registered: {logged.registered or 'nothing, since nothing meets the need'}")


def show_sweep(made: Swept, as_json: bool) -> None:
    """The comparison of a sweep's cells, and the errors of those that failed; of a dry run, the
    cells."""
    if as_json:
        echo_json(made.as_dict())
        return
    if made.page is not None:
        show_compared(made.report, made.page, as_json)
        alike: dict[str, list[str]] = {}
        for name, error in made.errors.items():
            alike.setdefault(str(error), []).append(name)
        for cells in alike.values():
            echo(output_guard.listed(cells), bold=True, err=True)
            say(made.errors[cells[0]])
        return
    echo(f"{len(made.report.cells)} combinations would be made in {made.out}:")
    for cell in made.report.cells:
        said = (cell.error or {}).get("message") if cell.state == "failed" else ""
        echo(f"  {cell.name}{' (there already)' if cell.kept else ''}{f': {said}' if said else ''}")


def _show_misses(report: Report) -> None:
    """What the fusing passes found and left alone, by pass and reason, on stderr."""
    grouped: dict[tuple[str, str], dict[str, list[str]]] = {}
    for miss in (miss for part in report.each_part.values() for miss in part.near_misses):
        reasons = grouped.setdefault((miss.name, miss.rule), {})
        reasons.setdefault(miss.reason, []).append(miss.node)
    say = partial(echo, err=True)
    say("passes left nothing alone that looked like a match" if not grouped else "left alone:")
    for (name, rule), reasons in grouped.items():
        say(f"  {name}, {rule}")
        for reason, nodes in reasons.items():
            say(f"    {reason}: {', '.join(nodes)}")


def show_check(result: Checked, as_json: bool) -> None:
    """The accuracy of an artifact, by output, and its gates."""
    if as_json:
        echo_json(result.as_dict())
        return
    console = _console()
    for text in result.flags:
        console.print(Text(text, "bold yellow"))
    console.print(Text(result.based_on))
    table = Table("output", "cosine", "max error", "SQNR", "NaN/Inf", box=None, pad_edge=False)
    for row in result.rows():
        table.add_row(*map(Text, row))
    console.print(table)
    gates = Table("gate", "limit", "value", "", "what decided", box=None, pad_edge=False)
    for gate in result.gate_rows():
        gates.add_row(*map(Text, gate))
    console.print(gates)


def show_bench(result: Benchmark, as_json: bool) -> None:
    """Latencies, a line for each batch size and concurrency."""
    if as_json:
        echo_json(result.as_dict())
        return
    names = ("what", "batch", "callers", "p50 ms", "p95 ms", "p99 ms", "per second", "ratio")
    table = Table(*names, box=None, pad_edge=False)
    for row in result.rows():
        table.add_row(*map(Text, row))
    console = _console()
    if result.latency.points:
        console.print(table)
    show_costs(result.latency, console)


def show_costs(found: LatencyResult, console: Console) -> None:
    """The memory, and the time by operator and by layer."""
    from converter.report import costs

    for name, text in costs.memory_lines(found.memory) if found.memory else ():
        console.print(Text(f"{name:11} {text}"))
    profile = found.profile
    if profile is None:
        return
    if profile.why:
        console.print(Text(f"{'profile':11} not measured: {profile.why}"))
        return
    console.print(Text(f"{'profile':11} {costs.title(profile)}"))
    console.print(Text(f"{'runs on':11} {costs.where_line(profile)}"))
    tables = (costs.BY_OP, costs.op_rows(profile)), (costs.BY_LAYER, costs.layer_rows(profile))
    for names, rows in tables:
        table = Table(*names, box=None, pad_edge=False)
        for row in rows:
            table.add_row(*map(Text, row))
        console.print(table)


def show_load(result: ServerBenchmark, as_json: bool) -> None:
    """A server's latencies, a line for each load, and the best."""
    from converter.commands.load import COLUMNS

    if as_json:
        echo_json(result.as_dict())
        return
    console = _console()
    if result.points:
        console.print(Text(result.server))
        table = Table(*COLUMNS, box=None, pad_edge=False)
        for point in result.points:
            table.add_row(*map(Text, point.row()))
        console.print(table)
    for point in result.points:
        for note in point.notes:
            console.print(Text(f"batch {point.batch}, {point.load}: {note}", "yellow"))
    if result.limit_ms is not None and result.points:
        best, limit = result.best, f"p95 of at most {result.limit_ms:g} ms"
        found = (
            "none"
            if best is None
            else (
                f"batch {best.batch}, {best.load}: {words.number(best.throughput)} samples a second"
            )
        )
        console.print(Text(f"best with a {limit}: {found}"))
    for file in result.written:
        console.print(Text(f"written: {file}"))


def show_inspected(found: Inspected, as_json: bool) -> None:
    """A model's or an artifact's facts."""
    if as_json:
        echo_json(as_dict(found))
    elif isinstance(found, Mapping):
        show_facts(found)
    else:
        show_inspection(found)


def as_dict(found: Inspected) -> Mapping[str, Any]:
    """The same for JSON."""
    return found if isinstance(found, Mapping) else asdict(found)


def show_facts(facts: Mapping[str, Any]) -> None:
    """An artifact's facts, one a line."""
    for name, value in facts.items():
        for index, item in enumerate(value if isinstance(value, list) else [value]):
            echo(f"{name if not index else '':10} {item}")


def show_inspection(found: Inspection) -> None:
    shown = _console()

    def console(text: str, style: str = "") -> None:
        shown.print(Text(text, style))

    domains = "".join(f", {name} {version}" for name, version in found.domains.items())
    shown.print(Text.assemble((found.name, "bold"), f"  {found.format}{domains}"))
    if found.source:
        console(f"from       {_origin(found.source)}", style="dim")
    for title, specs in (("input", found.inputs), ("output", found.outputs)):
        for spec in specs:
            console(f"{title:10} {_describe(spec)}")
    sizes = ", ".join(f"{name}={size}" for name, size in found.sizes.items())
    console(f"weights    {found.parameters:,} parameters, {words.size(found.weight_bytes)}")
    mix = ", ".join(f"{name} {words.percent(share)}" for name, share in found.precisions.items())
    console(f"precision  {mix or 'no weights'}")
    if found.quantization:
        console(f"quantized  {', '.join(f'{name} {n}' for name, n in found.quantization.items())}")
    console(f"work       {_work(found)}" + (f" at {sizes}" if sizes else ""))
    if not found.unread:
        console(f"memory     {_memory(found)}" + (f" at {sizes}" if sizes else ""))
    kinds = {kind for types in found.op_types.values() for kind in types}
    every = f", all {min(kinds)}" if len(kinds) == 1 and kinds != {""} else ""
    ops = (f"{op} {_in_types(types, len(kinds) > 1)}" for op, types in found.op_types.items())
    console(f"nodes      {found.nodes}{every}: {', '.join(ops)}")


def _in_types(types: Mapping[str, int], told: bool) -> str:
    """``3``; where types are told ``3 (int8)``, or ``3 (2 int8, 1 float32)``."""
    if not told:
        return str(sum(types.values()))
    alone = len(types) == 1
    return (
        f"{sum(types.values())} ({', '.join(k if alone else f'{n} {k}' for k, n in types.items())})"
    )


def _origin(source: dict[str, Any]) -> str:
    """Where a model came from, the last step first: ``onnx 20 < onnx 17``."""
    plain = {
        key: value
        for key, value in source.items()
        if key not in ("made_from", "sha256") and isinstance(value, (str, int, float))
    }
    told = ", ".join(f"{key} {value}" for key, value in plain.items()) or "no record"
    before = source.get("made_from")
    if isinstance(before, str):  # as the file has it
        return f"{told}; made from {before}"
    return f"{told}; made from {_origin(before)}" if before else told


def _memory(found: Inspection) -> str:
    if found.activations is None:
        return "not computed: a tensor's size isn't known"
    return f"{words.size(found.activations)} of tensors at once, computed from the graph"


def _work(found: Inspection) -> str:
    if found.macs is None:
        return f"not counted: {found.unread}"
    missing = ", ".join(f"{count} {op}" for op, count in found.macs_unknown.items())
    counted = f"{words.count(found.macs)} multiply-adds"
    if repeated := [op for op in ("Loop", "Scan") if op in found.op_types]:
        counted += f", with each body of {' and '.join(repeated)} counted once"
    if not missing:
        return counted
    why = f"{missing} whose shapes are open (give sizes with --dim)"
    return f"{counted}, without {why}" if found.macs else f"not counted: {why}"


def _describe(spec: dict[str, Any]) -> str:
    dims = ", ".join(str(dim) for dim in spec.get("shape", ("?",)))
    known = [str(spec[key]) for key in ("layout", "meaning") if key in spec]
    if "value_range" in spec:
        low, high = spec["value_range"]
        known.append(f"{words.number(low)}..{words.number(high)}")
    if "scale" in spec:
        known.append(f"scale {words.number(spec['scale'])}, zero point {spec['zero_point']}")
    if "labels" in spec:
        known.append(f"{spec['labels']} labels")
    return f"{spec['name']}: {spec['dtype']}[{dims}]  {' '.join(known)}".rstrip()


def _show_plan(result: Converted) -> None:
    echo(f"{result.name} would become {result.out}, in these steps:")
    for what, why in result.plan.skipped.items():
        echo(f"  SKIPPED: {what.replace(':', ' ')}: {why}")
    if result.idle:
        echo(f"  WITHOUT EFFECT: {', '.join(result.idle)}")
    for step in result.plan.steps:
        needs = f"  (after {', '.join(step.needs)})" if step.needs else ""
        echo(f"  {step.id:24} {step.title}{needs}")


def _console() -> Console:
    return Console(width=None if sys.stdout.isatty() else 100, highlight=False)
