"""What an engine's optimization profiles mean for a Triton folder.

Triton's tensorrt backend makes an execution context for each profile that the instance group names,
and takes for a request the one whose best shape is nearest to it (``GetMostOptimizedProfile``). A
batch that no profile takes fails, so every size up to ``max_batch_size`` has to be in one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tritonclient.grpc import model_config_pb2 as schema

from converter.errors import UsageError
from emitters.serving.triton.config import Port
from emitters.serving.triton.warmup import Tensor

Shape = Sequence[int]
Profile = Mapping[str, Sequence[Shape]]
"""For each input by name: its smallest, its best and its largest shape."""


def batch_range(profile: Profile) -> tuple[int, int, int]:
    """The smallest, best and largest batch that all of a profile's inputs take."""
    bounds = [shapes for shapes in profile.values() if shapes[0]]
    if not bounds:
        return 1, 1, 1
    smallest = max(int(shapes[0][0]) for shapes in bounds)
    largest = min(int(shapes[2][0]) for shapes in bounds)
    return smallest, min(int(shapes[1][0]) for shapes in bounds), largest


def largest_batch(profiles: Sequence[Profile]) -> int | None:
    """The largest batch that some profile takes; None where there are no profiles."""
    return max((batch_range(profile)[2] for profile in profiles), default=None)


def require_batches(profiles: Sequence[Profile], max_batch: int) -> None:
    """Refuses where Triton could build a batch that no profile takes.

    Raises:
        UsageError: There are such sizes; all of them are listed.
    """
    ranges = [batch_range(profile) for profile in profiles]
    gaps = [
        size
        for size in range(1, max_batch + 1)
        if ranges and not any(low <= size <= high for low, _, high in ranges)
    ]
    if gaps:
        taken = ", ".join(f"{low} to {high}" for low, _, high in ranges)
        raise UsageError(
            f"Triton may form batches of 1 to {max_batch}, but the engine's profiles take {taken}",
            code="shape-range",
            details=[f"no profile takes a batch of {_spans(gaps)}"],
            hint="Give --shapes with batches from 1 on and without gaps, or give --max-batch.",
        )


def _spans(numbers: Sequence[int]) -> str:
    """``1, 4..6``."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and spans[-1][1] == number - 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ", ".join(f"{low}" if low == high else f"{low}..{high}" for low, high in spans)


def preferred_batches(profiles: Sequence[Profile], max_batch: int) -> list[int]:
    """The batches that the profiles are best at: what Triton's guide gives preferred sizes for."""
    best = {batch_range(profile)[1] for profile in profiles}
    return sorted(size for size in best if 1 < size <= max_batch)


def describe_profiles(profiles: Sequence[Profile]) -> list[str]:
    """What each profile takes, a line each: requests of other shapes fail."""
    lines = []
    for index, profile in enumerate(profiles):
        parts = [
            f"{name} {_text(low)} to {_text(high)}, best {_text(best)}"
            for name, (low, best, high) in profile.items()
        ]
        lines.append(f"profile {index} takes {'; '.join(parts)}")
    return lines


def _text(shape: Shape) -> str:
    return "x".join(map(str, shape)) or "scalar"


def fill_warmup(
    config: Any,
    profiles: Sequence[Profile],
    warmups: Sequence[Sequence[Tensor]],
    ports: Sequence[Port],
) -> list[str]:
    """Adds warm-up requests for each profile at its smallest, best and largest batch.

    A profile whose shapes no sample has gets requests of its best shape with made-up values:
    random floats, and zeros for everything else, as a random index could be out of range.

    Args:
        config: The ``ModelConfig``, which is changed.
        profiles: The engine's; empty where it has one without free dimensions.
        warmups: The samples: a tensor for each input, in files.
        ports: The inputs.

    Returns:
        What was decided, a line each.
    """
    batched = config.max_batch_size > 0
    seen: set[tuple[int, int]] = set()
    notes = []
    for index, profile in enumerate(profiles or [{}]):
        fitting = [n for n, tensors in enumerate(warmups) if _fits(profile, tensors, batched)]
        low, best, high = batch_range(profile) if batched else (1, 1, 1)
        largest = max(config.max_batch_size, 1)
        sizes = sorted({min(size, largest) for size in (low, best, high)})
        for number in fitting:
            for size in sizes:
                if (number, size) not in seen:
                    seen.add((number, size))
                    _add(config, f"profile{index}_batch{size}_sample{number + 1}", size)
                    _from_files(config.model_warmup[-1], warmups[number])
        if not fitting and warmups:
            for size in sizes:
                _add(config, f"profile{index}_batch{size}_made_up", size)
                _made_up(config.model_warmup[-1], profile, ports, batched)
            notes.append(
                f"warm-up of profile {index} with made-up values: no sample has its shapes"
            )
    return notes


def _add(config: Any, name: str, size: int) -> None:
    entry = config.model_warmup.add()
    entry.name, entry.batch_size = name, size


def _from_files(entry: Any, tensors: Sequence[Tensor]) -> None:
    for tensor in tensors:
        item = entry.inputs[tensor.port.spec.name]
        item.data_type = schema.DataType.Value(tensor.port.type)
        item.dims.extend(tensor.dims)
        item.input_data_file = tensor.file


def _made_up(entry: Any, profile: Profile, ports: Sequence[Port], batched: bool) -> None:
    for port in ports:
        item = entry.inputs[port.spec.name]
        item.data_type = schema.DataType.Value(port.type)
        shape = profile.get(port.spec.name)
        dims = list(shape[1][1:] if batched else shape[1]) if shape else list(port.dims)
        item.dims.extend(dims or [1])
        if port.spec.is_float:
            item.random_data = True
        else:
            item.zero_data = True


def _fits(profile: Profile, tensors: Sequence[Tensor], batched: bool) -> bool:
    """Whether a sample's shapes are within a profile's, the batch aside."""
    for tensor in tensors:
        bounds = profile.get(tensor.port.spec.name)
        if bounds is None:
            continue
        low, high = (tuple(shape[1:] if batched else shape) for shape in (bounds[0], bounds[2]))
        dims = () if tensor.port.scalar else tensor.dims
        if len(dims) != len(low) or not all(
            least <= size <= most for least, size, most in zip(low, dims, high, strict=True)
        ):
            return False
    return True
