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
        "--replica-cpus", "The CPUs that Ray reserves for an instance.", 1.0, metavar="N"
    )
    target_ongoing_requests: int = _ray(
        "--target-ongoing-requests",
        "How many requests an instance should handle at once. Above that, Ray starts more "
        "instances, up to --max-instances.",
        2,
        metavar="N",
    )


def ray(request: Request) -> RayRequest:
    """The request with these."""
    return request.of(RayRequest)
