"""What a TFLite file costs in LiteRT: memory by phase, time by operator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ...worker import resident
from .profiled import profile as profiled

if TYPE_CHECKING:
    from .litert import Runner


def memory(make: Any, feeds: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """What a runner holds.

    Args:
        make: Opens the runner.
        feeds: Arrays by input.
        seconds: For how long it runs.

    Returns:
        `phases`; `arena`, in bytes.
    """
    held: list[Runner] = []

    def opened() -> Any:
        held.append(make())
        return lambda: held[0].run(feeds)

    phases = resident.measure(opened, seconds)
    return {"phases": phases, "arena": _arena(held[0].interpreter)}


def profile(
    runner: Runner, feeds: Mapping[str, Any], file: str, threads: int, seconds: float
) -> dict[str, Any]:
    """As `profiled` gives it, with the file's operators, and all names of tensors.

    Args:
        runner: Runs the file in LiteRT's interpreter.
        feeds: Arrays by input.
        file: The file.
        threads: How many run it; 0: LiteRT's own choice.
        seconds: For how long it runs.

    Returns:
        ``operators``: ``index``, ``name`` (its first output's), ``op``, ``inputs`` (names) and
        ``delegated`` of each; ``tensors``: names; and what `profiled` gives.
    """
    runner.run(feeds)
    names = {item["index"]: item["name"] for item in runner.interpreter.get_tensor_details()}
    listed, taken = runner.listed()
    operators = [
        {
            "index": int(op["index"]),
            "name": next((names.get(number, "") for number in op["outputs"]), ""),
            "op": op["op_name"],
            "inputs": [names.get(number, "") for number in op["inputs"]],
            "delegated": op["index"] in taken,
        }
        for op in listed
    ]
    return {**profiled(file, feeds, threads, seconds), "operators": operators,
            "tensors": sorted(names.values())}  # fmt: skip


def _arena(interpreter: Any) -> int | None:
    """The bytes of LiteRT's own tensors, those that several share counted once; None where it
    doesn't list its operators."""
    listed: list[dict[str, Any]] = getattr(interpreter, "_get_ops_details", list)()
    numbers = {number for op in listed for number in op["outputs"]}
    numbers |= {item["index"] for item in interpreter.get_input_details()}
    spans = []
    for number in numbers:
        try:
            held = interpreter.tensor(number)()
        except ValueError:  # a delegate's, or an empty one: it has no memory here
            continue
        begin = held.__array_interface__["data"][0]
        spans.append((begin, begin + held.nbytes))
    total, reached = 0, 0
    for begin, end in sorted(spans):
        total += max(0, end - max(begin, reached))
        reached = max(reached, end)
    return total if spans else None
