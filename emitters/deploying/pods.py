"""What pods of Kubernetes and of KServe have in common: container, probes, resources, volumes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from converter.errors import UsageError
from converter.protocols.deployment import Deployable
from converter.protocols.server import MODELS
from emitters.deploying.names import Source, image_of
from emitters.deploying.request import deploying

MIB = 1 << 20
BESIDE = 512
"""MiB for the server itself, beside the processes that hold the model: an allowance."""

STEP = 64
"""MiB that figures are rounded up to: runs that measure a little otherwise write the same."""

FETCHER = "kserve/storage-initializer:v0.21.0"
"""KServe's own image, which fetches what a URL names into a folder."""

GRACE = 60
"""Seconds in which a server ends what it has begun."""

CLOSED = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}


def memory_of(package: Deployable) -> tuple[int, int, str]:
    """MiB that a pod asks for, and may take, and where they are from.

    Raises:
        UsageError: ``--memory-limit`` is below what was measured.
    """
    needs, said = _needs(package)
    asked = -(-(needs + BESIDE) // STEP) * STEP
    limit = deploying(package.request).memory_limit
    if limit is not None and limit < needs:
        raise UsageError(
            f"--memory-limit {limit}: {package.name} needs {needs} MiB",
            code="deployment",
            hint=f"That is {said}. Give more, because the server itself needs memory too.",
        )
    told = f"{asked} MiB: {said}, and {BESIDE} for the server, an allowance"
    return min(asked, limit or asked), limit or 2 * asked, told


def _needs(package: Deployable) -> tuple[int, str]:
    """MiB, and where that is from."""
    count = package.served.instances
    if package.memory is not None:
        said = f"{count} x the most memory of the artifact's process during the run"
        return -(-package.memory * count // MIB), said
    folders = (package.package, *package.beside)
    size = sum(f.stat().st_size for folder in folders for f in folder.rglob("*") if f.is_file())
    said = f"{count} x twice the files' size, as nothing was measured"
    return -(-2 * size // MIB) * count, said


def resources(package: Deployable) -> dict[str, Any]:
    """What a pod asks for, and may take: of CPU as much as there is."""
    asked, limit, _ = memory_of(package)
    made: dict[str, Any] = {
        "requests": {"cpu": str(package.served.instances), "memory": f"{asked}Mi"},
        "limits": {"memory": f"{limit}Mi"},
    }
    if package.served.gpu:
        made["limits"]["nvidia.com/gpu"] = "1"
    return made


def probes(package: Deployable, port: str | int = "http") -> dict[str, Any]:
    """Traffic comes once the model is loaded and warm; what doesn't live is started again."""

    def get(path: str, **times: int) -> dict[str, Any]:
        return {"httpGet": {"path": path, "port": port}, "timeoutSeconds": 5, **times}

    served = package.served
    return {
        "startupProbe": get(served.ready, periodSeconds=5, failureThreshold=60),
        "readinessProbe": get(served.ready, periodSeconds=5, failureThreshold=2),
        "livenessProbe": get(served.live, periodSeconds=10, failureThreshold=3),
    }


def container(package: Deployable, name: str, ports: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The server; what it writes goes into ``/tmp`` and shared memory alone.

    Args:
        package: What is deployed.
        name: The container's.
        ports: As Kubernetes has them; the first one is probed.

    Returns:
        The container, as Kubernetes has it in a manifest.
    """
    served = package.served
    mounts: list[dict[str, Any]] = [
        {"name": "tmp", "mountPath": "/tmp"},
        {"name": "shm", "mountPath": "/dev/shm"},
    ]
    if Source.of(deploying(package.request).model_from) != Source():
        mounts.append({"name": "models", "mountPath": MODELS, "readOnly": True})
    variables = {"HOME": "/tmp", **served.variables}
    return {
        "name": name,
        "image": image_of(package),
        "imagePullPolicy": "IfNotPresent",
        "command": list(served.command),
        "workingDir": f"{MODELS}/{package.name}",
        "env": [{"name": key, "value": value} for key, value in variables.items()],
        "ports": list(ports),
        **probes(package, str(ports[0]["name"])),
        "resources": resources(package),
        "securityContext": CLOSED,
        "volumeMounts": mounts,
    }


def pod(package: Deployable, served: dict[str, Any]) -> dict[str, Any]:
    """A pod's specification around the server's container."""
    source, user = Source.of(deploying(package.request).model_from), package.served.user
    volumes: list[dict[str, Any]] = [
        {"name": "tmp", "emptyDir": {"sizeLimit": "1Gi"}},
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "256Mi"}},
    ]
    made: dict[str, Any] = {
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": GRACE,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": user,
            "runAsGroup": user,
            "fsGroup": user,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    if source.volume:
        claim = {"claimName": source.volume, "readOnly": True}
        volumes.append({"name": "models", "persistentVolumeClaim": claim})
    if source.url:
        volumes.append({"name": "models", "emptyDir": {}})
        mounts = [{"name": name, "mountPath": path} for name, path in
                  (("models", MODELS), ("tmp", "/tmp"))]  # fmt: skip
        made["initContainers"] = [
            {
                "name": "fetch",
                "image": FETCHER,
                "args": [source.url, MODELS],
                "env": [{"name": "HOME", "value": "/tmp"}],
                "resources": {
                    "requests": {"cpu": "100m", "memory": "100Mi"},
                    "limits": {"memory": "1Gi"},
                },
                "securityContext": CLOSED,
                "volumeMounts": mounts,
            }
        ]
    return {**made, "containers": [served], "volumes": volumes}


def decided(package: Deployable) -> list[str]:
    """What was chosen, a line each."""
    lines = [f"memory: {memory_of(package)[2]}", *package.served.notes]
    lines.append(f"CPU: one core a process is asked for ({package.served.instances}), no limit")
    return lines


class _Plain(yaml.SafeDumper):
    """YAML without anchors, which people read."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def text_of(*documents: dict[str, Any]) -> str:
    """YAML of documents, keys in their order."""
    return yaml.dump_all(documents, Dumper=_Plain, sort_keys=False, allow_unicode=True)


def context_of(package: Deployable) -> Path:
    """The folder that images are built of, by path in the output's."""
    return package.package.parent.relative_to(package.root)
