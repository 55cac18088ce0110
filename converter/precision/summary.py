"""What a report says of a lowered model: which nodes stayed in float32, why, at what cost. How much
is lowered is counted in the written file (:mod:`converter.pipeline.precision_shares`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from converter.precision.quantized import Kept, Quantized

_COSTS = {
    "alone": "lowered alone it costs {} of the outputs' cosine",
    "back": "in float32 it wins {} of the outputs' cosine",
    "estimated": "it is estimated to cost {} of the outputs' cosine",
}


def summary(lowered: Quantized) -> Iterator[str]:
    """A line for the whole; one for each node that stayed in float32 and matters, the dearest
    first; one for all others with the same operator and reason."""
    kept = sum(not item.instead for item in lowered.kept)
    yield (
        f"{lowered.precision}: {_nodes(len(lowered.lowered))}; "
        f"{f'{kept} more could be, and stayed float32' if kept else 'no more could be'}"
    )
    weighty = [item for item in lowered.kept if item.macs or item.cost is not None]
    for item in sorted(weighty, key=lambda item: (-(item.cost or 0.0), -item.macs)):
        yield "; ".join(_parts(item, lowered.macs))
    yield from _grouped(item for item in lowered.kept if not item.macs and item.cost is None)


def _nodes(count: int) -> str:
    return f"{count} node{'s' * (count != 1)}"


def _parts(item: Kept, macs: int) -> Iterator[str]:
    yield f"{item.node} ({item.op}) {item.instead or 'stays float32'}: {item.reason}"
    if item.cost is not None:
        yield _COSTS[item.how].format(f"{item.cost:.2g}")
    if item.macs and macs:
        yield f"{item.macs / macs:.1%} of the multiply-adds"


def _grouped(kept: Iterable[Kept]) -> Iterator[str]:
    groups: dict[tuple[str, str], list[str]] = {}
    for item in kept:
        groups.setdefault((item.op, item.reason), []).append(item.node)
    for (op, reason), nodes in groups.items():
        yield f"{', '.join(nodes)} ({op}) stay{'s' * (len(nodes) == 1)} float32: {reason}"
