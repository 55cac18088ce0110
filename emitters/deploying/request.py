"""The options of deployments."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from converter.options.option import declared
from converter.options.request import Request

_deploying = partial(declared, "Deploying", affects=("results",))


@dataclass
class DeployRequest(Request):
    """What is asked of deployments; docs/options.md lists it."""

    registry: str | None = _deploying(
        "--registry",
        "The registry of the image: HOST/PATH in front of its name.",
        metavar="HOST/PATH",
    )
    base_image: str | None = _deploying(
        "--base-image",
        "The base image with its tag. Default: the server's own image, or Python's.",
        metavar="IMAGE",
    )
    try_image: bool = _deploying(
        "--try-image",
        "Build the image with docker or podman, start it, run its self-test inside, and remove it. "
        "The report says what came of it, and how large the image is.",
        False,
    )
    port: int | None = _deploying(
        "--port",
        "The first port of this machine at which compose.yaml and the README's line publish the "
        "image; the server's other ports follow it. A port that is taken is refused. Default: the "
        "server's own numbers.",
        metavar="N",
    )
    model_from: str = _deploying(
        "--model-from",
        "Where pods get the package: image, pvc:NAME, or a URL (s3, gs, https). A volume or URL"
        " holds the content of serving/SERVER.",
        "image",
        metavar="image|pvc:NAME|URL",
    )
    replicas: list[int] = _deploying(
        "--replicas",
        "The smallest and the largest number of pods, separated by a comma.",
        [2, 4],
        metavar="MIN,MAX",
        split=True,
    )
    memory_limit: int | None = _deploying(
        "--memory-limit",
        "The most memory of a pod in megabytes. Default: twice the measured memory, or an "
        "estimate from the files.",
        metavar="MB",
    )
    canary: int | None = _deploying(
        "--canary",
        "The share of requests that the new revision gets, in percent.",
        metavar="PERCENT",
    )


def deploying(request: Request) -> DeployRequest:
    """The request with these."""
    return request.of(DeployRequest)
