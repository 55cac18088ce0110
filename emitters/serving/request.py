"""The options that several servers have: .

A server names in its ``options`` those that it reads. Its own are in its folder, in a dataclass
that extends this one. Targets name those that their artifacts are made for.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from converter.errors import UsageError
from converter.options.option import declared
from converter.options.request import Request

_serving = partial(declared, "Serving", affects=("package",))


SHARED = (
    *("max_batch", "dynamic_batching", "queue_delay", "instances", "instance_kind", "warmup"),
)
"""The options that all Python servers take."""


@dataclass
class ServingRequest(Request):
    """What is asked of servers; docs/options.md lists it."""

    max_batch: int | None = _serving(
        "--max-batch",
        "The largest batch that the server may build. Default: 8 if the model takes batches, "
        "else 0.",
        metavar="N",
        affects=("emit", "package"),
    )
    dynamic_batching: bool = _serving(
        "--dynamic-batching/--no-dynamic-batching",
        "Let the server join requests into batches.",
        True,
    )
    preferred_batch: list[int] = _serving(
        "--preferred-batch",
        "The batch sizes that the server prefers, separated by commas.",
        [],
        metavar="N,N",
        split=True,
        needs="dynamic_batching",
        affects=("emit", "package"),
    )
    queue_delay: int = _serving(
        "--queue-delay",
        "How many microseconds a request may wait for a batch.",
        100,
        metavar="US",
        needs="dynamic_batching",
    )
    instances: int = _serving("--instances", "How many instances of the model run.", 1, metavar="N")
    max_instances: int | None = _serving(
        "--max-instances",
        "The most instances that the server may start under load. Default: --instances.",
        metavar="N",
    )
    request_timeout: int = _serving(
        "--request-timeout", "The most seconds that a request may take.", 60, metavar="S"
    )
    instance_kind: str | None = _serving(
        "--instance-kind",
        "The device of the instances. Default: cpu; gpu for TensorRT.",
        choices=("auto", "cpu", "gpu"),
        affects=("emit", "package"),
    )
    version: int = _serving(
        "--version", "The model's version number in the package.", 1, metavar="N"
    )
    version_label: str | None = _serving(
        "--version-label",
        "The label by which clients ask for the version, where the server has labels (tfserving): "
        "stable, canary. Default: stable.",
        metavar="NAME",
    )
    warmup: int = _serving(
        "--warmup", "How many samples warm up each batch size. 0 means no warm-up.", 1, metavar="N"
    )
    parameters: dict[str, str] = _serving(
        "--parameter", "A parameter for the server's configuration.", {}, metavar="NAME=VALUE"
    )


def serving(request: Request) -> ServingRequest:
    """The request with these."""
    return request.of(ServingRequest)


def refuse_label(request: ServingRequest, title: str) -> None:
    """Refuses a version's label for a server that has none.

    Raises:
        UsageError: There is one.
    """
    if request.version_label is not None:
        raise UsageError(
            f"--version-label {request.version_label}: {title} has no labels for versions",
            code="option-not-applicable",
            hint="Clients use the version's number. TensorFlow Serving has labels: --serve "
            "tfserving.",
        )
