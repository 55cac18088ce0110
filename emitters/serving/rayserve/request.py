"""The options of Ray Serve's deployments: ."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from converter.options.option import declared
from converter.options.request import Request
from emitters.serving.request import ServingRequest

HEADING = "Ray Serve"

_ray = partial(declared, HEADING, affects=("package",))


@dataclass
class RayRequest(ServingRequest):
    """What is asked of a deployment; docs/options.md lists it."""

    replica_cpus: float = _ray(
        "--replica-cpus", "CPUs that Ray sets aside for an instance.", 1.0, metavar="N"
    )
    target_ongoing_requests: int = _ray(
        "--target-ongoing-requests",
        "Requests an instance that Ray aims at, where it starts more of them (--max-instances).",
        2,
        metavar="N",
    )


def ray(request: Request) -> RayRequest:
    """The request with these."""
    return request.of(RayRequest)
