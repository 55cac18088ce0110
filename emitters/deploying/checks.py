"""What schemas can't see of manifests: that names, labels, ports, probes and volumes agree."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from converter.errors import InternalError
from converter.protocols.deployment import Deployable

LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
PORT = re.compile(r"(?=.*[a-z])[a-z0-9]([-a-z0-9]{0,13}[a-z0-9])?")

Document = Mapping[str, Any]


def require_sound(documents: Sequence[Document], package: Deployable) -> None:
    """Refuses manifests that a cluster would take, and that wouldn't work there.

    Raises:
        InternalError: All that is wrong.
    """
    problems = [*problems_of(documents), *_of_package(documents, package)]
    if problems:
        raise InternalError("the manifests are not as they should be", details=problems)


def problems_of(documents: Sequence[Document]) -> list[str]:
    """What doesn't agree in manifests of one package, a line each."""
    found = []
    for item in documents:
        if not LABEL.fullmatch(name := item["metadata"]["name"]):
            found.append(f"{item['kind']}: {name!r} isn't a label of DNS-1123")
    pods = {labels_of(item): spec for item, spec in _pods(documents)}
    for item in documents:
        for place, selector in _selectors(item["spec"]):
            if not any(selector.items() <= dict(labels).items() for labels in pods):
                found.append(f"{item['kind']}: {place} matches no pod's labels")
    for spec in pods.values():
        found += _of_pod(spec)
    names = {port["name"] for spec in pods.values() for port in _ports(spec)}
    numbers = {port["containerPort"] for spec in pods.values() for port in _ports(spec)}
    kinds = {(item["kind"], item["metadata"]["name"]) for item in documents}
    for item in documents:
        spec = item["spec"]
        if item["kind"] == "Service":
            wrong = [port["targetPort"] for port in spec["ports"]]
            found += [f"Service: no port {w!r} is the pod's" for w in wrong if w not in names]
        if item["kind"] == "NetworkPolicy":
            wrong = [port["port"] for rule in spec["ingress"] for port in rule["ports"]]
            found += [f"NetworkPolicy: nobody listens on {w}" for w in wrong if w not in numbers]
        if (target := spec.get("scaleTargetRef")) and (target["kind"], target["name"]) not in kinds:
            found.append(f"{item['kind']}: there is no {target['kind']} {target['name']!r}")
    return found


def labels_of(item: Document) -> tuple[tuple[str, str], ...]:
    """A pod template's labels."""
    metadata = item["spec"].get("template", {}).get("metadata", {})
    return tuple(sorted(metadata.get("labels", {}).items()))


def _pods(documents: Sequence[Document]) -> Iterator[tuple[Document, dict[str, Any]]]:
    for item in documents:
        if item["kind"] == "Deployment":
            yield item, item["spec"]["template"]["spec"]
        elif "containers" in item["spec"].get("predictor", {}):
            yield item, item["spec"]["predictor"]


def _selectors(spec: Document) -> Iterator[tuple[str, Mapping[str, str]]]:
    for name in ("selector", "podSelector"):
        if selector := spec.get(name):
            yield name, selector.get("matchLabels", selector)


def _ports(spec: Document) -> list[dict[str, Any]]:
    return [port for item in spec["containers"] for port in item["ports"]]


def _of_pod(spec: Document) -> Iterator[str]:
    volumes = {item["name"] for item in spec["volumes"]}
    for item in [*spec["containers"], *spec.get("initContainers", ())]:
        for mount in item["volumeMounts"]:
            if mount["name"] not in volumes:
                yield f"{item['name']}: there is no volume {mount['name']!r}"
        need, most = (item["resources"][key]["memory"] for key in ("requests", "limits"))
        if _mib(need) > _mib(most):
            yield f"{item['name']}: it asks for {need} of memory, and may take {most}"
    ports = _ports(spec)
    for key in ("name", "containerPort"):
        values = [port[key] for port in ports]
        if len(set(values)) < len(values):
            yield f"two ports have one {key}: {values}"
    for port in ports:
        if not PORT.fullmatch(port["name"]):
            yield f"{port['name']!r} can't be a port's name"
    for item in spec["containers"]:
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            if item[probe]["httpGet"]["port"] not in {port["name"] for port in item["ports"]}:
                yield f"{probe}: no port {item[probe]['httpGet']['port']!r} is the container's"


def _mib(text: str) -> int:
    return int(text[:-2]) * {"Mi": 1, "Gi": 1024}[text[-2:]]


def _of_package(documents: Sequence[Document], package: Deployable) -> Iterator[str]:
    """What doesn't agree with what the server says, and with what was measured."""
    served = package.served
    for _, spec in _pods(documents):
        (item,) = spec["containers"]
        odd = {port["containerPort"] for port in item["ports"]} - {*served.ports.values()}
        if odd:
            yield f"the server doesn't listen on {sorted(odd)}"
        paths = {item[f"{kind}Probe"]["httpGet"]["path"] for kind in ("startup", "readiness")}
        if paths != {served.ready} or item["livenessProbe"]["httpGet"]["path"] != served.live:
            yield "probes ask for other paths than the server answers"
        most = _mib(item["resources"]["limits"]["memory"]) << 20
        if package.memory is not None and most < package.memory * served.instances:
            yield f"memory's limit is below the {package.memory} bytes that were measured"
