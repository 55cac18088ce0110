"""What was found in a difference, in sentences."""

from __future__ import annotations

from collections.abc import Sequence

from converter.diff.difference import Difference, Finding
from converter.text.words import limit


def verdict(found: Difference) -> str:
    """The result in a sentence."""
    if found.first is None:
        odd = [error for error in found.inner if error.words.startswith(("NaN", "infinite"))]
        inside = f", but inside {odd[0].name} is {odd[0].odd}" if odd else ""
        return f"No difference: every output agrees within {limit(found.tolerance)}{inside}."
    tensor = found.first.tensor
    return f"They part at {tensor.name}: {tensor.words}."


def told(found: Difference, a: str = "A", b: str = "B") -> list[str]:
    """What there is to say besides, a line each.

    Args:
        found: Where the models part.
        a: What the first model is called.
        b: What the second model is called.
    """
    lines = [
        f"{len(found.along)} tensor{'s' * (len(found.along) != 1)} compared, "
        f"of {found.common} that both have; "
        f"{found.nodes_a} nodes in {a}, {found.nodes_b} in {b}"
    ]
    if found.first is not None:
        lines += _about(found.first, a, b)
    if found.inner:
        names = _listed([error.name for error in found.inner])
        lines.append(f"inner tensors differ, without effect on an output: {names}")
    if found.misnamed:
        lines.append(
            "differ, though the tensors after them agree (fused, renamed or evened out): "
            f"{_listed(found.misnamed)}"
        )
    if found.closed:
        lines.append(f"subgraphs were not looked into: {_listed(found.closed)}")
    return lines


def _about(first: Finding, a: str, b: str) -> list[str]:
    tensor = first.tensor
    lines = [f"in {a} it is computed by {_chain(first.nodes_a, first.inside_a)}"]
    lines.append(f"in {b} it is computed by {_chain(first.nodes_b, first.inside_b)}")
    if tensor.other != tensor.name:
        lines.append(f"in {b} it is called {tensor.other}")
    if tensor.value_a or tensor.value_b:
        at = ", ".join(map(str, tensor.index))
        where = f"on {tensor.sample}, at [{at}]" if tensor.index else f"on {tensor.sample}"
        lines.append(f"{where}: {tensor.value_a} in {a}, {tensor.value_b} in {b}")
    lines += [f"before it, {error.name} is {error.words}" for error in first.before]
    if not first.before:
        lines.append("before it there are only inputs and weights")
    return lines


def _chain(nodes: Sequence[object], count: int) -> str:
    shown = ", ".join(f"{getattr(n, 'op', '')} {getattr(n, 'name', '')}" for n in nodes)
    return f"{shown} and {count - len(nodes)} more nodes" if count > len(nodes) else shown


def _listed(names: Sequence[str], most: int = 5) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
