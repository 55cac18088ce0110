"""TensorRT artifacts to package: deferred ones as the emitter writes them, and what stands for a
built one where no GPU is."""

from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from converter.check.reference import ReferenceOutputs
from converter.ir.model import Model
from converter.protocols.emitter import Artifact
from converter.protocols.server import Evidence, Packaged
from converter.runtime.ort import OrtSession
from converter.samples import Samples
from emitters.serving.triton.server import TritonServer
from emitters.tensorrt import deferred
from emitters.tensorrt.options import EngineOptions
from emitters.tensorrt.profiles import profiles_of
from emitters.tensorrt.shape_inputs import Values
from tests.serving.models import adder, classifier, make_request, samples_for

NONE: Values = MappingProxyType({})

VERSION = "10.7.0.23"
"""Of a TensorRT in the table of releases."""


def deferred_artifact(model: Model, folder: Path, precision: str = "fp32",
                      values: Values = NONE, **fields: Any) -> Artifact:  # fmt: skip
    """What the emitter writes where no engine can be built."""
    request = make_request(**fields)
    options = EngineOptions.of(request, model, precision, None, values)
    return deferred.write(model, folder / "tensorrt" / precision, precision, request, options)


def stand_in_plan(folder: Path, head: bytes = b"ftrt") -> Path:
    """Bytes that begin as a plan of TensorRT does, for tests of what lies around a plan."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "model.plan"
    path.write_bytes(head + bytes(20) + bytes([10, 7, 0, 23]) + bytes(100))
    return path


def built_artifact(model: Model, folder: Path, precision: str = "fp32", **fields: Any) -> Artifact:
    """An artifact as of a GPU machine, with bytes in the place of the plan."""
    path = stand_in_plan(folder / "built")
    request = make_request(**fields)
    details = {
        "engine": "built", "library": f"tensorrt {VERSION}",
        "options": EngineOptions.of(request, model, precision).said(),
        "profiles": [dict(profile) for profile in profiles_of(request, model)],
    }  # fmt: skip
    return Artifact("tensorrt", precision, path, [path], details)


def reference_of(model: Model, samples: Samples, folder: Path) -> ReferenceOutputs:
    """The model's own outputs, in the place of a source framework's."""
    session = OrtSession(model.graph)
    try:
        return ReferenceOutputs.compute(session, samples, folder)
    finally:
        session.close()


def package_artifact(
    artifact: Artifact, model: Model, folder: Path, *, name: str = "tiny", checked: bool = True,
    **fields: Any,
) -> Packaged:  # fmt: skip
    """The artifact as ``<folder>/repository/<name>``."""
    chosen, evidence = samples_for(model), Evidence()
    if checked:
        reference = reference_of(model, chosen, folder / f"reference-{name}")
        evidence = Evidence(reference=reference)
    request = make_request(name, **fields)
    repository = folder / "repository"
    return TritonServer().package(artifact, model, chosen, request, repository, evidence)


def pack(
    folder: Path, model: Model | None = None, precision: str = "fp32", *, built: bool = False,
    checked: bool = True, name: str = "tiny", values: Values = NONE, **fields: Any,
) -> Packaged:  # fmt: skip
    """A model's artifact, deferred or ``built``, and its folder, both of one request."""
    model = adder() if model is None else model
    if built:
        artifact = built_artifact(model, folder, precision, **fields)
    else:
        artifact = deferred_artifact(model, folder, precision, values, **fields)
    return package_artifact(artifact, model, folder, name=name, checked=checked, **fields)


def batches(*sizes: Sequence[int]) -> list[str]:
    """``--shapes`` of the input ``x`` of three numbers, for each smallest, best, largest batch."""
    return [f"x:{','.join(f'{size}x3' for size in profile)}" for profile in sizes]


def deferred_version(folder: Path, *profiles: Sequence[int], **fields: Any) -> Path:
    """A classifier's version folder, whose engine has these smallest, best and largest batches."""
    shapes = batches(*(profiles or ((1, 2, 4),)))
    return pack(folder, classifier(), shapes=shapes, **fields).path / "1"
