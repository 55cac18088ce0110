"""Runs an engine on the locked samples and compares it with the source framework's outputs.

Nothing here has run on a GPU yet: in the tests, ONNX Runtime stands for TensorRT and the host's
memory for the device's, behind the real names and the driver's C interface.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from emitters.tensorrt.engine_script.comparing import SIZES, Tally
from emitters.tensorrt.engine_script.driver import Driver
from emitters.tensorrt.engine_script.lock import require_file
from emitters.tensorrt.engine_script.refusals import GATE, MODEL, Stopped

DTYPES = {
    "FLOAT": "float32", "HALF": "float16", "BF16": "bfloat16", "INT8": "int8", "UINT8": "uint8",
    "INT32": "int32", "INT64": "int64", "BOOL": "bool",
}  # fmt: skip
"""The members of TensorRT's ``DataType`` that inputs and outputs may have here."""


class Engine:
    """A plan, deserialized on the GPU.

    Args:
        trt: The library's module.
        plan: The serialized engine.
        log: The library's logger.

    Raises:
        Stopped: There is no GPU, or the library doesn't take the plan here.
    """

    def __init__(self, trt: Any, plan: bytes, log: Any) -> None:
        self.driver = Driver()
        self._runtime = trt.Runtime(log)
        self._engine = self._runtime.deserialize_cuda_engine(plan)
        if self._engine is None:
            raise Stopped(MODEL, "the engine that was built can't be loaded", log.kept[-20:])
        self._context = self._engine.create_execution_context()
        count = self._engine.num_io_tensors
        self._names = [self._engine.get_tensor_name(index) for index in range(count)]

    def interface(self) -> dict[str, tuple[str, str, tuple[int, ...]]]:
        """For each tensor by name: ``INPUT`` or ``OUTPUT``, its dtype and its shape; -1 is free."""
        return {
            name: (
                self._engine.get_tensor_mode(name).name,
                DTYPES.get(self._engine.get_tensor_dtype(name).name, "unknown"),
                tuple(self._engine.get_tensor_shape(name)),
            )
            for name in self._names
        }

    def run(
        self, feeds: Mapping[str, tuple[Sequence[int], bytes]], profile: int
    ) -> dict[str, tuple[tuple[int, ...], bytes]]:
        """Shape and bytes of every output, for those of every input.

        Raises:
            Stopped: The engine doesn't take the shapes, or failed.
        """
        driver, context = self.driver, self._context
        context.set_optimization_profile_async(profile, driver.stream)
        driver.wait()
        addresses: dict[str, int] = {}
        held = []  # what the library reads in the host's memory has to stay there
        try:
            for name, (shape, data) in feeds.items():
                if not context.set_input_shape(name, tuple(shape)):
                    raise Stopped(MODEL, f"the engine doesn't take {name} of shape {list(shape)}")
                if self._engine.get_tensor_location(name).name == "HOST":
                    held.append(ctypes.create_string_buffer(data, len(data)))
                    context.set_tensor_address(name, ctypes.addressof(held[-1]))
                    continue
                addresses[name] = driver.allocate(len(data))
                driver.upload(addresses[name], data)
            shapes = {name: tuple(context.get_tensor_shape(name)) for name in self._outputs(feeds)}
            for name, shape in shapes.items():
                addresses[name] = driver.allocate(self._size(name, shape))
            for name, address in addresses.items():
                context.set_tensor_address(name, address)
            if not context.execute_async_v3(driver.stream):
                raise Stopped(MODEL, "the engine failed to run")
            driver.wait()
            return {
                name: (shape, driver.download(addresses[name], self._size(name, shape)))
                for name, shape in shapes.items()
            }
        finally:
            for address in addresses.values():
                driver.free(address)

    def _outputs(self, feeds: Mapping[str, Any]) -> list[str]:
        return [name for name in self._names if name not in feeds]

    def _size(self, name: str, shape: Sequence[int]) -> int:
        if -1 in shape:
            raise Stopped(GATE, f"the shape of {name} depends on the data: it can't be verified")
        total = SIZES[DTYPES[self._engine.get_tensor_dtype(name).name]]
        for size in shape:
            total *= size
        return total


def interface_problems(
    found: Mapping[str, tuple[str, str, tuple[int, ...]]], lock: Mapping[str, Any]
) -> list[str]:
    """Where an engine's inputs and outputs aren't the locked ones, a line each."""
    problems = []
    expected = {
        item["name"]: (kind, item["dtype"], item["shape"])
        for kind, items in (("INPUT", "inputs"), ("OUTPUT", "outputs"))
        for item in lock["interface"][items]
    }
    for name in sorted({*found, *expected}):
        if name not in found or name not in expected:
            problems.append(f"{name}: {'not locked' if name in found else 'not in the engine'}")
            continue
        (kind, dtype, shape), (wanted, locked, dims) = found[name], expected[name]
        if (kind, dtype) != (wanted, locked):
            problems.append(f"{name}: {kind} {dtype}, locked as {wanted} {locked}")
        fits = len(shape) == len(dims) and all(
            size in (-1, dim) or isinstance(dim, str)
            for size, dim in zip(shape, dims)  # noqa: B905 - Python 3.9
        )
        if not fits:
            problems.append(f"{name}: shape {list(shape)}, locked as {dims}")
    return problems


