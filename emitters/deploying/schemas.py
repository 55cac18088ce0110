"""Manifests held to Kubernetes' and KServe's schemas, where these are here.

Kubernetes' come with the package ``kubernetes-validate``; KServe's are the definitions in its
``config/crd/full``, in a folder that the variable ``MODELYARD_CRDS`` names.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml

from converter.errors import InternalError

CRDS = "MODELYARD_CRDS"
RELEASE = "1.34"
"""Of Kubernetes."""


def held_to_schemas(documents: Sequence[Mapping[str, Any]]) -> str:
    """Says what documents were held to.

    Raises:
        InternalError: One doesn't keep to its schema.
    """
    problems = [f"{item['kind']}: {line}" for item in documents for line in problems_of(item)]
    if problems:
        raise InternalError("the manifests don't fit their schemas", details=problems)
    said = dict.fromkeys(_how(item["apiVersion"]) for item in documents)
    return "; ".join(
        [*said, "Modelyard's own checks of selectors, ports, probes and limits passed"]
    )


def _how(version: str) -> str:
    if version.startswith("serving.kserve.io"):
        return "kept to KServe's" if os.environ.get(CRDS) else f"KServe's isn't here ({CRDS})"
    if find_spec("kubernetes_validate") is None:
        return "Kubernetes' isn't here (pip install kubernetes-validate)"
    return f"kept to Kubernetes {RELEASE}'s"


def problems_of(document: Mapping[str, Any]) -> Iterator[str]:
    """What doesn't keep to a document's schema; nothing where that isn't here."""
    group, _, version = document["apiVersion"].partition("/")
    if group == "serving.kserve.io":
        if folder := os.environ.get(CRDS):
            yield from _of_kserve(document, version, Path(folder))
    elif find_spec("kubernetes_validate") is not None:
        import kubernetes_validate

        try:
            kubernetes_validate.validate(dict(document), RELEASE, strict=True)
        except kubernetes_validate.ValidationError as error:
            yield f"{'.'.join(map(str, error.path))}: {error.message}"


def _of_kserve(document: Mapping[str, Any], version: str, folder: Path) -> Iterator[str]:
    import jsonschema

    for error in jsonschema.Draft7Validator(_crd(folder, document["kind"], version)).iter_errors(
        document
    ):
        yield f"{'.'.join(map(str, error.path))}: {error.message}"


@cache
def _crd(folder: Path, kind: str, version: str) -> Any:
    """A definition's schema, closed: a field that it doesn't have is an error, as with an API
    server that validates strictly."""
    (file,) = folder.glob(f"serving.kserve.io_{kind.lower()}s.yaml.gz")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    found = yaml.load(gzip.decompress(file.read_bytes()), Loader=loader)
    (made,) = (item for item in found["spec"]["versions"] if item["name"] == version)
    schema = made["schema"]["openAPIV3Schema"]
    schema["properties"]["metadata"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": 1}
    return _closed(schema)


def _closed(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: _closed(value) for key, value in schema.items()}
    if isinstance(made.get("properties"), dict) and not made.get(
        "x-kubernetes-preserve-unknown-fields"
    ):
        made.setdefault("additionalProperties", False)
    if made.pop("x-kubernetes-int-or-string", None):
        made.pop("type", None)
        made["anyOf"] = [{"type": "integer"}, {"type": "string"}]
    return made
