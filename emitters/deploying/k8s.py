"""Manifests for Kubernetes: plain YAML, and kustomize with overlays."""

from __future__ import annotations

from typing import Any

from converter.protocols.deployment import Deployable, Deployed
from emitters.deploying.checks import require_sound
from emitters.deploying.docker import NOT_TRIED
from emitters.deploying.names import OfServers, Source, dns_name
from emitters.deploying.pods import container, decided, pod, text_of
from emitters.deploying.request import deploying
from emitters.deploying.schemas import held_to_schemas
from emitters.deploying.spec import SPECS

BUSY = 70
"""Percent of the CPU asked for at which pods are added."""

GPU = "nvidia.com/gpu"


class KubernetesDeployment(OfServers, spec=SPECS["k8s"]):
    """A Deployment, what balances, scales and guards it."""

    name = "k8s"

    def deploy(self, package: Deployable) -> Deployed:
        documents = documents_of(package)
        require_sound(documents, package)
        files = {"base/resources.yaml": text_of(*documents)}
        files["base/kustomization.yaml"] = text_of(_kustomization(resources=["resources.yaml"]))
        for name, own in overlays(package).items():
            made = _kustomization(resources=["../../base"], **own)
            files[f"overlays/{name}/kustomization.yaml"] = text_of(made)
        best = "gpu" if package.served.gpu else "cpu"
        return Deployed(
            files,
            [
                f"kubectl apply --kustomize {{here}}/overlays/{best}",
                f"kubectl rollout status deployment/{dns_name(package.name)}",
            ],
            {
                "schema": held_to_schemas(documents),
                "build": "no: the image is --deploy docker's",
                "run": "no: kubectl apply was not tried, because there is no cluster",
                "answer": NOT_TRIED,
            },
            decided(package),
        )


def documents_of(package: Deployable) -> list[dict[str, Any]]:
    """All of one package, selected by one label."""
    name = dns_name(package.name)
    asked = deploying(package.request)
    label = {"app.kubernetes.io/name": name, "app.kubernetes.io/component": package.server}
    selector = {"matchLabels": label}

    def made(kind: str, version: str, spec: dict[str, Any]) -> dict[str, Any]:
        labels = {**label, "app.kubernetes.io/managed-by": "modelyard"}
        metadata = {"name": name, "labels": labels}
        return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}

    ports = [{"name": key, "containerPort": number} for key, number in _ports(package)]
    deployment = {
        "selector": selector,
        "minReadySeconds": 5,
        "revisionHistoryLimit": 5,
        # A new pod is ready once its model is warm, and an old one goes after that alone.
        "strategy": {
            "type": "RollingUpdate",
            "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0},
        },
        "template": {
            "metadata": {"labels": label, **_scraped(package)},
            "spec": {
                **pod(package, container(package, "server", ports)),
                "topologySpreadConstraints": [_spread(selector)],
            },
        },
    }
    open_ports = [
        {"name": key, "port": number, "targetPort": key} for key, number in _ports(package)
    ]
    scaled = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
        **dict(zip(("minReplicas", "maxReplicas"), asked.replicas, strict=True)),
        "metrics": [
            {
                "type": "Resource",
                "resource": {
                    "name": "cpu",
                    "target": {"type": "Utilization", "averageUtilization": BUSY},
                },
            }
        ],
    }
    guarded = {"podSelector": selector, "policyTypes": ["Ingress", "Egress"],
               "ingress": _from(package), "egress": _to(Source.of(asked.model_from))}  # fmt: skip
    return [
        made("Deployment", "apps/v1", deployment),
        made("Service", "v1", {"selector": label, "ports": open_ports}),
        made("HorizontalPodAutoscaler", "autoscaling/v2", scaled),
        made("PodDisruptionBudget", "policy/v1", {"selector": selector, "maxUnavailable": 1}),
        made("NetworkPolicy", "networking.k8s.io/v1", guarded),
    ]


def _ports(package: Deployable) -> list[tuple[str, int]]:
    """Names as Kubernetes has them."""
    return [(name.replace("_", "-"), number) for name, number in package.served.ports.items()]


def _spread(selector: dict[str, Any]) -> dict[str, Any]:
    return {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": selector,
    }


def _scraped(package: Deployable) -> dict[str, Any]:
    """Where Prometheus finds metrics, in the annotations that its usual configuration reads."""
    if not package.served.metrics:
        return {}
    port, path = package.served.metrics
    told = {"scrape": "true", "port": str(package.served.ports[port]), "path": path}
    return {"annotations": {f"prometheus.io/{key}": value for key, value in told.items()}}


def _from(package: Deployable) -> list[dict[str, Any]]:
    """Pods of the namespace ask the model; metrics are for all namespaces."""
    numbers = dict(package.served.ports)
    found: list[dict[str, Any]] = []
    if package.served.metrics and package.served.metrics[0] != "http":
        metrics = [{"port": numbers.pop(package.served.metrics[0])}]
        found.append({"from": [{"namespaceSelector": {}}], "ports": metrics})
    asked = [{"port": number} for number in numbers.values()]
    return [{"from": [{"podSelector": {}}], "ports": asked}, *found]


def _to(source: Source) -> list[dict[str, Any]]:
    """Nowhere; to a storage where a URL names one."""
    if not source.url:
        return []
    names = [{"port": 53, "protocol": protocol} for protocol in ("UDP", "TCP")]
    return [{"ports": names}, {"ports": [{"port": 443}]}]


def overlays(package: Deployable) -> dict[str, dict[str, Any]]:
    """``cpu`` as the base is, where that needs no GPU; ``gpu`` with one a pod."""
    limits = {"resources": {"limits": {GPU: "1"}}}
    spec = {
        "containers": [{"name": "server", **limits}],
        "tolerations": [{"key": GPU, "operator": "Exists", "effect": "NoSchedule"}],
    }
    name = dns_name(package.name)
    patch = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"template": {"spec": spec}},
    }
    gpu = {"patches": [{"patch": text_of(patch), "target": {"kind": "Deployment", "name": name}}]}
    return {"gpu": gpu} if package.served.gpu else {"cpu": {}, "gpu": gpu}


def _kustomization(**fields: Any) -> dict[str, Any]:
    return {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", **fields}
