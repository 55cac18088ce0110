"""What of an artifact is in its precision, counted in the written file, and whether anything is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from converter.check.gates import LOWERED, flagged
from converter.errors import ModelyardError
from converter.ir.contents import Contents, is_weight
from converter.ir.model import Model, dtype_name
from converter.options.precisions import stores_weights
from converter.options.request import Request
from converter.plugins import load
from converter.precision.quantized import Kept, Quantized
from converter.protocols.emitter import Artifact, Emitter
from converter.report.model import WEIGHTS, ArtifactReport
from converter.text import words

FLOAT32 = 4
"""Bytes of a number."""

REASONS = 2
"""How many are given for what stayed in float32; the decisions have all of them."""


def count(
    item: ArtifactReport,
    artifact: Artifact,
    lowered: Quantized | None,
    request: Request,
    sizes: Mapping[str, int],
) -> None:
    """Has a report say what is in an artifact's file, as its target reads it, and adds the gate
    that ``--strict`` has missed where a lower precision lowered nothing.

    Args:
        item: The report of the artifact.
        artifact: What was written.
        lowered: The model that it was written from; None for the simplified one.
        request: What was asked for.
        sizes: Of free dimensions by name, as the samples have them.
    """
    emitter: Emitter = load("emitters", artifact.target)
    try:
        found = emitter.contents(artifact, request, sizes)
    except ModelyardError as error:  # a reader may know less than the target: it isn't checked then
        item.decisions.append(f"the file's contents couldn't be counted: {error.message}")
        return
    _add_contents(item, found)
    _judge(item, found, lowered, strict=request.strict)


def _add_contents(item: ArtifactReport, found: Contents) -> None:
    item.computes, item.stored = found.computes, dict(found.stored)
    if item.precision != "fp32":
        item.lowered_share = found.lowered_share(item.precision)
        item.stored_share = found.stored_share(item.precision)
        item.decisions.append(found.told())


def add_sizes(items: Iterable[ArtifactReport], simplified: Model) -> None:
    """Compares artifacts of lower precisions with their target's float32 one, or with what the
    weights take in float32 where it wasn't made."""
    listed = list(items)
    plain = {item.target: item for item in listed if item.precision == "fp32"}
    numbers = sum(_numbers(simplified))
    in_float32 = numbers * FLOAT32
    for item in listed:
        if item.precision == "fp32":
            continue
        float32 = plain.get(item.target)
        whole = float32.bytes if float32 else in_float32
        item.size_against = float32.title if float32 else WEIGHTS
        item.size_ratio = item.bytes / whole if whole else None
        if stores_weights(item.precision) and numbers and item.stored:
            held = sum(Contents("", (), item.stored).weights.values())
            item.decisions.append(
                f"weights have {held * 8 / numbers:.2f} bits each on average, scales and tables "
                f"counted: {words.size(held)} in the file, {words.size(in_float32)} in float32"
            )


def _numbers(model: Model) -> Iterator[int]:
    """Elements of each weight."""
    for value in model.initializers():
        if (tensor := value.const_value) is not None and is_weight(dtype_name(tensor.dtype)):
            yield tensor.size


def _judge(
    item: ArtifactReport, found: Contents, lowered: Quantized | None, *, strict: bool
) -> None:
    if item.precision == "fp32" or item.lowered_share or item.stored_share:
        return
    if not item.computes and not found.weights:  # nothing that multiplies, nothing that is stored
        return
    item.gates.append(flagged(LOWERED, _why(item, found, lowered), strict=strict))


def _why(item: ArtifactReport, found: Contents, lowered: Quantized | None) -> str:
    kept = [each for each in lowered.kept if not each.instead] if lowered else []
    groups: dict[str, list[Kept]] = {}
    for each in sorted(kept, key=lambda each: -each.macs):
        groups.setdefault(each.reason, []).append(each)
    parts, told = [], list(groups.items())[:REASONS]
    for reason, nodes in told:
        more = f" and {len(nodes) - 1} more stay" if len(nodes) > 1 else " stays"
        parts.append(f"{nodes[0].node}{more} float32: {reason}")
    left = len(kept) - sum(len(nodes) for _, nodes in told)
    parts += [f"{left} more for other reasons"] if left else []
    said = "; ".join([*parts, *filter(None, [found.why])]) or "it has nothing that could be"
    return f"none of its multiply-adds and none of its weights are {item.precision}: {said}"
