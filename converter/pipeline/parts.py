"""Several models in one output: what is said of each, put together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from converter.preparation.flow import FlowStep
from converter.report.model import Alert, PartReport, Report, SourceReport


def joined(
    title: str,
    reports: Mapping[str, Report],
    failed: Mapping[str, PartReport],
    flow: Sequence[FlowStep] = (),
) -> Report:
    """One report of several parts.

    Args:
        title: The output's name.
        reports: Of the parts that were converted, by name.
        failed: Of the parts that couldn't be, by name.
        flow: How they are joined.
    """
    parts = {
        **{
            name: PartReport(
                source=report.source,
                samples=report.samples,
                along=report.along,
                passes=report.passes,
                near_misses=report.near_misses,
                declared=report.declared,
            )
            for name, report in reports.items()
        },
        **failed,
    }
    first = next(iter(reports.values()))
    made = Report(
        tool=first.tool,
        title=title,
        source=_source(title, parts),
        alerts=list(_alerts(reports)),
        artifacts=[item for report in reports.values() for item in report.artifacts],
        packages=[item for report in reports.values() for item in report.packages],
        machine=first.machine,
        versions={k: v for report in reports.values() for k, v in report.versions.items()},
        timings=[
            timing.model_copy(update={"step": f"{name}/{timing.step}"})
            for name, report in reports.items()
            for timing in report.timings
        ],
        parts=parts,
        flow=list(flow),
    )
    gates = (gate for item in made.artifacts for gate in item.gates)
    if flow and not any(gate.name == "flow" for gate in gates):
        made.warn("THE FLOW WAS NOT CHECKED as a whole", loud=True)
    for name, part in failed.items():
        made.warn(f"NOT CONVERTED: {name}: {part.failed}", loud=True)
    return made


def _source(title: str, parts: Mapping[str, PartReport]) -> SourceReport:
    """What all parts are of, together."""
    sources = [part.source for part in parts.values()]
    return SourceReport(
        name=title,
        format=", ".join(dict.fromkeys(item.format for item in sources)),
        framework=", ".join(dict.fromkeys(filter(None, (item.framework for item in sources)))),
        parameters=sum(item.parameters or 0 for item in sources),
        weight_bytes=sum(item.weight_bytes or 0 for item in sources),
    )


def _alerts(reports: Mapping[str, Report]) -> Iterator[Alert]:
    """Every alert, with the part that it is of; what all parts say is said once."""
    listed = [{alert.text: alert for alert in report.alerts} for report in reports.values()]
    shared = set(listed[0]).intersection(*listed[1:]) if len(listed) > 1 else set()
    yield from (alert for text, alert in listed[0].items() if text in shared)
    for name, alerts in zip(reports, listed, strict=True):
        for text, alert in alerts.items():
            if text not in shared:
                said = text if text.startswith(f"{name} ") else f"{name}: {text}"
                yield Alert(text=said, loud=alert.loud)
