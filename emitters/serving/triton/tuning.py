"""What of a Triton package is tuned: instances, batches, waiting, threads, workers of a stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tritonclient.grpc import model_config_pb2 as schema

from converter.errors import UsageError
from converter.protocols.server import Knob, Turned, Value
from emitters.serving.triton.config import CONFIG_NAME, read_config, version_numbers, write_config
from emitters.serving.triton.front_files import FLOW, called_by, calls
from emitters.serving.triton.scheduling import kind_of
from emitters.serving.triton.validate_engine import is_engine
from emitters.serving.tuning import DELAYS, cores, numbers, powers
from emitters.tensorrt.engine_script.lock import LOCK_NAME

INSTANCES, BATCH, DELAY, THREADS = "instances", "preferred batch", "queue delay us", "threads"
STAGE, STAGE_THREADS = "stage workers", "stage threads"
"""Instances of the model in front, which prepares files, and requests that each works on."""

FRONT_THREADS = "threads"
"""The parameter of :mod:`emitters.serving.triton.front_model`."""

OFF, ANY = "off", "any"
"""Of the preferred batch: no dynamic batching, and one that prefers no size."""

_THREADS = {"onnxruntime": "intra_op_thread_count", "python": "intra_op_thread_count",
            "pytorch": "INTRA_OP_THREAD_COUNT"}  # fmt: skip
"""The parameter of each backend that says how many threads a run has."""


def knobs(folder: Path) -> Sequence[Knob]:
    """Of a package, and of the model that it asks.

    Raises:
        UsageError: It is a flow, its engine isn't built yet, or its answers come from a cache.
    """
    config = read_config(folder / CONFIG_NAME)
    if called_by(config):
        _require_no_flow(folder)
        (behind,) = calls(folder)
        threads = _parameter(config, FRONT_THREADS)
        own = (_instances(STAGE, config), _threads(STAGE_THREADS, 4 * cores(), threads))
        return [*knobs(behind), *(replace(knob, of_files=True) for knob in own)]
    if any((folder / str(number) / LOCK_NAME).is_file() for number in version_numbers(folder)):
        raise UsageError(
            f"{folder.name} holds no engine yet, and the script that builds the engine "
            "writes the settings",
            code="package-incomplete",
            hint="Build it first. Its README says how.",
        )
    if config.response_cache.enable:
        raise UsageError(
            f"{folder.name} has a response cache, so tune would measure the cache",
            code="option-not-applicable",
            hint="Remove response_cache from its config.pbtxt while you tune it.",
        )
    found = [_instances(INSTANCES, config)] if _one_group(config) else []
    found += [*_batching(config)]
    if config.backend in _THREADS and not _on_gpus(config) and not is_engine(config):
        now = _parameter(config, _THREADS[config.backend])
        found.append(_threads(THREADS, cores(), now))
    return found


def _threads(name: str, most: int, now: int) -> Knob:
    """0: as many as what runs it chooses."""
    return Knob(name, numbers([0, *powers(most)], now), now)


def _parameter(config: Any, name: str) -> int:
    """A number among the configuration's parameters; 0 where it isn't there."""
    said = config.parameters[name].string_value if name in config.parameters else ""
    return int(said) if said.isdecimal() else 0


def _require_no_flow(folder: Path) -> None:
    if any((folder / str(number) / FLOW).is_file() for number in version_numbers(folder)):
        raise UsageError(
            f"{folder.name} is a flow of several models, and tune takes one model at a time",
            code="choose-one",
            hint=f"Name one: {', '.join(path.name for path in calls(folder))}.",
        )


def _one_group(config: Any) -> bool:
    """Whether its instances are of one kind, and nothing else limits them."""
    groups = config.instance_group
    return len(groups) == 1 and not groups[0].HasField("rate_limiter")


def _on_gpus(config: Any) -> bool:
    return any(kind_of(group) != "KIND_CPU" for group in config.instance_group)


def _instances(name: str, config: Any) -> Knob:
    now = config.instance_group[0].count or 1
    return Knob(name, numbers(powers(2 * cores()), now), now)


def _batching(config: Any) -> list[Knob]:
    if config.max_batch_size < 2 or config.HasField("sequence_batching"):
        return []
    batching = config.dynamic_batching
    sizes = [*batching.preferred_batch_size]
    now: Value = (
        OFF if not config.HasField("dynamic_batching") else ANY if not sizes else _shown(sizes)
    )
    own = [now] if len(sizes) > 1 else []
    # queues' priorities and policies are the dynamic batcher's, and go with it
    without = [] if batching.priority_levels or batching.HasField("default_queue_policy") else [OFF]
    more = numbers(powers(config.max_batch_size)[1:], sizes[0] if len(sizes) == 1 else 2)
    delay = batching.max_queue_delay_microseconds
    return [
        Knob(BATCH, [*without, ANY, *more, *own], now),
        Knob(DELAY, numbers(DELAYS, delay), delay),
    ]


def _shown(sizes: Sequence[int]) -> Value:
    return sizes[0] if len(sizes) == 1 else ",".join(map(str, sizes))


def turned(folder: Path, values: Mapping[str, Value]) -> Turned:
    """The configurations of the package, and of the model that it asks, at these values."""
    config = read_config(folder / CONFIG_NAME)
    if called_by(config):
        (behind,) = calls(folder)
        made = turned(behind, values)
        if STAGE not in values:
            return made
        config.instance_group[0].count = int(values[STAGE])
        _set_parameter(config, FRONT_THREADS, int(values[STAGE_THREADS]))
        details = {**made.details, "stage_workers": values[STAGE]}
        return Turned({**made.files, folder / CONFIG_NAME: write_config(config)}, details)
    details = {}
    if INSTANCES in values:
        config.instance_group[0].count = int(values[INSTANCES])
        details["instances"] = values[INSTANCES]
    if BATCH in values:
        _batch(config, values[BATCH], int(values[DELAY]))
        details["dynamic_batching"] = values[BATCH] != OFF
    if THREADS in values:
        _set_parameter(config, _THREADS[config.backend], int(values[THREADS]))
    return Turned({folder / CONFIG_NAME: write_config(config)}, details)


def _batch(config: Any, batch: Value, delay: int) -> None:
    if batch == OFF:
        config.ClearField("dynamic_batching")
        return
    kept = schema.ModelDynamicBatching()
    kept.CopyFrom(config.dynamic_batching)
    kept.ClearField("preferred_batch_size")
    if batch != ANY:
        kept.preferred_batch_size.extend(map(int, str(batch).split(",")))
    kept.max_queue_delay_microseconds = delay
    config.dynamic_batching.CopyFrom(kept)


def _set_parameter(config: Any, name: str, count: int) -> None:
    if count:
        config.parameters[name].string_value = str(count)
    elif name in config.parameters:
        del config.parameters[name]
