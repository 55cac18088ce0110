"""What is known of deployments without their code."""

from __future__ import annotations

from converter.protocols.spec import DeploymentSpec

_CLUSTER = ("registry", "base_image", "model_from", "replicas", "memory_limit")

SPECS = {
    "docker": DeploymentSpec(options=("registry", "base_image", "try_image", "port")),
    "k8s": DeploymentSpec(options=_CLUSTER),
    "kserve": DeploymentSpec(options=(*_CLUSTER, "canary")),
}
