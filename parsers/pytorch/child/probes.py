"""Inputs unlike a trace's example, and whether the trace gives what the model itself does.

A trace keeps what Python decided for its example: a branch, a length, a number. Other values and
other sizes show it.
"""

# zip() knows no strict= before Python 3.10.
# ruff: noqa: B905

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from ...worker.errors import WorkerError
from .flatten import Flat
from .taken import Taken, Watch, short
from .tensors import Spec, to_numpy, torch_dtype

AT_LEAST = 8
# The traced operators are torch's own: what differs more than this was kept by the trace.
_LIMIT = 1e-4
_ATTEMPTS = 6
_SHAKE = 2.0**-22

Tensors = tuple[torch.Tensor, ...]
Fill = Callable[[tuple[int, ...], torch.Generator], torch.Tensor]


def _noise(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    return torch.randn(shape, generator=generator)


def _uniform(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    return torch.rand(shape, generator=generator)


def _constant(value: float) -> Fill:
    return lambda shape, _: torch.full(shape, value)


def _scaled(factor: float) -> Fill:
    return lambda shape, generator: factor * torch.randn(shape, generator=generator)


# What is put in, by name; the last number is the end of the range for integers.
_VALUES: tuple[tuple[str, Fill, int], ...] = (
    ("noise", _noise, 2),
    ("zeros", _constant(0.0), 1),
    ("noise from 0 to 1", _uniform, 10),
    ("ones", _constant(1.0), 2),
    ("large noise", _scaled(50.0), 100),
    ("small noise", _scaled(1e-3), 1),
    ("minus ones", _constant(-1.0), 2),
)
# Those without the same value everywhere, which detectors answer with the same score everywhere.
_NOISY = (0, 2, 4)


@dataclass(eq=False)
class Probe:
    """One input, and what the model made of it."""

    what: str
    sizes: dict[str, int]
    tensors: Tensors
    outputs: dict[str, torch.Tensor] = field(default_factory=dict)
    taken: list[Taken] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)

    def __str__(self) -> str:
        sizes = ", ".join(f"{name}={size}" for name, size in self.sizes.items())
        return f"{self.what}{' at ' if sizes else ''}{sizes}"


def _filled(spec: Spec, sizes: Mapping[str, int], value: int, seed: int) -> torch.Tensor:
    _, fill, end = _VALUES[value]
    shape = tuple(sizes[d] if isinstance(d, str) else d for d in spec.shape)
    dtype, generator = torch_dtype(spec.dtype), torch.Generator().manual_seed(seed)
    if dtype is torch.bool:
        return torch.randint(0, 2, shape, generator=generator).bool() if value % 2 else (
            torch.full(shape, value % 4 == 0)
        )  # fmt: skip
    if dtype.is_floating_point:
        return fill(shape, generator).to(dtype)
    return torch.randint(0, end, shape, generator=generator).to(dtype)


def _other_sizes(sizes: Mapping[str, int]) -> list[dict[str, int]]:
    """Each symbol smaller and larger, all of them at once; nothing without symbols."""
    if not sizes:
        return []
    changes: list[Callable[[int], int]] = [
        lambda n: n + n // 2, lambda n: max(n // 2, 1), lambda n: n + 1,
    ]  # fmt: skip
    return [{name: change(size) for name, size in sizes.items()} for change in changes]


def _probe(specs: Sequence[Spec], sizes: Mapping[str, int], value: int, seed: int) -> Probe:
    tensors = tuple(_filled(spec, sizes, value, seed) for spec in specs)
    return Probe(_VALUES[value][0], dict(sizes), tensors)


def watched(flat: Flat, probe: Probe) -> bool:
    """Run the model itself, and note what it gave and took; False where it refuses the input."""
    torch.manual_seed(0)
    try:
        with Watch(flat) as watch:
            found = flat(*_copied(probe.tensors))
    except Exception:  # whatever the user's code raises: this input is none for it
        return False
    probe.outputs = _named(flat.output_names, found)
    probe.taken, probe.constants = watch.decisions(), watch.constants()
    return True


def _copied(tensors: Tensors) -> Tensors:
    """Inputs of which the model may overwrite its own."""
    return tuple(tensor.clone() for tensor in tensors)


def _named(names: Sequence[str], tensors: Sequence[torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: tensor.detach().cpu() for name, tensor in zip(names, tensors)}


def run_all(
    flat: Flat, specs: Sequence[Spec], sizes: Mapping[str, int], example: Tensors
) -> list[Probe]:
    """Every probe that the model takes: the example and `AT_LEAST` others, if it takes so many.

    Other values come first. What had the most in it is put in at other sizes too: where nothing is
    found, a size that was kept can't show.

    Args:
        flat: The model.
        specs: Its inputs.
        sizes: Of free dimensions, as the example has them.
        example: The inputs that it was traced with.
    """
    values = [_probe(specs, sizes, value, value + 1) for value in range(len(_VALUES))]
    listed = [Probe("the first input", dict(sizes), example), *values]
    taken = [probe for probe in listed if watched(flat, probe)]
    noisy = [probe for probe in taken if probe in values and values.index(probe) in _NOISY]
    fullest = values.index(max(noisy, key=_elements)) if noisy else 0
    others = [_probe(specs, other, fullest, 50 + n) for n, other in enumerate(_other_sizes(sizes))]
    taken += [probe for probe in others if watched(flat, probe)]
    for seed in range(100, 100 + _ATTEMPTS):
        if len(taken) > AT_LEAST:
            break
        probe = _probe(specs, sizes, (0, fullest, 2)[seed % 3], seed)
        taken += [probe] if watched(flat, probe) else []
    return taken


def _elements(probe: Probe) -> int:
    return sum(tensor.numel() for tensor in probe.outputs.values())


def example_of(probes: Sequence[Probe], sizes: Mapping[str, int]) -> Probe | None:
    """The probe to trace with: one of the sizes asked for, without an empty output if there is.

    With nothing found a model may leave out all that it does with what it finds.
    """
    fitting = [probe for probe in probes if probe.sizes == dict(sizes)]
    full = [p for p in fitting if all(tensor.numel() for tensor in p.outputs.values())]
    return next(iter([*full, *fitting]), None)


def require_found(probes: Sequence[Probe]) -> None:
    """Raises unsupported where no probe has anything in any output.

    Such a detector's trace holds nothing of what it does with what it finds, and lists of a
    free length look as if they were always empty.
    """
    if probes and not any(t.numel() for probe in probes for t in probe.outputs.values()):
        text = (
            f"all outputs are empty ({', '.join(probes[0].outputs)}) for all {len(probes)} "
            "tried inputs, so a trace wouldn't contain what the model does with the things "
            "that it finds"
        )
        raise WorkerError("unsupported", text, [
            "give --samples with something to find in the first one"
        ])  # fmt: skip


def free_axes(probes: Sequence[Probe], sizes: Mapping[str, int]) -> dict[str, list[int]]:
    """By output, the axes whose size hangs on values: it changed while the inputs' did not."""
    fitting = [probe.outputs for probe in probes if probe.sizes == dict(sizes)]
    found: dict[str, list[int]] = {}
    for name in fitting[0] if fitting else ():
        shapes = [outputs[name].shape for outputs in fitting if name in outputs]
        if len({len(shape) for shape in shapes}) == 1:
            found[name] = [a for a, seen in enumerate(zip(*shapes)) if len(set(seen)) > 1]
    return found


def require_same(
    flat: Flat, traced: Any, probes: Sequence[Probe], example: Probe, noted: Sequence[str]
) -> list[Probe]:
    """The probes for which the traced module gives what the model did.

    Left out are those for which rounding decides: the model itself gives something else for an
    input that differs in its last places alone.

    Args:
        flat: The model.
        traced: Its trace.
        probes: What the model gave, for each input.
        example: The one that it was traced with.
        noted: The lines at which the tracer saw a value leave a tensor.

    Raises:
        WorkerError: ``unsupported`` where the two differ, or no probe says anything.
    """
    judged = []
    for probe in probes:
        why = _differs(traced, probe)
        if not why:
            judged.append(probe)
        elif _where_they_part(example.taken, probe.taken) or not _unsteady(flat, probe):
            raise _kept(why, probe, example, noted)
    if probes and not judged:
        text = "rounding decides the model's outputs, so a trace cannot be judged"
        raise WorkerError("unsupported", text, [text])
    return judged


def ends_on_nothing(traced: Any, probes: Sequence[Probe]) -> bool:
    """Whether the traced module ends with an error where the model finds nothing."""
    empty = [probe for probe in probes if not _elements(probe)]
    return any(isinstance(_ran(traced, probe), str) for probe in empty)


def _ran(traced: Any, probe: Probe) -> Any:
    """What the traced module gives, or why it ended."""
    torch.manual_seed(0)
    try:
        with torch.jit.optimized_execution(False):
            return traced(*_copied(probe.tensors))
    except Exception as error:  # whatever the trace's operators raise where the model ran
        return f"the trace ends with {type(error).__name__}: {_last_line(error)}"


def _differs(traced: Any, probe: Probe) -> str:
    found = _ran(traced, probe)
    if isinstance(found, str):
        return found
    if len(found) != len(probe.outputs):
        return f"the trace gives {len(found)} outputs, the model {len(probe.outputs)}"
    return _apart(probe.outputs, _named(list(probe.outputs), found))


def _apart(one: Mapping[str, torch.Tensor], other: Mapping[str, torch.Tensor]) -> str:
    """How outputs differ; empty where they don't."""
    from .alike import differs  # with numpy, which a Python that only traces may lack

    want, got = ({name: to_numpy(t) for name, t in side.items()} for side in (one, other))
    return differs(want, got, _LIMIT)


def _unsteady(flat: Flat, probe: Probe) -> bool:
    generator = torch.Generator().manual_seed(0)
    shaken = tuple(_shaken(tensor, generator) for tensor in probe.tensors)
    other = Probe("", probe.sizes, shaken)
    same_way = watched(flat, other) and not _where_they_part(probe.taken, other.taken)
    return same_way and bool(_apart(probe.outputs, other.outputs))


def _shaken(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """The tensor with rounding added, to zeros too."""
    if not tensor.is_floating_point():
        return tensor.clone()
    noise = torch.randn((2, *tensor.shape), generator=generator) * _SHAKE
    return (tensor * (1 + noise[0]) + noise[1]).to(tensor.dtype)


def _last_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else ""


def _kept(why: str, probe: Probe, example: Probe, noted: Sequence[str]) -> WorkerError:
    parted = _where_they_part(example.taken, probe.taken)
    text = (
        "forward branches on the values of tensors, which a graph cannot do: TorchScript "
        f"keeps the branches of its example ({example}), and for {probe} {why}"
    )
    changed = [name for name, size in probe.sizes.items() if size != example.sizes.get(name)]
    details = [parted] if parted else []
    if changed and not parted:
        details.append(
            f"the same values at other sizes would do: give {', '.join(changed)} as a number"
        )
    details += [f"{line} takes a Python value out of a tensor" for line in noted]
    details.append("rewrite the decision with torch.where or torch.cond")
    return WorkerError("unsupported", f"{parted + ': ' if parted else ''}{text}", details)


def _where_they_part(example: Sequence[Taken], probe: Sequence[Taken]) -> str:
    for one, other in zip(example, probe):
        if not one.same_as(other):
            if one.place != other.place:
                return f"{other.place} is reached where the example went to {one.place}"
            return f"{one.place} takes {_shown(other.value)}, for the example {_shown(one.value)}"
    longer = example if len(example) > len(probe) else probe
    if len(example) != len(probe):
        return f"{longer[min(len(example), len(probe))].place} is reached for one of them only"
    return ""


def _shown(value: Any) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= 40 else f"{text[:40]}..."


def told(probes: Sequence[Probe], example: Probe) -> str:
    """What was tried, for the report."""
    others = [probe for probe in probes if probe is not example]
    kinds = ", ".join(dict.fromkeys(probe.what for probe in others))
    text = f"{len(others)} other inputs gave the same as the model itself ({kinds}"
    sizes = dict.fromkeys(
        f"{name}={size}" for p in others for name, size in p.sizes.items()
        if size != example.sizes.get(name)
    )  # fmt: skip
    text += f"; {', '.join(sizes)})" if sizes else ")"
    if example.sizes and not sizes:
        text += "; NO OTHER SIZE COULD BE JUDGED"
    if len(others) < AT_LEAST:
        text += f"; the model took no more than {len(others)}"
    return text + _lists(probes)


def _lists(probes: Sequence[Probe]) -> str:
    """How long outputs of free length were."""
    axes = free_axes(probes, probes[0].sizes)
    name = next((name for name, free in axes.items() if free), None)
    if name is None:
        return ""
    axis = axes[name][0]
    lengths = [probe.outputs[name].shape[axis] for probe in probes]
    empty = "" if min(lengths) == 0 else ", never empty"
    return f"; {name} had {min(lengths)} to {max(lengths)} entries{empty}"


def never_changed(probes: Sequence[Probe]) -> str:
    """Decisions by values that came out alike on all inputs: nobody knows what others would do."""
    answers: dict[str, list[str]] = {}
    for probe in probes:
        for taken in probe.taken:
            answers.setdefault(short(taken.place), []).append(_shown(taken.value))
    alike = [f"{place} ({seen[0]})" for place, seen in answers.items() if len(set(seen)) == 1]
    return ", ".join(alike)
