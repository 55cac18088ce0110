"""What is wrong with an engine in a Triton folder, or with what one is built from.

The rules are those of Triton's core (``ValidateInstanceGroup``: profiles are for the platform
``tensorrt_plan`` alone) and of its tensorrt backend (instances on GPUs only, ``model.plan``).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tritonclient.grpc import model_config_pb2 as schema

from converter.errors import ModelyardError
from converter.files.digest import file_digest
from emitters.serving.triton.config import describe_ports, read_config
from emitters.serving.triton.engine import ENGINE_BACKEND, PLAN_FILE, PLATFORM
from emitters.tensorrt.engine_script.lock import LOCK_NAME
from emitters.tensorrt.engine_script.switching import ENGINE_CONFIG
from emitters.tensorrt.plan_header import read_header
from emitters.tensorrt.script import SCRIPT_NAME


def is_engine(config: Any) -> bool:
    """Whether a configuration is for an engine."""
    return bool(config.backend == ENGINE_BACKEND or config.platform == PLATFORM)


def group_problems(config: Any) -> Iterator[str]:
    """Where instances can't run as the configuration says, a line each."""
    for group in config.instance_group:
        kind = schema.ModelInstanceGroup.Kind.Name(group.kind)
        if not is_engine(config):
            if group.profile:
                yield f"profiles {list(group.profile)} without an engine"
            continue
        if config.platform != PLATFORM:
            yield f"platform {config.platform or 'none'}: profiles need {PLATFORM}"
        if kind != "KIND_GPU":
            yield f"instances of {kind}: an engine needs KIND_GPU"
        odd = [name for name in group.profile if not name.isdecimal()]
        if odd:
            yield f"profile {odd[0]!r} isn't a number"


def plan_problems(version: Path, config: Any) -> Iterator[str]:
    """What of a version's engine the server would not load, a line each."""
    plan = version / (config.default_model_filename or PLAN_FILE)
    if not plan.is_file():
        yield f"version {version.name} holds no {plan.name}"
        return
    try:
        header = read_header(plan)
    except ModelyardError as error:
        yield f"version {version.name}: {error.message}"
        return
    if header.target != ENGINE_BACKEND:
        yield f"version {version.name}: {plan.name} is of {header.target}, which Triton can't load"


def deferral_problems(version: Path, config: Path) -> Iterator[str]:
    """What is wrong with the lock of a version, and with what it names; nothing without one."""
    file = version / LOCK_NAME
    if not file.is_file():
        return
    lock: Mapping[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    model = lock["model"]
    arrays = [
        item
        for sample in (lock["samples"] or {"items": []})["items"]
        for item in (*sample["feeds"].values(), *sample["expected"].values())
    ]
    for item in (model, *model["weights"], *arrays):
        path = version / item["file"]
        if not path.is_file() or file_digest(path) != item["sha256"]:
            yield f"version {version.name}: {item['file']} is not as {LOCK_NAME} says"
    if not (version / SCRIPT_NAME).is_file():
        yield f"version {version.name} holds no {SCRIPT_NAME}"
    yield from _config_problems(version / ENGINE_CONFIG, config)


def _config_problems(later: Path, now: Path) -> Iterator[str]:
    """Where the engine's configuration isn't one for an engine of the same interface."""
    try:
        engine, served = read_config(later), read_config(now)
    except ModelyardError as error:
        yield error.message
        return
    yield from (f"{later.name}: {text}" for text in group_problems(engine))
    if not is_engine(engine) or engine.name != served.name:
        yield f"{later.name} isn't a configuration of {served.name}'s engine"
    if engine.max_batch_size != served.max_batch_size:
        yield f"{later.name}: max_batch_size {engine.max_batch_size}, now {served.max_batch_size}"
    for kind in ("input", "output"):
        if describe_ports(getattr(engine, kind)) != describe_ports(getattr(served, kind)):
            yield f"{later.name}: other {kind}s than {now.name}"
