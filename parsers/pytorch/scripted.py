"""What runs a TorchScript file elsewhere has to know: which input is which argument of forward."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_TENSORS = ("", "Optional[Tensor]")
"""Types of arguments that a tensor goes to as it is; a plain one has none written."""


def taken(names: Sequence[str], arguments: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """The argument that each input goes to, by the inputs' names; as the worker's plan has it,
    by name where all names are arguments', else by place.

    Args:
        names: The inputs, in order.
        arguments: Name and type of each argument, in order.

    Returns:
        ``arguments``, and ``problem``: why the inputs aren't the first arguments; empty where
        they are.
    """
    own = [name for name, _ in arguments]
    by_name = set(names) <= set(own)
    found = {name: name if by_name else at for name, at in zip(names, own, strict=False)}
    if len(found) < len(names):
        return {"arguments": found, "problem": f"forward takes {len(own)} arguments"}
    problem = ""
    if set(found.values()) != set(own[: len(names)]):
        problem = f"its inputs aren't the first arguments of forward({', '.join(own)})"
    for name, kind in arguments[: len(names)]:
        if kind not in _TENSORS:
            problem = f"forward takes {name} as {kind}, not as a tensor"
    return {"arguments": found, "problem": problem}