def batches(lock: Mapping[str, Any], sample: Mapping[str, Any]) -> Iterator[tuple[int, int]]:
    """Each profile that takes a sample, and how many of it make that profile's best batch."""
    profiles = lock["options"]["profiles"] or [{}]
    for number, profile in enumerate(profiles):
        count = _best_batch(profile) if lock["interface"]["batched"] else 1
        shapes = {
            name: [count * item["shape"][0], *item["shape"][1:]] if item["shape"] else []
            for name, item in sample["feeds"].items()
        }
        if all(_within(profile.get(name), shape) for name, shape in shapes.items()):
            yield number, count


def _best_batch(profile: Mapping[str, Any]) -> int:
    return max((best[0] for _, best, _ in profile.values() if best), default=1)


def _within(limits: Any, shape: Sequence[int]) -> bool:
    if limits is None:
        return True
    smallest, _, largest = limits
    return len(shape) == len(smallest) and all(
        low <= size <= high
        for low, size, high in zip(smallest, shape, largest)  # noqa: B905 - Python 3.9
    )


def verify(engine: Any, folder: Path, lock: Mapping[str, Any]) -> list[str]:
    """Runs every locked sample in every profile that takes it; gives what was measured.

    Args:
        engine: An :class:`Engine`, or what has its ``interface`` and ``run``.
        folder: Where the lock and the samples' files lie.
        lock: The lock; its ``samples`` are there.

    Raises:
        Stopped: The interface is another, a gate was missed, or a profile takes no sample and
            nothing else was compared.
    """
    problems = interface_problems(engine.interface(), lock)
    if problems:
        raise Stopped(GATE, "the engine has other inputs or outputs than the lock", problems)
    outputs = {item["name"]: item for item in lock["interface"]["outputs"]}
    tallies: dict[tuple[int, str], Tally] = {}
    for sample in lock["samples"]["items"]:
        for profile, count in batches(lock, sample):
            found = engine.run(_feeds(folder, sample, count), profile)
            for name, item in sample["expected"].items():
                key = (profile, name)
                if key not in tallies:
                    known = outputs[name].get("value_range")
                    tallies[key] = Tally(name, item["dtype"], known)
                _compare(tallies[key], _read(folder, item), item, found[name], count)
    return _judge(tallies, lock)


def _judge(tallies: Mapping[tuple[int, str], Tally], lock: Mapping[str, Any]) -> list[str]:
    if not tallies:
        raise Stopped(GATE, "no locked sample fits a profile, so nothing could be compared")
    missed = [
        f"profile {profile}, {text}"
        for (profile, _), tally in tallies.items()
        for text in tally.failures(lock["gates"])
    ]
    if missed:
        raise Stopped(GATE, "the engine is not close enough to its source", missed)
    lines = [f"profile {profile}, {tally.describe()}" for (profile, _), tally in tallies.items()]
    run = {profile for profile, _ in tallies}
    count = len(lock["options"]["profiles"]) or 1
    return lines + [
        f"profile {number}: NOT VERIFIED, no locked sample has its shapes"
        for number in range(count)
        if number not in run
    ]


def _feeds(
    folder: Path, sample: Mapping[str, Any], count: int
) -> dict[str, tuple[Sequence[int], bytes]]:
    feeds = {}
    for name, item in sample["feeds"].items():
        shape = item["shape"]
        many = [count * shape[0], *shape[1:]] if shape else shape
        feeds[name] = (many, _read(folder, item) * (count if shape else 1))
    return feeds


def _read(folder: Path, item: Mapping[str, Any]) -> bytes:
    path: Path = folder / item["file"]
    require_file(path, item["sha256"])
    return path.read_bytes()


def _compare(
    tally: Tally,
    expected: bytes,
    item: Mapping[str, Any],
    found: tuple[Sequence[int], bytes],
    count: int,
) -> None:
    """Compares each element of the batch; those that are the same bytes as one before, once."""
    shape, data = found
    wanted = [count * item["shape"][0], *item["shape"][1:]] if item["shape"] else []
    if list(shape) != wanted:
        raise Stopped(GATE, f"{tally.name} has the shape {list(shape)}, not {wanted}")
    size = len(expected)
    parts = [data[index * size : (index + 1) * size] for index in range(count if wanted else 1)]
    for part in dict.fromkeys(parts):
        tally.add(expected, part)
