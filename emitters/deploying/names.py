"""Names that clusters and registries can have, and what is refused of the options early."""

from __future__ import annotations

import re
from dataclasses import dataclass

from converter.errors import UsageError
from converter.options.request import Request
from converter.protocols.deployment import Deployable, Deployment
from emitters.deploying.request import DeployRequest, deploying

LONGEST = 50
"""Characters of a name: 63 of a label of DNS (RFC 1123), less what is put behind it."""

_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_REPOSITORY = re.compile(r"[a-z0-9.-]+(:[0-9]+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*")
_TAGGED = re.compile(r"[^\s:@]+(:[0-9]+/[^\s:@]+)?(:[\w.-]+|@sha256:[0-9a-f]{64})")
_URL = re.compile(r"(s3|gs|https?|hf|hdfs|abfss?)://[^\s]+")


def dns_name(name: str) -> str:
    """The name as a label of DNS: in lower case, a hyphen for each ``_`` and ``.``.

    Raises:
        UsageError: That isn't one.
    """
    made = re.sub(r"[_.]", "-", name.lower())
    if len(made) > LONGEST or not _LABEL.fullmatch(made):
        raise UsageError(
            f"--deploy: {name!r} isn't a valid DNS name (RFC 1123)",
            code="deployment",
            hint=f"Give --name: at most {LONGEST} of a-z, 0-9 and hyphens, with a letter first "
            "and no hyphen last.",
        )
    return made


@dataclass(frozen=True)
class Source:
    """Where pods have the package from.

    Attributes:
        volume: The claim of a volume; empty otherwise.
        url: Of a storage; empty otherwise.
    """

    volume: str = ""
    url: str = ""

    @classmethod
    def of(cls, text: str) -> Source:
        """As ``--model-from`` has it.

        Raises:
            UsageError: It is none of the three.
        """
        kind, _, name = text.partition(":")
        if text == "image":
            return cls()
        if kind == "pvc" and _LABEL.fullmatch(name) and len(name) <= 63:
            return cls(volume=name)
        if _URL.fullmatch(text):
            return cls(url=text.rstrip("/"))
        raise UsageError(
            f"--model-from {text}: the value has to be image, pvc:NAME or a URL",
            code="deployment",
            hint="NAME is a DNS name; a URL begins with s3://, gs:// or https://.",
        )


def image_of(package: Deployable) -> str:
    """``HOST/PATH/net-litserve:1``: the image that is built, with the model's version."""
    registry = deploying(package.request).registry
    name = f"{dns_name(package.name)}-{package.server}:{package.served.version}"
    return f"{registry.rstrip('/')}/{name}" if registry else name


class OfServers(Deployment):
    """A deployment of any server's package."""

    def check(self, name: str, request: Request) -> None:
        dns_name(name)
        require(deploying(request))


def require(asked: DeployRequest) -> None:
    """Refuses options that are wrong in themselves.

    Raises:
        UsageError: The first that is.
    """
    if asked.registry and not _REPOSITORY.fullmatch(asked.registry.rstrip("/")):
        raise UsageError(
            f"--registry {asked.registry}: the form is HOST/PATH, in lower case, without a tag",
            code="deployment",
        )
    if asked.base_image and not _TAGGED.fullmatch(asked.base_image):
        raise UsageError(
            f"--base-image {asked.base_image}: it has no tag and no digest",
            code="deployment",
            hint="Without a tag, the image may be another one tomorrow. Write name:1.2 or "
            "name@sha256:...",
        )
    Source.of(asked.model_from)
    if len(asked.replicas) != 2 or not 1 <= asked.replicas[0] <= asked.replicas[1]:
        said = ",".join(map(str, asked.replicas))
        raise UsageError(
            f"--replicas {said}: the form is MIN,MAX, with MIN at least 1 and at most MAX",
            code="deployment",
        )
    if asked.canary is not None and not 0 <= asked.canary <= 100:
        raise UsageError(
            f"--canary {asked.canary}: give a percentage from 0 to 100", code="deployment"
        )
