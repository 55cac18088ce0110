"""Judges an artifact's outputs: the gates that their values have to pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from converter.check.accuracy import AccuracyResult, Probed
from converter.check.comparison import Comparison, OutputResult
from converter.check.feeding import NARROW
from converter.check.gate_result import (
    JUDGED,
    ON_A_PROBE,
    GateResult,
    failed,
    flagged,
    judged,
    passed,
    unjudged,
)
from converter.text import words

if TYPE_CHECKING:
    from converter.check.gates import Limits


def judge_outputs(limits: Limits, accuracy: AccuracyResult) -> list[GateResult]:
    """The gates of all outputs: what they are, what they hold, and what other inputs told."""
    comparison = accuracy.comparison
    gates = [
        _judge_interface(comparison, limits.io_dtype),
        *judge_values(limits, comparison.outputs),
    ]
    if not comparison.outputs:
        gates.append(failed("cosine", limits.cosine, None, "no output could be compared"))
    if accuracy.unsteady:
        gates = [
            replace(g, why=g.why + _rounding(accuracy)) if g.name == "cosine" else g for g in gates
        ]
    gates += _less_rounding(limits, accuracy)
    return [*gates, *_judge_blind(limits, accuracy), *_judge_probes(accuracy)]


def _rounding(accuracy: AccuracyResult) -> str:
    """``; on 1 of 8 samples (a.png) rounding decides: ...``."""
    names = accuracy.unsteady
    listed = ", ".join(names[:3]) + ", ..." * (len(names) > 3)
    return (
        f"; on {len(names)} of {accuracy.comparison.samples} samples ({listed}) rounding decides: "
        "the source gives this for an input that differs in its last places"
    )


def judge_values(limits: Limits, outputs: Sequence[OutputResult]) -> list[GateResult]:
    """The gates of what outputs hold."""
    gates = [_judge_finite(outputs)]
    floats = [output for output in outputs if output.kind == "float"]
    exact = [output for output in outputs if output.kind == "exact"]
    if floats:
        gates += _judge_floats(limits, floats)
    if exact:
        gates.append(_judge_agreement(limits, exact))
    if limits.max_abs is not None:
        gates.append(_judge_max_abs(limits.max_abs, floats))
    return gates


def _less_rounding(limits: Limits, accuracy: AccuracyResult) -> Iterator[GateResult]:
    before = {gate.name: gate.value for gate in judge_variation(limits, accuracy.rounded)}
    for gate in judge_variation(limits, accuracy.comparison.outputs):
        value, why = before.get(gate.name), "before the source's own rounding was taken off"
        told = "" if value is None else f"; it was {words.number(value)} {why}"
        yield replace(gate, why=gate.why + told)


def judge_variation(limits: Limits, outputs: Sequence[OutputResult]) -> Iterator[GateResult]:
    """Squared errors beside what outputs and their channels vary by."""
    whole: list[tuple[float, str]] = []
    channels: list[tuple[float, str]] = []
    for output in outputs:
        found = output.variation
        if found is None or output.blind not in ("", "one sample") or output.shape_problem:
            continue
        step = limits.step * output.range
        whole.append((found.whole.ratio(limits.grain, step), output.name))
        if (worst := found.worst(limits.grain, step)) is not None:
            place = f"channel {worst.index} of {output.name}"
            channels.append((worst.ratio(limits.grain, step), place))
    kinds = (("variation", limits.variation, whole), ("channel", limits.channel, channels))
    for name, limit, known in kinds:
        if limit is not None and known:
            value, where = max(known)
            share = f"its squared error is {words.number(value)} of its variance"
            why = f"{where}: {share if value else 'no more than rounding'}"
            yield judged(name, limit, value, value <= limit, why)


MOST = 3
"""Probes that are named, at most, where an artifact parts on several."""


def _judge_probes(accuracy: AccuracyResult) -> Iterator[GateResult]:
    """What probes told: a missed gate for each on which the artifact parts."""
    counted = [item for item in accuracy.tried if item.kind != "wide"]
    missed = [(item, gate) for item in counted if (gate := item.missed) is not None]
    for item, gate in missed[:MOST]:
        why = f"{item.probe}: {gate.why}"
        yield replace(gate, name=f"{gate.name} {ON_A_PROBE}", why=why)
    if missed[MOST:]:
        others = ", ".join(item.probe for item, _ in missed[MOST:])
        yield failed(f"others {ON_A_PROBE}", None, None, f"missed on {others}, too")
    if accuracy.left_out and not counted:
        yield unjudged("probes", f"no room for {', '.join(accuracy.left_out)}")
    if counted and not missed:
        macs = sum(item.macs for item in accuracy.tried)
        cost = f": {words.count(macs)} multiply-adds" if macs else ""
        left = f"; no room for {', '.join(accuracy.left_out)}" if accuracy.left_out else ""
        yield passed("probes", None, None, f"{_kinds(accuracy)}{cost}{left}")


_KINDS = {
    "mixes": ("batch of mixes", "batches of mixes"),
    "rows": ("batch of samples", "batches of samples"),
    "mix": ("mix of samples", "mixes of samples"),
    "sizes": ("other size", "other sizes"),
    "edge": ("edge", "edges"),
    "again": ("second call", "second calls"),
}


def _kinds(accuracy: AccuracyResult) -> str:
    """``2 batches, 3 other sizes, 1 second call``."""
    counts = Counter[str]()
    for item in accuracy.tried:
        counts[item.kind] += item.count
    return ", ".join(
        f"{counts[kind]} {names[counts[kind] > 1]}"
        for kind, names in _KINDS.items()
        if counts[kind]
    )


def _judge_blind(limits: Limits, accuracy: AccuracyResult) -> Iterator[GateResult]:
    """What the samples say nothing of, as other inputs told."""
    probed = {item.output: item for item in accuracy.probed}
    unknown: dict[str, list[str]] = {}
    known = []
    for output in accuracy.blind:
        item = probed.get(output.name, Probed(output.name))
        if item.result is None:
            if output.blind != "one sample" or item.tried:
                unknown.setdefault(_blindness(output, item.tried), []).append(output.name)
            continue
        if item.fits:
            known.append(f"{output.name} ({_blindness(output, 0)}) was judged on {item.inputs}")
        elif limits.exact:
            yield _missed_elsewhere(limits, output, item.result, item.inputs)
        else:
            why = f"{_blindness(output, 0)}; off on {item.inputs}, which they don't prepare it for"
            unknown.setdefault(why, []).append(output.name)
    if unknown:
        listed = "; ".join(f"{', '.join(names)} ({why})" for why, names in unknown.items())
        why = f"{listed}: nothing tells a right artifact from a wrong one; give other --samples"
        yield flagged(JUDGED, why, strict=limits.strict)
    elif known:
        yield passed(JUDGED, None, None, "; ".join(known))


def _missed_elsewhere(
    limits: Limits, output: OutputResult, result: OutputResult, inputs: str
) -> GateResult:
    """What an output misses on other inputs than the samples."""
    if output.blind == "one sample":
        why = (
            f"{output.name} doesn't change on the only sample where the source's output "
            "changes, on "
        )
        return failed(f"{JUDGED} on other inputs", None, None, why + inputs)
    gate = next(gate for gate in judge_values(limits, [result]) if gate.status == "failed")
    why = f"{output.name} on {inputs}; it is {_on(output)}"
    return replace(gate, name=f"{gate.name} on other inputs", why=why)


_BLIND = {
    "empty": "empty",
    "not finite": "NaN or Inf",
    "zero": "zero",
    "constant": "the same",
    "one sample": "the same",
}


def _on(output: OutputResult) -> str:
    samples = f"all {output.samples} samples" if output.samples > 1 else "the only sample"
    return f"{_BLIND[output.blind]} on {samples}"


def _blindness(output: OutputResult, tried: int) -> str:
    """``zero on all 8 samples and on 11 other inputs``."""
    if output.blind == "one sample" and not tried:
        return "there is one sample"
    others = f" and on {tried} other input{'s' * (tried != 1)}" if tried else ""
    return _on(output) + others


def _judge_interface(comparison: Comparison, io_dtype: str) -> GateResult:
    wrong = [f"{name} is missing" for name in comparison.missing]
    wrong += [f"{name} is not in the source" for name in comparison.unexpected]
    for output in comparison.outputs:
        found, source = output.candidate_type, output.reference_type
        if found != (io_dtype if source == "float32" else source):
            asked = f"; --io-dtype {io_dtype} was asked for" if io_dtype != "float32" else ""
            if source == "float32" and found in NARROW and not asked:
                made = f"--precision {found.replace('float', 'fp')} --io-dtype {found}"
                asked = f" (if it was made with {made}, say so here too)"
            wrong.append(f"{output.name} is {found}, the source's is {source}{asked}")
        if output.shape_problem:
            wrong.append(f"{output.name} has another shape on {output.shape_problem}")
    if comparison.reordered:
        wrong.append(f"its outputs are in another order: {', '.join(comparison.reordered)}")
    if wrong:
        return failed("interface", None, None, "; ".join(wrong))
    count = len(comparison.outputs)
    why = f"names, dtypes and shapes of {count} output{'s' * (count != 1)} are the source's"
    if any(output.candidate_type != output.reference_type for output in comparison.outputs):
        why += f", but for {io_dtype} where the source has float32, as asked for"
    return passed("interface", None, None, why)


def _judge_finite(outputs: Sequence[OutputResult]) -> GateResult:
    counts = {output.name: output.introduced + output.altered for output in outputs}
    total = sum(counts.values())
    if total:
        bad = ", ".join(f"{name}: {count}" for name, count in counts.items() if count)
        why = f"NaN or Inf where the source has none ({bad})"
        return failed("non-finite", 0, total, why)
    vanished = sum(output.vanished for output in outputs)
    why = "no NaN or Inf where the source has none"
    if vanished:
        why += f"; {vanished} of the source's are finite here"
    return passed("non-finite", 0, 0, why)


def _judge_floats(limits: Limits, outputs: Sequence[OutputResult]) -> list[GateResult]:
    """Cosine and scale of the outputs that hold anything to compare: none, where none does."""
    unlike = [output for output in outputs if output.shape_problem and output.cosine is None]
    if unlike:
        why = f"{unlike[0].name} could not be compared: its shape differs"
        return [failed("cosine", limits.cosine, None, why)]
    if all(output.blind == "not finite" for output in outputs):
        names = ", ".join(output.name for output in outputs)
        why = f"the source itself gives only NaN or Inf on every sample ({names}): nothing to judge"
        return [failed("cosine", limits.cosine, None, why)]
    known = [output for output in outputs if output.cosine is not None]
    if not known:
        return []
    return [_judge_cosine(limits.cosine, known), _judge_scale(limits.scale, known)]


def _judge_cosine(limit: float, outputs: Sequence[OutputResult]) -> GateResult:
    worst = min(outputs, key=lambda output: output.cosine or 0.0)
    value = worst.cosine or 0.0
    if worst.cosine_judged == value and worst.worst_samples:
        where = f"{worst.name} on {worst.worst_samples[0].sample}"
    else:
        where = f"{worst.name}, all samples together"
    where += _moved(outputs)
    alike = sum(output.within_rounding for output in outputs)
    if alike:
        where += f"; {alike} times the difference is rounding of the output's range"
    values = sum(output.values for output in outputs)
    compared = sum(output.compared for output in outputs)
    if compared < values:
        where += f"; {compared:,} of {values:,} values compared, the others are NaN or Inf"
    return judged("cosine", limit, value, value >= limit, where)


def _judge_scale(limit: float, outputs: Sequence[OutputResult]) -> GateResult:
    known = [
        (abs(o.norm_ratio - 1), o)
        for o in outputs
        if o.norm_ratio is not None and o.within_rounding < o.samples
    ]
    if not known and all(output.samples == output.within_rounding for output in outputs):
        return passed("scale", limit, 0.0, "differences are rounding of the outputs' ranges")
    if not known:
        return unjudged("scale", "the source's outputs are all zero", limit)
    value, worst = max(known, key=lambda pair: pair[0])
    why = f"{worst.name}: its norm is {words.beside(worst.norm_ratio or 0, 1)} times the source's"
    return judged("scale", limit, value, value <= limit, why)


def _judge_agreement(limits: Limits, outputs: Sequence[OutputResult]) -> GateResult:
    """All the same in float32, and where no float leads to them; else as many as the cosine says,
    and none far out of the source's range."""
    if not all(output.samples for output in outputs):
        return failed("agreement", limits.cosine, None, "an output could not be compared")
    held = [(1.0 if limits.exact or o.integral else limits.cosine, o) for o in outputs]
    limit, worst = min(held, key=lambda pair: pair[1].equal - pair[0])
    why = f"{worst.name}: {words.percent(worst.equal)} of {worst.values:,} values are the same"
    if worst.first:
        why += f"; first different on {worst.first.sample}"
    why += _moved(outputs)
    kept = worst.equal >= limit
    for output in outputs:
        if output.astray and kept:
            kept, why = False, f"{output.name} holds {output.astray}"
    return judged("agreement", limit, worst.equal, kept, why)


def _moved(outputs: Sequence[OutputResult]) -> str:
    """``; 3 of 300 rows stand elsewhere among equal scores``."""
    most = max(outputs, key=lambda output: output.moved)
    if not most.moved:
        return ""
    return f"; {most.moved:,} of {most.rows:,} rows stand elsewhere among equal scores"


def _judge_max_abs(limit: float, outputs: Sequence[OutputResult]) -> GateResult:
    known = [output for output in outputs if output.max_abs is not None]
    if not known:
        return unjudged("max-abs-error", "no float output has finite values to compare", limit)
    worst = max(known, key=lambda output: output.max_abs or 0.0)
    value = worst.max_abs or 0.0
    where = f"{worst.name} on {worst.worst.sample}" if worst.worst else worst.name
    return judged("max-abs-error", limit, value, value <= limit, where)
