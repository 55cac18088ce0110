"""An InferenceService of KServe for a server's package, and an InferenceGraph for a flow's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from converter import plugins
from converter.protocols.deployment import Deployable, Deployed
from converter.protocols.server import Server
from emitters.deploying.checks import require_sound
from emitters.deploying.docker import NOT_TRIED
from emitters.deploying.names import OfServers, Source, dns_name
from emitters.deploying.pods import CLOSED, container, decided, pod, resources, text_of
from emitters.deploying.request import deploying
from emitters.deploying.schemas import held_to_schemas
from emitters.deploying.spec import SPECS

MOUNT = "/mnt/models"
"""Where KServe puts what a storage URI names."""

VALID = "serving.kserve.io/v1beta1"


class KServeDeployment(OfServers, spec=SPECS["kserve"]):
    """A predictor: a runtime of KServe's own where one fits, else the package's image."""

    name = "kserve"

    def deploy(self, package: Deployable) -> Deployed:
        documents = [service_of(package)]
        if package.flow:
            documents.append(graph_of(package))
        require_sound(documents, package)
        name = dns_name(package.name)
        asked = deploying(package.request)
        notes = decided(package)
        if asked.canary is not None:
            notes.append(f"canary: {asked.canary} % of requests, where a revision is there already")
        if package.flow:
            notes.append("the graph has the flow's service as its only step, because KServe's "
                "steps can't crop between the parts")  # fmt: skip
        return Deployed(
            {f"{name}.yaml": text_of(*documents)},
            [
                f"kubectl apply --filename {{here}}/{name}.yaml",
                f"kubectl wait --for=condition=Ready inferenceservice/{name} --timeout=600s",
            ],
            {
                "schema": held_to_schemas(documents),
                "build": "no: the image is --deploy docker's",
                "run": "no: kubectl apply was not tried, because there is no cluster",
                "answer": NOT_TRIED,
            },
            notes,
        )


def service_of(package: Deployable) -> dict[str, Any]:
    """The InferenceService."""
    asked = deploying(package.request)
    source = Source.of(asked.model_from)
    uri = source.url or (f"pvc://{source.volume}" if source.volume else "")
    predictor: dict[str, Any] = dict(
        zip(("minReplicas", "maxReplicas"), asked.replicas, strict=True)
    )
    if asked.canary is not None:
        predictor["canaryTrafficPercent"] = asked.canary
    if uri and package.served.runtime:
        predictor["model"] = _by_runtime(package, uri)
    else:
        predictor |= _custom(package, source)
    name = dns_name(package.name)
    metadata = {"name": name, "labels": {"app.kubernetes.io/managed-by": "modelyard"}}
    return {
        "apiVersion": VALID,
        "kind": "InferenceService",
        "metadata": metadata,
        "spec": {"predictor": predictor},
    }


def _by_runtime(package: Deployable, uri: str) -> dict[str, Any]:
    """A runtime of KServe's: one that takes a repository, or else one model's folder."""
    runtime, kind, version = package.served.runtime or ("", "", "")
    server: Server = plugins.load("servers", package.server)
    return {
        "modelFormat": {"name": kind},
        "runtime": runtime,
        "protocolVersion": version,
        "storageUri": uri if server.several else f"{uri}/{package.name}",
        "resources": resources(package),
        "securityContext": {**CLOSED, "readOnlyRootFilesystem": False},  # it is not our image
    }


def _custom(package: Deployable, source: Source) -> dict[str, Any]:
    """The package's own image; what a URL names, KServe fetches."""
    if source.url:
        server: Server = plugins.load("servers", package.server)
        package = replace(package, served=server.deployed(package.package, MOUNT) or package.served)
    number = package.served.ports["http"]
    served = container(package, "kserve-container", [{"name": "http1", "containerPort": number}])
    made = pod(package, served)
    if source.url:
        del made["initContainers"]
        served["env"].append({"name": "STORAGE_URI", "value": source.url})
        served["workingDir"] = f"{MOUNT}/{package.name}"
        for listed in (served["volumeMounts"], made["volumes"]):
            listed[:] = [item for item in listed if item["name"] != "models"]
    return made


def graph_of(package: Deployable) -> dict[str, Any]:
    """An address of the flow's own, which further steps can be put behind."""
    name = dns_name(package.name)
    step = {"name": name, "serviceName": name}
    return {
        "apiVersion": "serving.kserve.io/v1alpha1",
        "kind": "InferenceGraph",
        "metadata": {"name": f"{name}-graph"},
        "spec": {"nodes": {"root": {"routerType": "Sequence", "steps": [step]}}},
    }
