"""How much a model comes to once every call of its functions is written out."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import TypeVar

K = TypeVar("K", bound=Hashable)

MOST_NODES = 200_000
"""Nodes that a model may have, every call written out as runtimes do it: ten times what exporters
write. Each is a tenth of a millisecond in every shape inference, so that to inspect so many takes
about a minute. 30 functions that call each other twice are 2**30."""

MOST_WEIGHTS = 20_000
"""Initializers and Constants that a model may have, every call written out: ONNX Runtime takes ten
seconds for so many, and four times as long for twice as many. Exporters write some 5,000."""

MOST_BYTES = 4 << 30
"""Bytes that they may come to, as they lie in the file: each call has a function's constants."""

DEEPEST = 60
"""Calls inside one another: whoever writes them out does so on a stack. Exporters go to some 20,
where each module is a function."""


class CircleError(Exception):
    """Functions that call themselves; the arguments are their keys, each calling the next."""


def written_out(own: Mapping[K, int], calls: Mapping[K, Iterable[K]]) -> dict[K, tuple[int, int]]:
    """What each function comes to with all calls written out, and how deep they go.

    Args:
        own: What each function holds by itself: nodes, or bytes.
        calls: For each function the functions that it calls, each as often as it does.

    Returns:
        The sum, and the depth, which is 1 for a function that calls none.

    Raises:
        CircleError: A function calls itself, by way of others or not.
    """
    callees = {key: list(calls.get(key, ())) for key in own}
    found: dict[K, tuple[int, int]] = {}
    on_the_way: dict[K, None] = {}
    waiting = list(own)
    while waiting:
        key = waiting[-1]
        left = {callee for callee in callees[key] if callee not in found}
        if key in found or not left:
            inner = [found[callee] for callee in callees[key]]
            total = own[key] + sum(count for count, _ in inner)
            found[key] = total, 1 + max((depth for _, depth in inner), default=0)
            on_the_way.pop(key, None)
            waiting.pop()
            continue
        on_the_way[key] = None
        for callee in left:
            if callee in on_the_way:
                way = list(on_the_way)
                raise CircleError(*way[way.index(callee) :])
        waiting += left
    return found
