"""The options of Triton's model folders: ."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from converter.errors import UsageError
from converter.options.option import declared
from converter.options.request import Request
from emitters.serving.request import ServingRequest

HEADING = "Triton"
_NAME = re.compile(r"[^A-Za-z0-9_.-]+")

_triton = partial(declared, HEADING, affects=("package",))


@dataclass
class TritonRequest(ServingRequest):
    """What is asked of a model folder; docs/options.md lists it."""

    version_policy: str = _triton(
        "--version-policy",
        "The versions that are served: latest:N, all, or specific:N,N.",
        "latest:1",
        metavar="POLICY",
    )
    response_cache: bool = _triton(
        "--response-cache", "Let the server answer repeated requests from a cache.", False
    )
    optimization: str | None = _triton(
        "--optimization",
        "The backend's graph optimization level.",
        choices=("none", "basic", "extended", "all"),
    )
    instance_groups: list[str] = _triton(
        "--instance-group",
        "A group of instances as config.pbtxt writes it: 'kind: KIND_GPU count: 2 gpus: [0, "
        "1]', with host_policy and rate_limiter if needed. It replaces --instances and "
        "--instance-kind.",
        [],
        metavar="TEXT",
    )
    priority_levels: str | None = _triton(
        "--priority-levels",
        "The number of priority levels (1 is the highest), and after a colon the level of "
        "requests without one. Default: the last level.",
        metavar="N[:N]",
        needs="dynamic_batching",
    )
    queue_policies: list[str] = _triton(
        "--queue-policy",
        "How many requests may wait, and how long, as config.pbtxt writes it: 'max_queue_size: "
        "64 default_timeout_microseconds: 5000'. LEVEL= in front sets one priority level.",
        [],
        metavar="[LEVEL=]TEXT",
        needs="dynamic_batching",
    )
    sequence: bool = _triton(
        "--sequence",
        "Let the server keep the model's state between the requests of a sequence. The state is"
        " what the source keeps between calls.",
        False,
    )
    states: list[str] = _triton(
        "--state",
        "A state's input, and the output with its next value. The state starts as zeros. Repeat"
        " the option for more states.",
        [],
        metavar="INPUT=OUTPUT",
    )
    sequence_batching: str | None = _triton(
        "--sequence-batching",
        "How sequences are batched, as config.pbtxt writes it: 'direct { }', 'oldest { "
        "max_candidate_sequences: 8 }', with max_sequence_idle_microseconds and control_input "
        "if needed.",
        metavar="TEXT",
    )
    ragged: list[str] = _triton(
        "--ragged",
        "Join an input's requests without padding. TARGET is the input that separates them, and"
        " KIND is what it holds (BATCH_ACCUMULATED_ELEMENT_COUNT).",
        [],
        metavar="INPUT=KIND:TARGET",
        needs="dynamic_batching",
    )


def triton(request: Request) -> TritonRequest:
    """The request with these."""
    return request.of(TritonRequest)


def wanted_name(request: TritonRequest) -> str:
    """The model's name as it was asked for."""
    return request.name or Path(request.source).stem


def choose_name(request: TritonRequest) -> str:
    """The model's name as Triton can have it.

    Raises:
        UsageError: Nothing of it is left.
    """
    wanted = wanted_name(request)
    name = _NAME.sub("_", wanted).strip("._-")
    if not name:
        raise UsageError(
            f"{wanted!r} can't be the name of a Triton model",
            code="option-value",
            hint="Give --name with letters, digits, '_', '.' and '-'.",
        )
    return name
